//! The SQL functions: each reads its arguments, calls the layers below and returns rows.

use crate::server::scan::Function;

pub mod admin;
pub mod argument;
mod buried;
pub mod check;
pub mod consumer;
pub mod creator;
mod direct_put;
mod features;
pub mod give_back;
pub mod identity;
mod in_flight;
pub mod look;
mod measures;
pub mod monitor;
pub mod named;
mod on_conflict;
pub mod outcome;
pub mod pooler;
mod priority;
pub mod producer;
pub mod settle;
mod subqueue;
pub mod task_error;
pub mod values;
pub mod waiting;

/// Functions called once per task, which therefore have a plan node of their own.
pub const CALLED_MOST: &[Function] = &[
    producer::sql::put,
    consumer::sql::take,
    settle::sql::ack,
    settle::sql::release,
    settle::sql::bury,
    settle::sql::touch,
    look::sql::peek,
];
