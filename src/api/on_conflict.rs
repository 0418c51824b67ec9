//! `put` with `on_conflict`: decides how a new task changes an existing one with its key.

use crate::api::argument::{self, Key};
use crate::api::producer::Put;
use crate::api::values::Values;
use crate::error::Result;
use crate::queue::Statement;
use crate::server::spi::{self, Rows};
use crate::write::reservation::Lack;
use std::collections::HashSet;
use xqueue_core::conflict::Conflict;
use xqueue_core::field::Field;
use xqueue_core::statement::Update;

/// Maximum number of tries to put a task whose key exists on insertion and is gone on lookup. A trigger can also have
/// suppressed the row, or a policy can hide it; then the call returns no task.
const TRIES: usize = 10;

impl<'call> Put<'call> {
    /// Returns whether existing tasks are no error.
    pub(super) fn may_meet_others(&self) -> bool {
        self.statement.conflict != Conflict::Error
    }

    /// Returns the columns that ON CONFLICT DO UPDATE sets on an existing task, out of the given ones.
    pub(super) fn updates(&self, columns: &[i16]) -> Vec<Update> {
        if !matches!(self.statement.conflict, Conflict::Update { .. }) {
            return vec![];
        }
        let queue = self.queue;
        let is_field = |column: i16| {
            Field::ALL.iter().any(|field| !field.is_own() && queue.number_of(*field) == column)
        };
        let other = columns.iter().filter(|column| !queue.is_key_column(**column));
        other.map(|column| Update { column: *column, is_field: is_field(*column) }).collect()
    }

    /// Puts tasks; ignores or updates existing ones, according to the call.
    pub(super) fn merge(
        &mut self,
        tasks: &[Values<'call, '_>],
        deliver: &mut impl FnMut(&Rows) -> Result<()>,
    ) -> Result<Option<Lack>> {
        let queue = self.queue;
        let key = |values: &Values| {
            let has_key = queue.key.iter().all(|key| values.has_value(key.number));
            has_key.then(|| argument::key_to_put(values.object(), queue)).transpose()
        };
        let keys = tasks.iter().map(key).collect::<Result<Vec<_>>>()?;
        self.merge_keyed(&keys, deliver, |put, index, deliver| put.values(&tasks[index], deliver))
    }

    /// Puts tasks with the given keys; None for a task whose key the queue generates. `insert` puts the task at an
    /// index and returns how many tasks it has put or updated: 0 or 1.
    pub(super) fn merge_keyed<D: FnMut(&Rows) -> Result<()>>(
        &mut self,
        keys: &[Option<Key<'call>>],
        deliver: &mut D,
        mut insert: impl FnMut(&mut Self, usize, &mut D) -> Result<usize>,
    ) -> Result<Option<Lack>> {
        // Only new tasks need capacity.
        let new = match self.queue.features().capacity() {
            Some(_) => self.count_new(keys)?,
            None => keys.len(),
        };
        self.in_room(new, |put| {
            for (index, key) in keys.iter().enumerate() {
                for _ in 0..TRIES {
                    if insert(put, index, deliver)? > 0 || put.show(key.as_ref(), deliver)? {
                        break;
                    }
                }
            }
            Ok(())
        })
    }

    /// Returns how many of the tasks are new. If two keys have one hash, the trigger reserves room for the second task.
    fn count_new(&mut self, keys: &[Option<Key<'call>>]) -> Result<usize> {
        let (mut new, mut seen) = (0, HashSet::new());
        for key in keys {
            let hash = key.as_ref().map(|key| self.queue.key_hash(key.iter().copied().map(Some)));
            let is_first = hash.is_none_or(|hash| seen.insert(hash));
            new += usize::from(is_first && !self.show(key.as_ref(), &mut |_| Ok(()))?);
        }
        Ok(new)
    }

    /// Delivers the task with a key; returns false if it does not exist.
    fn show(
        &mut self,
        key: Option<&Key<'call>>,
        deliver: &mut impl FnMut(&Rows) -> Result<()>,
    ) -> Result<bool> {
        let Some(key) = key else { return Ok(false) };
        self.arguments.set_key(key);
        spi::connect(|spi| {
            let rows = self.queue.run(spi, &Statement::Peek, &self.arguments);
            if !rows.is_empty() {
                deliver(&rows)?;
            }
            Ok(!rows.is_empty())
        })
    }
}
