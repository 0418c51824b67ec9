//! What a queue is, without any PostgreSQL: states, options, definitions.

pub mod change;
pub mod definition;
pub mod features;
pub mod options;
pub mod status;
