//! The number of the last event that was traced, see [`crate::trace`].

use std::sync::atomic::Ordering;

/// The next number: under any lock or none.
pub fn next() -> u64 {
    super::segment().traced.fetch_add(1, Ordering::Relaxed) + 1
}
