//! The harness of the integration tests. It has connections, a queue that checks itself when its test ends, consumers
//! that wait in a thread or in a process of their own, and the server for the crash tests.
//!
//! PGHOST, PGPORT, PGUSER and PGDATABASE name the server; `pgrx-embed/test` sets them.

pub mod additions;
mod amcheck;
mod ask;
mod child;
mod client;
mod cluster;
mod command;
mod database;
pub mod docs;
mod errors;
pub mod every_function;
pub mod every_type;
mod heard;
mod memory;
mod producer;
mod queue;
mod random;
mod reads;
mod refused;
mod repeat;
mod role;
mod served;
mod server;
mod sources;
mod stopped;
mod tasks;
mod tubes;
mod turn;
mod waiter;
mod watcher;
mod workers;

pub use amcheck::index_checks;
pub use ask::{ask, ask_one};
pub use child::Consumer;
pub use client::{
    Run, config_at, connect, connect_as, connect_to, database, open, pid, scalar, unique, values,
    wait_until,
};
pub use cluster::Cluster;
pub use command::server_command;
pub use database::Database;
pub use errors::{code, db_error, expect_error, try_sql};
pub use heard::Heard;
pub use memory::{lift_memory_limit, limit_memory, private_memory};
pub use producer::empty_tasks;
pub use queue::{COLUMNS, LETTERS, Queue};
pub use random::{chosen_seed, seed};
pub use reads::Reads;
pub use refused::refused;
pub use repeat::{drain, enough_kicks, enough_takes, mark, repeat_until};
pub use role::Role;
pub use server::Server;
pub use sources::{root, sources, texts};
pub use stopped::Stopped;
pub use tasks::{ack, id, ids, put, release, status, take, take_all};
pub use tubes::{FEW, Tubes};
pub use turn::{allow, alone};
pub use waiter::{Outcome, Waiter, is_connected, is_waiting};
pub use watcher::Watcher;
pub use workers::{end_worker, state, wait_running, workers};

pub use postgres::{Client, Config};
pub use serde_json::{Value, json};
