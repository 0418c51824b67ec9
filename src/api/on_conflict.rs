//! `put` with `on_conflict`: what becomes of tasks whose keys are there already.

use crate::api::argument::{self, Key};
use crate::api::producer::Put;
use crate::api::values::Values;
use crate::error::Result;
use crate::queue::Statement;
use crate::server::spi::{self, Rows};
use crate::write::reservation::Lack;
use xqueue_core::conflict::Conflict;
use xqueue_core::field::Field;
use xqueue_core::statement::Update;

/// Maximum number of tries to put a task that is there when it is to be put, and gone when it is looked at. A trigger
/// may also have suppressed the row, or a policy may hide it: then there is nothing to return.
const TRIES: usize = 10;

impl<'call> Put<'call> {
    /// Returns whether tasks that are there already are no error.
    pub(super) fn may_meet_others(&self) -> bool {
        self.statement.conflict != Conflict::Error
    }

    /// Returns the columns, of those that tasks have values for, that a task gets which is there already.
    pub(super) fn updates(&self, columns: &[i16]) -> Vec<Update> {
        if !matches!(self.statement.conflict, Conflict::Update { .. }) {
            return vec![];
        }
        let queue = self.queue;
        let fields = [Field::Priority, Field::Tube, Field::Ttr].map(|field| queue.number_of(field));
        let other = columns.iter().filter(|column| !queue.is_key_column(**column));
        other.map(|column| Update { column: *column, is_field: fields.contains(column) }).collect()
    }

    /// Puts tasks, or does with those that are there what the call says.
    pub(super) fn merge(
        &mut self,
        tasks: &[Values<'call, '_>],
        deliver: &mut impl FnMut(&Rows) -> Result<()>,
    ) -> Result<Option<Lack>> {
        let queue = self.queue;
        let key = |values: &Values| {
            let has_key = queue.key.iter().all(|key| values.has_value(key.number));
            has_key.then(|| argument::key_of_object(values.object(), queue)).transpose()
        };
        let keys = tasks.iter().map(key).collect::<Result<Vec<_>>>()?;
        self.merge_keyed(&keys, deliver, |put, index, deliver| put.values(&tasks[index], deliver))
    }

    /// Does the same with tasks of given keys, None for those that get theirs from the queue. `insert` puts the task at
    /// an index, and returns how many it has put or updated: one at most.
    pub(super) fn merge_keyed<D: FnMut(&Rows) -> Result<()>>(
        &mut self,
        keys: &[Option<Key<'call>>],
        deliver: &mut D,
        mut insert: impl FnMut(&mut Self, usize, &mut D) -> Result<usize>,
    ) -> Result<Option<Lack>> {
        // Only new tasks need room.
        let new = match self.queue.features().capacity() {
            Some(_) => {
                let mut new = 0;
                for key in keys {
                    new += usize::from(!self.show(key.as_ref(), &mut |_| Ok(()))?);
                }
                new
            }
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

    /// Delivers the task with a key; false if it is not there.
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
