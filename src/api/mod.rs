//! The SQL functions, thin: arguments in, statements of the registry run, results out.

use crate::server::scan::Function;

pub mod admin;
pub mod argument;
pub mod check;
pub mod consumer;
pub mod creator;
mod direct_put;
mod features;
pub mod identity;
pub mod line;
pub mod look;
pub mod monitor;
pub mod named;
pub mod outcome;
pub mod pooler;
mod priority;
pub mod producer;
pub mod refusal;
pub mod settle;
pub mod values;

/// The functions that are called for each task: worth a plan's node of their own.
pub const CALLED_MOST: &[Function] = &[
    producer::sql::put,
    consumer::sql::take,
    settle::sql::ack,
    settle::sql::release,
    settle::sql::bury,
    settle::sql::touch,
    look::sql::peek,
];
