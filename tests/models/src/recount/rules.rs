//! The conditions that a recount rests on.

/// Whether a snapshot does not see what a transaction has done: it is none of those before `next` that had ended.
pub fn hides(next: u32, is_in_progress: bool, xid: u32) -> bool {
    xid >= next || is_in_progress
}

/// Whether the counters may be exact, once they are what was counted.
pub fn may_be_exact(is_prepared: bool, is_looking: bool, is_wanted: bool) -> bool {
    !is_prepared && !is_looking && !is_wanted
}
