//! Takes by statements that pass over tasks.

use super::rests::{end_rest, has_rests, rest, rest_of};
use super::{Attempted, MOST, Passed, See, Why, undone};
use crate::error::Result;
use crate::parts::slot;
use crate::queue::{self, Arguments, Queue};
use crate::server::spi::{self, Rows};
use crate::server::value::Value;
use crate::server::xact::{self, Verdict};
use crate::transaction::{self, begun};
use crate::write::unchanged;
use xqueue_core::change::CallKind;
use xqueue_core::statement::{Change, Parameter};

impl Passed<'_> {
    /// Takes by a statement. If that fails, takes the tasks one by one.
    pub fn take(
        &mut self,
        change: Change,
        arguments: &Arguments,
        deliver: &mut impl FnMut(&Rows, &Queue) -> Result<()>,
    ) -> Result<usize> {
        let queue = self.queue;
        if !self.may_fail() {
            return self
                .run(change, arguments, |rows| self.deliver(rows, |rows| deliver(rows, queue)));
        }
        let (mut tasks, mut picked) = (vec![], 0);
        if !has_rests(queue.slot) {
            picked = self.number_picked(change, arguments);
            let all = |see: See| self.run(change, arguments, see);
            tasks = self.tried(all).unwrap_or_default();
        }
        // A statement does not return the rows that a trigger keeps.
        if tasks.is_empty() || tasks.len() < picked {
            tasks.extend(self.one_by_one(change, arguments, tasks.len()));
        }
        let taken = tasks.len();
        if taken > 0 {
            deliver(&Rows::of(tasks), queue)?;
        }
        Ok(taken)
    }

    /// Runs a take on the direct path that fires triggers, in a subtransaction. Returns None if that is undone, because
    /// `take` returns None or a task cannot be changed or delivered. A statement then takes the tasks, and finds out
    /// which ones it has to pass over.
    pub fn take_and_fire<T>(
        &mut self,
        take: impl FnOnce(&mut Self) -> Option<(Vec<Value<'static>>, T)>,
    ) -> Result<Option<(Vec<Value<'static>>, T)>> {
        let queue = self.queue;
        let work = || {
            let taken = transaction::doing(queue.slot, CallKind::Take, || take(self));
            let (tasks, more) = taken?;
            let tasks = tasks.into_iter().map(|task| self.converted(task));
            Some((tasks.collect::<Attempted<_>>().ok()?, more))
        };
        let taken = begun::until_counted(queue.slot, || {
            Ok(xact::in_subtransaction(|| match xact::unless_of_task(work) {
                Ok(Some(taken)) => Verdict::Keep(taken),
                _ => undone(queue),
            }))
        })?;
        if taken.is_none()
            && let Some(mut slot) = slot::lock(queue.slot)
        {
            slot.marks().discard_rings();
        }
        Ok(taken)
    }

    /// Takes the first task that no UPDATE could write, if there is one, so that the caller gets its error. `change`
    /// takes a task by its key.
    pub fn insist(
        &self,
        change: Change,
        arguments: &Arguments,
        mut deliver: impl FnMut(&Rows, &Queue) -> Result<()>,
    ) -> Result<usize> {
        self.insist_on(arguments, |arguments| {
            self.run(change, arguments, |rows| {
                unchanged::refuse(self.queue, rows, |status| self.is_right(status))?;
                self.deliver(rows, |rows| deliver(rows, self.queue))
            })
        })
    }

    /// Takes the first task of a sub-queue by a statement. Returns None if the task was passed over.
    pub fn take_first(
        &mut self,
        change: Change,
        arguments: &Arguments,
        mut see: impl FnMut(&Rows) -> Result<()>,
    ) -> Result<Option<usize>> {
        let queue = self.queue;
        let take = |see: See| spi::connect(|spi| queue.change(spi, change, arguments, see));
        let mut tried = self.tried(take);
        if matches!(&tried, Ok(tasks) if tasks.is_empty())
            && let Some(key) = self.picked(change, arguments)
        {
            // The task exists and is locked now.
            tried = self.tried(take);
            if matches!(&tried, Ok(tasks) if tasks.is_empty()) {
                tried = Err(unchanged::failure(&queue::key_text(&key)).into());
            }
        }
        match tried {
            Ok(tasks) => {
                let taken = tasks.len();
                if taken > 0 {
                    see(&Rows::of(tasks))?;
                }
                Ok(Some(taken))
            }
            Err(refusal) => {
                if let Some(key) = self.picked(change, arguments) {
                    self.note(&key, refusal);
                }
                Ok(None)
            }
        }
    }

    /// Returns how many tasks the statement of a take of several tasks is going to pick, and locks them.
    fn number_picked(&self, change: Change, arguments: &Arguments) -> usize {
        if arguments.get(Parameter::Limit).is_none_or(|limit| limit.to_integer() <= 1) {
            return 0;
        }
        let mut arguments = arguments.clone();
        arguments.set(Parameter::Skip, Value::int4(0));
        self.picked_all(change, &arguments).len()
    }

    /// Takes the tasks one by one. Tasks that cannot be taken stay locked, so that the others keep their positions
    /// behind them. `taken`: the number of tasks that the call has already.
    fn one_by_one<'to>(
        &mut self,
        change: Change,
        arguments: &Arguments,
        taken: usize,
    ) -> Vec<Value<'to>> {
        let queue = self.queue;
        let count = arguments.get(Parameter::Limit).map_or(1, Value::to_integer) - taken as i64;
        let mut arguments = arguments.clone();
        arguments.set(Parameter::Limit, Value::int4(1));
        let (mut tasks, mut skip) = (Vec::new(), 0);
        while (tasks.len() as i64) < count && skip < MOST {
            arguments.set(Parameter::Skip, Value::int4(skip));
            let Some(key) = self.picked(change, &arguments) else { break };
            let hash = self.hash(&key);
            if let Some(failure) = rest_of(queue.slot, hash) {
                self.note(&key, failure.into());
                skip += 1;
                continue;
            }
            arguments.set_key(&key);
            match self.tried(|see: See| self.change_one(change, &arguments, see)) {
                Ok(task) if task.is_empty() => {
                    let failure = unchanged::failure(&queue::key_text(&key));
                    rest(queue.slot, hash, &failure);
                    self.note(&key, failure.into());
                    skip += 1;
                }
                Ok(task) => {
                    end_rest(queue.slot, hash);
                    tasks.extend(task);
                }
                Err(refusal) => {
                    if refusal.why == Why::Unwritten {
                        rest(queue.slot, hash, &refusal.failure);
                    }
                    self.note(&key, refusal);
                    skip += 1;
                }
            }
        }
        tasks
    }
}
