//! When the worker has to act for a queue, under the queue's lock.

/// Never: an instant after all others.
pub const NEVER: i64 = i64::MAX;

#[repr(C)]
pub struct Shared {
    /// The worker's next instant to act, `NEVER` if there is none.
    pub(super) due: i64,
}

impl Shared {
    /// What there is to do is not known yet.
    pub(in crate::parts) fn at_once() -> Shared {
        Shared { due: i64::MIN }
    }
}
