//! Statements that take tasks, until their changes are counted at their end. If such a statement fails in the middle,
//! its rollback makes tasks ready again that other takes have passed over, and only this list shows it.

use crate::parts::slot;
use crate::server::allocator::staying;
use crate::server::xact;
use std::cell::RefCell;
use xqueue_core::slot_id::SlotId;

thread_local! {
    /// The statements' nesting depths and queues, outermost first.
    static BEGUN: RefCell<Vec<(i32, SlotId)>> = const { RefCell::new(Vec::new()) };
}

/// Runs `work`, which executes a statement and counts the tasks it changed.
pub fn until_counted<T, E>(slot: SlotId, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let outer = BEGUN.with_borrow(Vec::len);
    staying(|| BEGUN.with_borrow_mut(|begun| begun.push((xact::depth(), slot))));
    let done = work()?;
    BEGUN.with_borrow_mut(|begun| begun.truncate(outer));
    Ok(done)
}

/// Discards the rings of the queues whose statements began in a (sub)transaction of this depth, or within it, which
/// was rolled back.
pub fn rolled_back(depth: i32) {
    let next = || BEGUN.with_borrow_mut(|begun| begun.pop_if(|(of, _)| *of >= depth));
    while let Some((_, slot)) = next() {
        if let Some(mut queue) = slot::lock(slot) {
            queue.marks().discard_rings();
        }
    }
}
