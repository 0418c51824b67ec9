//! The conditions that a recount depends on.

/// Returns whether a snapshot does not see a transaction, because it had not ended when the snapshot was taken.
pub fn hides(next: u32, is_in_progress: bool, xid: u32) -> bool {
    xid >= next || is_in_progress
}

/// Returns whether the counters can be exact once a recount has set them.
pub fn may_be_exact(is_prepared: bool, is_looking: bool, is_wanted: bool) -> bool {
    !is_prepared && !is_looking && !is_wanted
}
