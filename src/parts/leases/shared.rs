//! State of leases in a queue's slot, under the queue's lock.

#[repr(C)]
pub struct LeaseState {
    /// Invalidation epoch: number of the last event after which sessions do not necessarily know all leases they hold,
    /// counted over all queues.
    pub(in crate::parts) epoch: u64,
}

impl LeaseState {
    /// Returns the queue's invalidation epoch. Disabled triggers do not raise it.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}
