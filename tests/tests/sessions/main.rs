//! Sessions and what they hold: who owns a task, and what becomes of it when a connection ends.

mod connections200;
mod connections_lost;
mod held;
mod identified;
mod many_sessions;
mod ownership;
mod pgbouncer;
