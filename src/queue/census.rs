//! Reads a queue's table for monitoring, in scans that run no code of the table's owner. A statement would: to plan
//! it evaluates functions in predicates of indexes that claim to be immutable, and it applies the policies of row
//! security, all with the rights of the caller. Whether the role may see the rows is checked by the caller, see
//! [`crate::server::privileges::may_monitor`].

use crate::error::{Error, Result};
use crate::model::field::Field;
use crate::model::status::Status;
use crate::queue::{self, Queue};
use crate::server::heap::{Bound, Is};
use crate::server::memory::Scratch;
use crate::server::operators;
use crate::server::relation::{Lock, Relation, Snapshot};
use crate::server::row::{Row, Tuple};
use crate::server::types::Uuid;
use crate::server::value::Value;
use crate::statement::Index;
use std::collections::BTreeMap;

/// Numbers of taken tasks by the session that holds them; None for none.
pub type Holders = BTreeMap<Option<Uuid>, i64>;

/// Returns the sessions that hold tasks of a queue.
pub fn holders(queue: &Queue) -> Result<Holders> {
    let mut holders = Holders::new();
    taken(queue, |row| {
        *holders.entry(queue.value_of(row, Field::Owner).map(Value::to_uuid)).or_default() += 1;
        true
    })?;
    Ok(holders)
}

/// Shows `see` the taken tasks of a queue, until it is false: by the index of taken tasks if it exists, else by a scan
/// of all rows.
pub fn taken(queue: &Queue, mut see: impl FnMut(&Tuple) -> bool) -> Result<()> {
    let relation = table(queue)?;
    let (snapshot, scratch) = (Snapshot::of_statement(), Scratch::new());
    let mut see = |row: &Tuple| scratch.run(|| holder(row, queue).is_none() || see(row));
    match queue.index(&relation, Index::Taken) {
        Some(index) => relation.scan_by(index, &[], &snapshot, see),
        None => drop(relation.scan(&snapshot, &mut see)),
    }
    Ok(())
}

/// Returns the session that holds a task, which is None for a task without one; None if the row is not a taken task.
pub fn holder(row: &impl Row, queue: &Queue) -> Option<Option<Uuid>> {
    let status = queue.status_read(queue.value_of(row, Field::Status));
    (status? == Status::Taken).then(|| queue.value_of(row, Field::Owner).map(Value::to_uuid))
}

/// Shows `see` the task with this key, if there is one.
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
    let table = Relation::open(queue.table, Lock::AccessShare);
    let table = table.ok_or_else(|| queue::not_a_queue(queue.table))?;
    if table.is_readable() {
        return Ok(table);
    }
    Err(Error::on_standby(format!("unlogged table {} cannot be read", queue.name)))
}
