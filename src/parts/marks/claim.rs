//! Candidates that this process was handed out and has not looked at yet: should it end in between, the rings are put
//! aside, as it may have begun to take the task.

use crate::parts::slot;
use std::cell::Cell;
use xqueue_core::slot_id::SlotId;

thread_local! {
    static OPEN: Cell<Option<SlotId>> = const { Cell::new(None) };
}

/// From the candidate's being handed out to the look at it.
pub struct Claim {
    /// Of a take within which this one runs.
    outer: Option<SlotId>,
}

impl Claim {
    /// To be called before it is handed out.
    pub fn begin(slot: SlotId) -> Claim {
        Claim { outer: OPEN.replace(Some(slot)) }
    }

    /// The candidate has been looked at, or there is none: the rings stay.
    pub fn end(self) {
        OPEN.set(self.outer);
        std::mem::forget(self);
    }
}

/// A claim that was not ended.
impl Drop for Claim {
    fn drop(&mut self) {
        abandon();
        OPEN.set(self.outer);
    }
}

/// Puts aside the rings of a claim that was not ended. Called as the (sub)transaction is rolled back too: a process
/// that is told to exit drops nothing.
pub fn abandon() {
    if let Some(slot) = OPEN.take()
        && let Some(mut queue) = slot::lock(slot)
    {
        queue.put_rings_aside();
    }
}
