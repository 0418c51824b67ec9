//! Next instant of work for a queue, under the queue's lock.

/// Never: later than all instants.
pub const NEVER: i64 = i64::MAX;

#[repr(C)]
pub struct Shared {
    /// Next instant at which the worker acts, `NEVER` if there is none.
    pub(super) due: i64,
}

impl Shared {
    /// Lets the worker look at once, as nothing is known yet.
    pub(in crate::parts) fn at_once() -> Shared {
        Shared { due: i64::MIN }
    }
}
