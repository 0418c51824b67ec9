//! Next instant of work for a queue, under the queue's lock.

/// Never: later than all instants.
pub const NEVER: i64 = i64::MAX;

#[repr(C)]
pub struct Shared {
    /// Next instant at which the worker acts, `NEVER` if there is none.
    pub(super) due: i64,
    /// Left by a worker that has given its place up.
    pub(super) kept: Option<KeptPause>,
    /// Counting its tasks takes long.
    pub(super) counts_apart: bool,
}

/// A pause after failures: how long, and until when (µs).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct KeptPause {
    pub pause: i64,
    pub until: i64,
}

impl Shared {
    /// Lets the worker look at once, as nothing is known yet.
    pub(in crate::parts) fn at_once() -> Shared {
        Shared { due: i64::MIN, kept: None, counts_apart: false }
    }
}
