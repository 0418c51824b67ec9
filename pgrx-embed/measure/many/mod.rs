//! Many of what a server has one or few of: queues, databases, connections that wait.

mod connections;
pub mod databases;
pub mod queues;
pub mod restart;
mod server;
pub mod waiters;

/// On the command line, in place of all of these cases.
pub const ALL: &str = "many";
pub const CASES: [&str; 4] = [queues::CASE, restart::CASE, databases::CASE, waiters::CASE];
