//! State of a queue's prepared transactions, under the queue's lock.

#[repr(C)]
pub struct PreparedState {
    /// A prepared transaction might have changed the table; its changes are not counted.
    pub(in crate::parts) may_change: bool,
    /// The worker is searching for a prepared transaction that has the table locked.
    pub(in crate::parts) is_looked_for: bool,
}

impl PreparedState {
    /// Returns the state after the start of the server.
    pub(in crate::parts) fn unknown() -> PreparedState {
        PreparedState { may_change: true, is_looked_for: false }
    }

    /// Returns whether a prepared transaction might have changed the table. This also holds while the worker searches,
    /// because one can end unnoticed during the search.
    pub fn is_possible(&self) -> bool {
        self.may_change || self.is_looked_for
    }
}
