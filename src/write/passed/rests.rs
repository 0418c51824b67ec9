//! Pauses before a session tries a task again that it could not write.

use crate::server::time;
use crate::server::xact::Failure;
use std::cell::RefCell;
use xqueue_core::slot_id::SlotId;

/// The first and the longest pause (µs). Each failure doubles the pause.
const PAUSES: (i64, i64) = (100_000, 60_000_000);

/// Maximum number of resting tasks of a session. Each take tries the other refusing tasks, up to a limit.
const RESTS_LIMIT: usize = 1000;

/// Maximum number of characters that are kept of an error message, which can quote a whole task.
const MESSAGE_LIMIT: usize = 1000;

/// A task that rests.
struct Rest {
    slot: SlotId,
    key: u64,
    pause: i64,
    until: i64,
    failure: Failure,
}

thread_local! {
    /// The tasks that this session could not write, the last one first.
    static RESTS: RefCell<Vec<Rest>> = const { RefCell::new(Vec::new()) };
}

/// Returns whether a task of a queue rests. A task whose pause has ended does not count: it can be gone, and only a
/// statement for all tasks shows whether it is.
pub(super) fn has_rests(slot: SlotId) -> bool {
    RESTS.with_borrow(|rests| {
        let mut rests = rests.iter().filter(|rest| rest.slot == slot);
        rests.any(|rest| rest.until > time::now())
    })
}

/// Returns why a task could not be written, if it rests.
pub(super) fn rest_of(slot: SlotId, key: u64) -> Option<Failure> {
    let now = time::now();
    RESTS.with_borrow(|rests| {
        let rest = rests.iter().find(|rest| (rest.slot, rest.key) == (slot, key))?;
        (rest.until > now).then(|| rest.failure.clone())
    })
}

/// Lets a task rest that could not be written, each time for twice as long.
pub(super) fn rest(slot: SlotId, key: u64, failure: &Failure) {
    RESTS.with_borrow_mut(|rests| {
        let known = rests.iter().position(|rest| (rest.slot, rest.key) == (slot, key));
        let last = known.map_or(0, |at| rests.remove(at).pause);
        let pause = (last * 2).clamp(PAUSES.0, PAUSES.1);
        let now = time::now();
        if rests.len() >= RESTS_LIMIT {
            // A resting task is not evicted: otherwise each take would try all of them in turn.
            match rests.iter().rposition(|rest| rest.until <= now) {
                Some(ended) => drop(rests.remove(ended)),
                None => return,
            }
        }
        let message = failure.message.chars().take(MESSAGE_LIMIT).collect();
        let (until, failure) = (now.saturating_add(pause), Failure { code: failure.code, message });
        rests.insert(0, Rest { slot, key, pause, until, failure });
    });
}

pub(super) fn has_any() -> bool {
    RESTS.with_borrow(|rests| !rests.is_empty())
}

pub(super) fn end_rest(slot: SlotId, key: u64) {
    RESTS.with_borrow_mut(|rests| rests.retain(|rest| (rest.slot, rest.key) != (slot, key)));
}
