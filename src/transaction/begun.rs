//! Statements that take tasks, until what they have changed is counted, which is at their end. Of one that fails in the
//! middle nothing else tells, once it is rolled back, that tasks which others have passed over are ready again.

use crate::parts::slot;
use crate::server::allocator::staying;
use crate::server::xact;
use std::cell::RefCell;
use xqueue_core::slot_id::SlotId;

thread_local! {
    /// With their nesting depth, outermost first.
    static BEGUN: RefCell<Vec<(i32, SlotId)>> = const { RefCell::new(Vec::new()) };
}

/// Runs a statement and counts what it has done, both in `work`.
pub fn until_counted<T, E>(slot: SlotId, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let outer = BEGUN.with_borrow(Vec::len);
    staying(|| BEGUN.with_borrow_mut(|begun| begun.push((xact::depth(), slot))));
    let done = work()?;
    BEGUN.with_borrow_mut(|begun| begun.truncate(outer));
    Ok(done)
}

/// A (sub)transaction of this depth has been rolled back, with those within it.
pub fn rolled_back(depth: i32) {
    let next = || BEGUN.with_borrow_mut(|begun| begun.pop_if(|(of, _)| *of >= depth));
    while let Some((_, slot)) = next() {
        if let Some(mut queue) = slot::lock(slot) {
            queue.put_rings_aside();
        }
    }
}
