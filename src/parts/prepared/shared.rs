//! What a queue's slot says of prepared transactions, under the queue's lock.

#[repr(C)]
pub struct Shared {
    /// One may have changed the table: what it did is not counted yet.
    pub(in crate::parts) may_change: bool,
    /// The worker is looking whether one has it locked.
    pub(in crate::parts) is_looked_for: bool,
}

impl Shared {
    /// As after the start of the server.
    pub(in crate::parts) fn unknown() -> Shared {
        Shared { may_change: true, is_looked_for: false }
    }
}
