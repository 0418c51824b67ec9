//! What a queue's slot says of leases, under the queue's lock.

#[repr(C)]
pub struct Shared {
    /// The last of the doubts about what has happened to its tasks, by its number among those of all queues.
    pub(in crate::parts) doubt: u64,
}
