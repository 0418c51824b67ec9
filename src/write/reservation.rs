//! Room under a queue's capacity. It is reserved before tasks are put, see [`crate::parts::capacity`].

use crate::error::{Error, Result};
use crate::parts::capacity::Answer;
use crate::parts::slot;
use crate::parts::waiters::Want;
use crate::parts::waiters::wait::{Deadline, WaitEntry, Waited};
use crate::queue::{Queue, recount};
use crate::server::{catalog, latch, privileges, process};
use crate::transaction;
use pgrx::PgSqlErrorCode;
use std::time::Duration;
use xqueue_core::slot_id::SlotId;

/// Maximum wait for the tasks to be counted, for example after the start of the server (µs).
const PATIENCE: i64 = 10_000_000;
/// Interval between checks whether the tasks are counted.
const PAUSE: Duration = Duration::from_millis(10);

/// A lack of room under the capacity.
pub struct Lack {
    slot: SlotId,
    /// Name of the queue.
    name: String,
    /// Number of tasks that lack room.
    tasks: i64,
    /// The caller has already put tasks: producers that came later are possibly waiting for its end.
    precedes: bool,
    /// Only the caller's own transaction could make room.
    is_for_good: bool,
}

/// Reserves room for `tasks` to be put, if the queue has a capacity. Returns a `Lack` if there is not enough room.
pub fn reserve(queue: &Queue, tasks: i64) -> Result<Option<Lack>> {
    let Some(capacity) = queue.features().capacity() else { return Ok(None) };
    if tasks > capacity {
        return Err(too_many(queue, tasks, capacity));
    }
    if !privileges::may_insert(queue.table) {
        // The statement will report it, with nothing reserved meanwhile.
        return Ok(None);
    }
    let growth = transaction::growth(queue.slot);
    let lacking = growth.lacking(tasks);
    if lacking <= 0 || is_reserved(queue, lacking, capacity)? {
        return Ok(None);
    }
    Ok(Some(Lack {
        slot: queue.slot,
        name: queue.name.clone(),
        tasks: lacking,
        precedes: growth.reserved > 0,
        is_for_good: growth.replaces || growth.redefines || growth.tasks + tasks > capacity,
    }))
}

/// Reserves room for a row that has been inserted, unless the caller has reserved it already. Refuses the row if there
/// is no room, but never a row that replication applies.
pub fn admit(queue: &Queue) -> Result<()> {
    let Some(capacity) = queue.features().capacity() else { return Ok(()) };
    let lacking = transaction::growth(queue.slot).lacking(0);
    if lacking <= 0 || process::replays() || is_reserved(queue, lacking, capacity)? {
        return Ok(());
    }
    Err(full(queue, capacity))
}

/// Gives back the room that this (sub)transaction has reserved and not used.
pub fn give_back(slot: SlotId) {
    let surplus = transaction::growth(slot).surplus();
    if surplus <= 0 {
        return;
    }
    let unused = transaction::note(slot, |delta| {
        let unused = surplus.min(delta.capacity.reserved);
        delta.capacity.reserved -= unused;
        unused
    });
    if let Some(mut queue) = slot::lock(slot) {
        queue.room().give_back(unused);
    }
}

/// Waits until there is room; returns false if the deadline passes first. `again` repeats the call, given the queue's
/// name. `end_transaction` ends the transaction before the sleep, if possible.
pub fn wait(
    mut lack: Option<Lack>,
    deadline: Deadline,
    mut again: impl FnMut(&str) -> Result<Option<Lack>>,
    end_transaction: impl Fn(),
) -> Result<bool> {
    while let Some(lacking) = lack {
        if !lacking.wait(deadline, &end_transaction)? {
            return Ok(false);
        }
        lack = again(&lacking.name)?;
        give_back(lacking.slot);
    }
    Ok(true)
}

impl Lack {
    /// Waits in the queue of producers until there is room, which is then reserved for this transaction, or until there
    /// is another reason to check again. Returns false if the deadline passes first. `over_transaction_end` ends the
    /// transaction without leaving the wait queue.
    fn wait(&self, deadline: Deadline, over_transaction_end: impl FnOnce()) -> Result<bool> {
        if self.is_for_good || deadline.is_over() {
            return Ok(false);
        }
        let place =
            WaitEntry::join_at(self.slot, &self.name, Want::Capacity(self.tasks), self.precedes)?;
        place.over_transaction_end(over_transaction_end);
        Ok(match place.room(deadline, &self.name)? {
            Waited::Granted(tasks) => {
                transaction::note(self.slot, |delta| delta.capacity.reserved += tasks);
                true
            }
            Waited::Check => true,
            Waited::TooLate => false,
        })
    }
}

/// Returns whether room for `tasks` more was reserved. Waits until the tasks have been counted.
fn is_reserved(queue: &Queue, tasks: i64, capacity: i64) -> Result<bool> {
    let mut deadline = None;
    loop {
        let growth = transaction::growth(queue.slot);
        let answer = slot::lock(queue.slot)
            .map_or(Answer::Uncounted, |mut slot| slot.room().reserve(tasks, capacity, &growth));
        if answer == Answer::Uncounted {
            recount::hasten(queue.slot);
        }
        match answer {
            Answer::Reserved => {
                transaction::note(queue.slot, |delta| delta.capacity.reserved += tasks);
                return Ok(true);
            }
            Answer::Full => return Ok(false),
            Answer::Unresolved => return Err(unresolved(queue)),
            Answer::Uncounted => {
                let deadline = deadline.get_or_insert_with(|| Deadline::after(Some(PATIENCE)));
                if deadline.is_over() {
                    return Err(uncounted(queue));
                }
                latch::wait(latch::Reason::Other, Some(PAUSE), true);
            }
        }
    }
}

fn raise_it_to(capacity: i64, queue: &Queue) -> String {
    let options = format!("{{\"features\": {{\"capacity\": {capacity}}}}}");
    format!(
        "SELECT xqueue.upgrade({}, {});",
        catalog::quote_literal(&queue.name),
        catalog::quote_literal(&options)
    )
}

fn full(queue: &Queue, capacity: i64) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
        format!("queue \"{}\" is full", queue.name),
    )
    .detail(format!(
        "Its capacity is {capacity}; producers get room in the order in which they came."
    ))
    .hint(format!(
        "xqueue.put() with a timeout waits for room. To raise the capacity: {}",
        raise_it_to(capacity.saturating_mul(2), queue)
    ))
}

fn too_many(queue: &Queue, tasks: i64, capacity: i64) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
        format!("{tasks} tasks can never be in queue \"{}\" together", queue.name),
    )
    .detail(format!("Its capacity is {capacity}."))
    .hint(format!("Put fewer in one call, or raise the capacity: {}", raise_it_to(tasks, queue)))
}

fn uncounted(queue: &Queue) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("the tasks of queue \"{}\" have not been counted yet", queue.name),
    )
    .detail("Until then it is not known whether there is room under its capacity.")
    .hint(
        "Try again: after the start of the server and after ALTER TABLE … ENABLE TRIGGER the \
         worker counts them. xqueue.state() tells whether it runs.",
    )
}

fn unresolved(queue: &Queue) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("it is not known how many tasks queue \"{}\" is about to have", queue.name),
    )
    .detail("A transaction that was prepared before the server started may have put some.")
    .hint("See pg_prepared_xacts: COMMIT PREPARED or ROLLBACK PREPARED what is there.")
}
