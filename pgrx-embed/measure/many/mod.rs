//! Large numbers of queues, databases and waiting connections in one server.

mod connections;
pub mod databases;
pub mod queues;
pub mod restart;
mod server;
pub mod waiters;

/// Names all of these cases on the command line.
pub const ALL: &str = "many";
pub const CASES: [&str; 4] = [queues::CASE, restart::CASE, databases::CASE, waiters::CASE];
