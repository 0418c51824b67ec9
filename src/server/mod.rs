//! The fence around PostgreSQL's C interface: all unsafe code except that for shared memory.
//!
//! Callers get safe functions. An ERROR raised by the server unwinds as a Rust panic, so guards use `Drop` for cleanup
//! that must happen in every case.

pub mod allocator;
pub mod argument;
pub mod callbacks;
pub mod catalog;
pub mod command;
pub mod comment;
pub mod context;
pub mod dependency;
pub mod diagnostics;
pub mod durability;
mod expression;
mod foreign;
pub mod function;
pub mod heap;
pub mod index;
mod index_scan;
pub mod injection;
pub mod json_cast;
pub mod jsonb;
pub mod latch;
pub mod memory;
pub mod nesting;
pub mod operators;
pub mod own_table;
pub mod privileges;
pub mod process;
mod raw;
pub mod record;
pub mod relation;
pub mod row;
pub mod row_type;
pub mod scan;
pub mod setting;
pub mod shared_memory;
pub mod snapshot;
pub mod spi;
pub mod sql_name;
pub mod subscription;
mod systable;
pub mod system;
mod text;
pub mod time;
pub mod time_zone;
pub mod trigger;
pub mod types;
pub mod user;
pub mod value;
pub mod worker;
pub mod xact;
