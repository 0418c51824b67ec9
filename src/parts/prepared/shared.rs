//! Prepared transactions of a queue, under the queue's lock.

#[repr(C)]
pub struct Shared {
    /// One may have changed the table; its changes are not counted.
    pub(in crate::parts) may_change: bool,
    /// The worker is looking for one that has the table locked.
    pub(in crate::parts) is_looked_for: bool,
}

impl Shared {
    /// State after the start of the server.
    pub(in crate::parts) fn unknown() -> Shared {
        Shared { may_change: true, is_looked_for: false }
    }
}
