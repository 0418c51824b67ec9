//! Claims on candidates that a ring has handed out to this process and that it has not looked at yet: race 2 of
//! [`xqueue_core::marks::ring`]. If the process ends before the look, the rings are discarded, because it might have
//! begun to take the task.

use crate::parts::slot;
use std::cell::Cell;
use xqueue_core::slot_id::SlotId;

thread_local! {
    static OPEN: Cell<Option<SlotId>> = const { Cell::new(None) };
}

/// A claim, from before the candidate is handed out until the process has looked at it.
pub struct Claim {
    /// The claim of the enclosing take, if this take runs inside another.
    outer: Option<SlotId>,
}

impl Claim {
    /// Begins a claim. Must be called before the candidate is handed out.
    pub fn begin(slot: SlotId) -> Claim {
        Claim { outer: OPEN.replace(Some(slot)) }
    }

    /// Ends the claim after the look, or if there was no candidate; the rings stay in use.
    pub fn end(self) {
        OPEN.set(self.outer);
        std::mem::forget(self);
    }
}

/// Discards the rings if the claim was not ended.
impl Drop for Claim {
    fn drop(&mut self) {
        abandon();
        OPEN.set(self.outer);
    }
}

/// Discards the rings of a claim that was not ended. The rollback of a (sub)transaction calls this too, because a
/// process that is told to exit drops nothing.
pub fn abandon() {
    if let Some(slot) = OPEN.take()
        && let Some(mut queue) = slot::lock(slot)
    {
        queue.marks().discard_rings();
    }
}
