//! Room under a queue's capacity: reserved before tasks are put, see [`crate::parts::capacity`].

use crate::error::{Error, Result};
use crate::parts::capacity::Answer;
use crate::parts::slot;
use crate::parts::slot_id::SlotId;
use crate::parts::waiters::Want;
use crate::parts::waiters::wait::{Deadline, Place, Waited};
use crate::queue::Queue;
use crate::server::{catalog, latch, privileges, process};
use crate::transaction;
use pgrx::PgSqlErrorCode;
use std::time::Duration;

/// How long it is waited for the tasks to be counted, as after the start of the server.
const PATIENCE: i64 = 10_000_000;
/// Before the next look whether they are.
const PAUSE: Duration = Duration::from_millis(10);

/// Room that there is not.
pub struct Lack {
    slot: SlotId,
    /// The queue that lacks it.
    name: String,
    /// For so many tasks.
    tasks: i64,
    /// The caller has put already: those who came later may be waiting for its end.
    precedes: bool,
    /// Nobody but the caller's own transaction could make it.
    is_for_good: bool,
}

/// Reserves room for `tasks` that are about to be put, where a queue has a capacity. Gives what is
/// lacking if there is not enough.
pub fn reserve(queue: &Queue, tasks: i64) -> Result<Option<Lack>> {
    let Some(capacity) = queue.features().capacity() else { return Ok(None) };
    if tasks > capacity {
        return Err(too_many(queue, tasks, capacity));
    }
    if !privileges::may_insert(queue.table) {
        // The statement will say so, with nothing reserved meanwhile.
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

/// Reserves room for a row that has been inserted, unless the caller has done so before; refuses it
/// if there is none. What another server has committed is not refused.
pub fn admit(queue: &Queue) -> Result<()> {
    let Some(capacity) = queue.features().capacity() else { return Ok(()) };
    let lacking = transaction::growth(queue.slot).lacking(0);
    if lacking <= 0 || process::replays() || is_reserved(queue, lacking, capacity)? {
        return Ok(());
    }
    Err(full(queue, capacity))
}

/// Gives back what this (sub)transaction has reserved and not used.
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
        queue.give_back(unused);
    }
}

/// Waits for a capacity until nothing is lacking; false if the deadline passes first. `again` tries again, told the name of
/// the queue; `end_transaction` ends the transaction before the sleep, if it can.
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
    /// Stands in line until there is room, which is then reserved for this transaction, or until
    /// there is another reason to look again; false if there is none until the deadline.
    /// `over_transaction_end`: ends the transaction without leaving the line.
    fn wait(&self, deadline: Deadline, over_transaction_end: impl FnOnce()) -> Result<bool> {
        if self.is_for_good || deadline.is_over() {
            return Ok(false);
        }
        let place =
            Place::join_at(self.slot, &self.name, Want::Capacity(self.tasks), self.precedes)?;
        place.over_transaction_end(over_transaction_end);
        Ok(match place.room(deadline, &self.name)? {
            Waited::Granted(tasks) => {
                transaction::note(self.slot, |delta| delta.capacity.reserved += tasks);
                true
            }
            Waited::Look => true,
            Waited::InVain => false,
        })
    }
}

/// Whether room for `tasks` more could be reserved. Waits for the tasks to be counted.
fn is_reserved(queue: &Queue, tasks: i64, capacity: i64) -> Result<bool> {
    let mut deadline = None;
    loop {
        let growth = transaction::growth(queue.slot);
        let answer = slot::lock(queue.slot)
            .map_or(Answer::Uncounted, |mut slot| slot.reserve(tasks, capacity, &growth));
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
                latch::wait(Some(PAUSE), true);
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
        format!("{tasks} tasks can never be in queue \"{}\" at once", queue.name),
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
