//! The rules of a queue, without PostgreSQL: states, options, definitions, marks, sub-queues, a transaction's changes,
//! metrics, and the SQL text of every statement. The extension adds shared memory and everything that needs the server.
//! The models test this code directly.

#![forbid(unsafe_code)]

pub mod assignments;
pub mod capacity;
pub mod change;
pub mod conflict;
pub mod counters;
pub mod definition;
pub mod features;
pub mod field;
pub mod fields;
pub mod form;
pub mod histogram;
pub mod keys_text;
pub mod level;
pub mod listed;
pub mod marks;
pub mod metrics;
pub mod names;
pub mod numeric;
pub mod options;
pub mod order;
pub mod pause;
pub mod position;
pub mod retry;
pub mod row_id;
pub mod slot_id;
pub mod statement;
pub mod status;
pub mod subqueues;
pub mod time;
pub mod time_column;
pub mod transaction;
pub mod utube;
pub mod uuid7;

#[cfg(test)]
mod tests;
