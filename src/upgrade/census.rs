//! Reads a table's rows for an upgrade, in scans that run no code of its owner, see [`crate::queue::census`]. The scans
//! see all rows, including rows hidden by row security.

use crate::error::Result;
use crate::queue::{Fitness, StatusColumn, times};
use crate::server::memory::Scratch;
use crate::server::operators;
use crate::server::relation::{ColumnType, Relation};
use crate::server::row::{Row, Tuple};
use crate::server::snapshot::Snapshot;
use crate::server::time;
use crate::server::time_zone::TimeZone;
use crate::server::value::Value;
use std::collections::{BTreeMap, BTreeSet};
use xqueue_core::options::Options;
use xqueue_core::statement::MORTAL;
use xqueue_core::status::Status;

/// Maximum number of foreign status values shown in an error.
const SHOWN: usize = 5;

/// The rows of a table with a status column.
pub struct Tasks<'a> {
    relation: &'a Relation,
    column: ColumnType,
    status: StatusColumn,
}

/// Values of a status column that stand for no state.
#[derive(Default)]
pub struct Foreign {
    /// Some of the values.
    pub values: BTreeSet<String>,
    /// Some rows have NULL.
    pub has_null: bool,
}

/// The taken tasks of one sub-queue.
pub struct Crowd {
    pub label: Option<String>,
    pub count: i64,
}

impl Tasks<'_> {
    pub fn of<'a>(
        relation: &'a Relation,
        column: &ColumnType,
        options: &Options,
    ) -> Result<Tasks<'a>> {
        let status = StatusColumn::new(column, &Fitness { options, queue: None })?;
        Ok(Tasks { relation, column: column.clone(), status })
    }

    pub fn foreign(&self) -> Foreign {
        let mut foreign = Foreign::default();
        each(self.relation, |row| match row.value(self.column.number) {
            None => foreign.has_null = true,
            Some(value) if self.status.read(Some(value)).is_some() => {}
            Some(value) => {
                if foreign.values.len() < SHOWN {
                    foreign.values.insert(value.shown());
                }
            }
        });
        foreign
    }

    pub fn count_in(&self, status: Status) -> i64 {
        let mut count = 0;
        each(self.relation, |row| count += i64::from(self.status_of(row) == Some(status)));
        count
    }

    /// Returns the sub-queue with the most taken tasks; without a label column all tasks belong to one.
    pub fn crowd(&self, labels: Option<&ColumnType>) -> Option<Crowd> {
        let mut crowds: BTreeMap<Option<u64>, Crowd> = BTreeMap::new();
        each(self.relation, |row| {
            if self.status_of(row) != Some(Status::Taken) {
                return;
            }
            let label = labels.and_then(|column| Some((row.value(column.number)?, column)));
            let hash =
                label.and_then(|(label, column)| operators::hash(label, column.collation, 0));
            let shown = || label.map(|(label, _)| label.shown());
            crowds.entry(hash).or_insert_with(|| Crowd { label: shown(), count: 0 }).count += 1;
        });
        crowds.into_values().max_by_key(|crowd| crowd.count)
    }

    fn status_of(&self, row: &Tuple) -> Option<Status> {
        self.status.read(row.value(self.column.number))
    }
}

/// Returns how many rows would be deleted because the end of their life has passed. `tasks`: None without a status
/// column. Rows without a status get the state `existing`. `zone`: of times without a time zone.
pub fn count_expired(
    relation: &Relation,
    expires: &ColumnType,
    tasks: Option<&Tasks>,
    existing: Status,
    zone: &TimeZone,
) -> i64 {
    let (mut count, now) = (0, time::now());
    each(relation, |row| {
        let status = tasks.and_then(|tasks| tasks.status_of(row)).unwrap_or(existing);
        let end = row.value(expires.number).map(|value| times::instant(value, zone));
        count += i64::from(MORTAL.contains(&status) && end.is_some_and(|end| end <= now));
    });
    count
}

/// Returns the greatest value of an integer column; at least 0.
pub fn greatest(relation: &Relation, column: &ColumnType) -> i64 {
    let mut greatest = 0;
    each(relation, |row| {
        greatest = row.value(column.number).map_or(0, Value::to_integer).max(greatest);
    });
    greatest
}

fn each(relation: &Relation, mut see: impl FnMut(&Tuple)) {
    if !relation.is_readable() {
        return;
    }
    let scratch = Scratch::new();
    relation.scan(&Snapshot::of_statement(), |row| {
        scratch.run(|| see(row));
        true
    });
}
