//! Sessions and their tasks: which session owns a task, and what happens to the task when a connection ends.

mod connections_lost;
mod held;
mod identified;
mod keepalive;
mod ownership;
mod pgbouncer;
