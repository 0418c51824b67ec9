//! What builds for tests count, see [`crate::trace`].

use crate::server::shared_memory::{Shared, Zeroed};
use crate::trace::Shortcut;
use std::sync::atomic::{AtomicU64, Ordering};

/// All-zero bytes are valid.
pub struct Traced {
    /// The number of the last event that was traced.
    last: AtomicU64,
    /// How many tasks each shortcut has changed.
    shortcuts: [AtomicU64; Shortcut::ALL.len()],
}

pub static TRACED: Shared<Traced> = Shared::new();

// SAFETY: numbers.
unsafe impl Zeroed for Traced {}

fn traced() -> &'static Traced {
    &TRACED.get()[0]
}

/// The next number: under any lock or none.
pub fn next() -> u64 {
    traced().last.fetch_add(1, Ordering::Relaxed) + 1
}

pub fn count(shortcut: Shortcut, tasks: usize) {
    traced().shortcuts[shortcut as usize].fetch_add(tasks as u64, Ordering::Relaxed);
}

pub fn counted(shortcut: Shortcut) -> u64 {
    traced().shortcuts[shortcut as usize].load(Ordering::Relaxed)
}
