//! Reads a queue's table for monitoring, in scans that run no code of the table's owner. A statement would run such
//! code with the caller's rights: the planner evaluates functions declared immutable in predicates of indexes, and the
//! executor applies the policies of row security. The caller checks that the role is allowed to see the rows, see
//! [`crate::server::privileges::may_monitor`].

use crate::error::{Error, Result};
use crate::parts::slot::QueueGuard;
use crate::parts::{clock, slot};
use crate::queue::{self, Queue, Start};
use crate::server::heap::{Bound, Is};
use crate::server::memory::Scratch;
use crate::server::relation::{self, LockMode, Relation};
use crate::server::row::{Row, Tuple};
use crate::server::snapshot::Snapshot;
use crate::server::types::Uuid;
use crate::server::value::Value;
use crate::server::{operators, privileges, time, xact};
use pgrx::pg_sys::Oid;
use std::collections::BTreeMap;
use xqueue_core::field::Field;
use xqueue_core::marks::priorities::{self, KnownPriorities};
use xqueue_core::position::{FIRST, Group, Position};
use xqueue_core::statement::Index;
use xqueue_core::status::Status;

/// The error shown for a queue whose table could not be read, see [`Sight::Busy`].
pub const BUSY: &str = "busy: another session has locked the table, or an index of it";

/// Result of reading a queue's table for a monitor.
pub enum Sight<T> {
    Seen(T),
    /// Another session holds a lock on the table, or on one of its indexes, that a read would wait for.
    Busy,
    /// The role is not allowed to see the table, or the table cannot be used at present. The latter is shown as the
    /// queue's error and does not hide other queues.
    Hidden,
}

impl<T> Sight<T> {
    pub fn seen(self) -> Option<T> {
        match self {
            Sight::Seen(seen) => Some(seen),
            Sight::Busy | Sight::Hidden => None,
        }
    }
}

/// Reads the table of a queue for a monitor, without waiting for a lock and without keeping one. Checks privileges
/// before it takes the lock, so that a role locks no table of others, and again under the lock.
pub fn sight<T>(table: Oid, see: impl FnOnce(&Queue) -> Result<T>) -> Result<Sight<T>> {
    sight_of(table, privileges::may_monitor, see)
}

/// Reads the table like [`sight`] for a role that `may_see` allows to see it.
pub fn sight_of<T>(
    table: Oid,
    may_see: fn(Oid) -> bool,
    see: impl FnOnce(&Queue) -> Result<T>,
) -> Result<Sight<T>> {
    if !may_see(table) {
        return Ok(Sight::Hidden);
    }
    let look = || {
        if !relation::try_lock_whole(table, LockMode::AccessShare) {
            return Sight::Busy;
        }
        let readable =
            Relation::open(table, LockMode::None).is_some_and(|table| table.is_readable());
        let queue = match readable && may_see(table) {
            true => queue::find(table).ok().flatten(),
            false => None,
        };
        queue.and_then(|queue| see(&queue).ok()).map_or(Sight::Hidden, Sight::Seen)
    };
    match xact::look_in_subtransaction(look) {
        Err(failure) if failure.is_canceled() => Err(Error::new(failure.code, failure.message)),
        sight => Ok(sight.unwrap_or(Sight::Hidden)),
    }
}

/// Number of taken tasks by the session that holds them; None for tasks without a session.
pub type Holders = BTreeMap<Option<Uuid>, i64>;

/// Returns the sessions that hold tasks of a queue, with the number of their tasks.
pub fn holders(queue: &Queue) -> Result<Holders> {
    let mut holders = Holders::new();
    taken(queue, |row| {
        *holders.entry(queue.holder_of(row)).or_default() += 1;
        true
    })?;
    Ok(holders)
}

/// Returns whether a session holds tasks of a queue. Without the index of the taken tasks that is an error: a look at
/// all rows of a stranger's table takes any time.
pub fn holds(queue: &Queue, session: Uuid) -> Result<bool> {
    let relation = table(queue)?;
    let index =
        queue.index(&relation, Index::Taken).ok_or_else(|| queue::not_a_queue(queue.table))?;
    let of_session = Bound { is: Is::Equal, value: queue.owner_value(session) };
    let mut holds = false;
    relation.scan_by(index, &[of_session], &Snapshot::of_statement(), |row| {
        holds = holder(row, queue) == Some(Some(session));
        !holds
    });
    Ok(holds)
}

/// Passes the taken tasks of a queue to `see` until it returns false.
pub fn taken(queue: &Queue, see: impl FnMut(&Tuple) -> bool) -> Result<()> {
    in_state(queue, Status::Taken, Index::Taken, see)
}

/// Passes the buried tasks of a queue to `see`, in the order in which they are dug out, until it returns false.
pub fn buried(queue: &Queue, see: impl FnMut(&Tuple) -> bool) -> Result<()> {
    in_state(queue, Status::Buried, Index::Buried, see)
}

/// Passes the tasks in a state to `see` until it returns false: by their index if it exists, else by a scan of all
/// rows.
fn in_state(
    queue: &Queue,
    status: Status,
    index: Index,
    mut see: impl FnMut(&Tuple) -> bool,
) -> Result<()> {
    let relation = table(queue)?;
    let (snapshot, scratch) = (Snapshot::of_statement(), Scratch::new());
    let is_in = |row: &Tuple| queue.status_read(queue.value_of(row, Field::Status)) == Some(status);
    let mut see = |row: &Tuple| scratch.run(|| !is_in(row) || see(row));
    match queue.index(&relation, index) {
        Some(index) => relation.scan_by(index, &[], &snapshot, see),
        None => drop(relation.scan(&snapshot, &mut see)),
    }
    Ok(())
}

/// Maximum number of tasks examined to find the oldest one, for each priority if marks go by priority. The first task
/// of the index is not always the oldest: a task that was given back precedes tasks that have been ready for longer.
const LOOKED_AT: usize = 100;

/// Returns for how long the oldest of the next ready tasks has been ready, in microseconds. Examines up to `LOOKED_AT`
/// tasks of each priority, for up to `priorities::LIMIT` priorities; in sub-queues, the first tasks of all. None if no task is ready, or the ready tasks have
/// no index.
pub fn oldest_ready(queue: &Queue) -> Result<Option<i64>> {
    let relation = table(queue)?;
    // The index of sub-queues has no order by priority.
    let has_subqueues = queue.features().has_subqueues();
    let wanted = if has_subqueues { queue.sql.order_index() } else { Index::Ready };
    let Some(index) = queue.index(&relation, wanted) else { return Ok(None) };
    let (snapshot, now) = (Snapshot::of_statement(), time::now());
    let mut oldest = None;
    // Examines the first tasks within the bounds, and returns their priority.
    let mut look = |bounds: Vec<Bound>| -> Option<i64> {
        let (mut left, mut first) = (LOOKED_AT, None);
        relation.scan_by(index, &bounds, &snapshot, |row| {
            let priority = queue.value_of(row, Field::Priority).filter(|_| !has_subqueues);
            let priority = queue.priority(priority);
            if first.is_some_and(|first| first != priority) {
                return false;
            }
            first = Some(priority);
            let is_ready = queue.status_of(row).is_ok_and(|status| status == Status::Ready);
            let age = row.writer().and_then(|writer| clock::age(writer, now));
            oldest = oldest.max(age.filter(|_| is_ready));
            left -= 1;
            left > 0
        });
        first.flatten()
    };
    match starts(queue, now) {
        Some(starts) => {
            for bounds in starts {
                look(bounds);
            }
        }
        None => {
            let mut from = look(vec![]);
            for _ in 1..priorities::LIMIT {
                let next = from.and_then(|priority| priority.checked_add(1));
                let Some(value) = next.and_then(|next| queue.priority_value(next)) else { break };
                from = look(vec![Bound { is: Is::AtLeast, value }]);
            }
        }
    }
    Ok(oldest)
}

/// Returns the marks of the ready tasks as bounds of an index scan, for each priority. None if not all priorities are
/// known.
fn starts<'m>(queue: &Queue, now: i64) -> Option<Vec<Vec<Bound<'m>>>> {
    if queue.features().has_subqueues() {
        return None;
    }
    // No memory is allocated under the queue's lock, so room is reserved first.
    let room = Vec::with_capacity(priorities::LIMIT);
    let mut marks: Vec<(Option<i64>, Position)> = Vec::with_capacity(priorities::LIMIT);
    let mut slot = slot::lock(queue.slot)?;
    let mut mark = |slot: &mut QueueGuard, priority| {
        marks.push((priority, slot.marks().marked(Group::Ready { tube: None, priority })));
    };
    if queue.by_priority {
        let known = slot.marks().known_priorities(None, room, false, now);
        if let KnownPriorities::All(known) = &known {
            known.iter().for_each(|priority| mark(&mut slot, Some(*priority)));
        }
        drop(slot);
        if !matches!(known, KnownPriorities::All(_)) {
            return None;
        }
    } else {
        mark(&mut slot, None);
        drop(slot);
    }
    let start = |(priority, from): (Option<i64>, Position)| {
        let priority = priority.and_then(|priority| queue.priority_value(priority));
        let of_priority = priority.map(|value| Bound { is: Is::Equal, value });
        let from = Some(from).filter(|from| *from != FIRST).and_then(|from| queue.start_at(from));
        let from = from.into_iter().flat_map(Start::at_least);
        of_priority.into_iter().chain(from).collect()
    };
    Some(marks.into_iter().map(start).collect())
}

/// Returns the session that holds a task; the inner None stands for a taken task without a session. None if the row is
/// not a taken task.
pub fn holder(row: &impl Row, queue: &Queue) -> Option<Option<Uuid>> {
    let status = queue.status_read(queue.value_of(row, Field::Status));
    (status? == Status::Taken).then(|| queue.holder_of(row))
}

/// Passes the task with this key to `see`, if it exists.
pub fn find<T>(
    queue: &Queue,
    key: &[Value],
    see: impl FnOnce(&Tuple) -> Result<T>,
) -> Result<Option<T>> {
    let relation = table(queue)?;
    let snapshot = Snapshot::of_statement();
    let (mut see, mut seen) = (Some(see), None);
    let mut once = |row: &Tuple| {
        seen = see.take().map(|see| see(row));
        false
    };
    match queue.key_index(&relation) {
        Some(index) => {
            let bounds = key.iter().map(|value| Bound { is: Is::Equal, value: *value });
            let bounds: Vec<Bound> = bounds.collect();
            relation.scan_by(index, &bounds, &snapshot, once);
        }
        None => {
            let scratch = Scratch::new();
            relation.scan(&snapshot, |row| !scratch.run(|| has_key(row, key, queue)) || once(row));
        }
    }
    seen.transpose()
}

fn has_key(row: &Tuple, key: &[Value], queue: &Queue) -> bool {
    let is_equal = |(wanted, column): (&Value, &queue::KeyType)| {
        let value = row.value(column.number);
        value.is_some_and(|value| operators::equal(value, *wanted, column.collation))
    };
    key.iter().zip(&queue.key).all(is_equal)
}

/// Opens the table of a queue, on which the caller holds a lock.
pub fn table(queue: &Queue) -> Result<Relation> {
    let table = Relation::open(queue.table, LockMode::AccessShare);
    let table = table.ok_or_else(|| queue::not_a_queue(queue.table))?;
    if table.is_readable() {
        return Ok(table);
    }
    Err(Error::on_standby(format!("unlogged table {} cannot be read", queue.name)))
}
