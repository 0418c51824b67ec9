//! The number of the last event that was traced, see [`crate::trace`].

/// The next number.
pub fn next() -> u64 {
    let directory = super::directory();
    directory.header.traced += 1;
    directory.header.traced
}
