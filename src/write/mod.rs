//! Changing tasks: by statements or on the direct path, and recording each change.

pub mod assign;
pub mod counting;
pub mod direct;
pub mod front;
mod guard;
mod inserted;
pub mod passed;
pub mod reservation;
pub mod row;
pub mod seen;
pub mod start;
pub mod subqueues;
pub mod time64;
mod trigger;
pub mod unchanged;
mod uuidv7;
