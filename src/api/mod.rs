//! The SQL functions, thin: arguments in, statements of the registry run, results out.

pub mod admin;
pub mod argument;
pub mod check;
pub mod consumer;
pub mod creator;
mod direct_put;
pub mod identity;
pub mod line;
pub mod look;
pub mod monitor;
pub mod named;
pub mod outcome;
pub mod pooler;
pub mod producer;
pub mod refusal;
pub mod settle;
pub mod values;
