//! Tasks that a take passes over, because jsonb cannot hold them or an UPDATE of them fails, and the slow way to take
//! those behind them.
//!
//! A take that may fail for a single task runs in a subtransaction, or refuses the task before it has written anything.
//! Where a statement has failed, its tasks are tried one by one. If nothing else can be taken, the first task that no
//! UPDATE can write is tried once more without protection, so that the caller gets the error as it is.

mod rests;

use crate::error::{Error, OrRaise, Result};
use crate::parts::slot;
use crate::queue::{self, Arguments, Direct, Queue, Statement};
use crate::server::memory::Memory;
use crate::server::row::Row;
use crate::server::spi::{self, Rows};
use crate::server::value::Value;
use crate::server::xact::{self, Failure, Verdict};
use crate::transaction;
use crate::write::counting;
use crate::write::unchanged;
use pgrx::PgSqlErrorCode;
use rests::{end_rest, has_rests, rest, rest_of};
use xqueue_core::change::Call;
use xqueue_core::form::Form;
use xqueue_core::statement::{Change, Parameter};
use xqueue_core::status::Status;
use xqueue_core::transaction::Ready;

/// Maximum number of tasks that a statement's take passes over; beyond it the take ends.
const MOST: i32 = 100;

/// The tasks that a take has passed over.
pub struct Passed<'take> {
    queue: &'take Queue,
    pub form: Form,
    /// Memory of the call, for what outlives a subtransaction.
    memory: Memory,
    /// One has been shown.
    is_shown: bool,
    /// The first that no UPDATE can write.
    refused: Option<(Vec<Value<'take>>, Failure)>,
    /// Number of tasks that were written, and undone, because an index refuses them.
    undone: i32,
}

/// Is shown the tasks that a statement has returned.
type See<'a> = &'a mut dyn FnMut(&Rows) -> Result<()>;

/// Why a task is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// jsonb cannot hold it.
    Unshown,
    /// No UPDATE can write it.
    Unwritten,
}

/// The refusal of a task.
pub struct Refusal {
    pub why: Why,
    pub failure: Failure,
}

type Attempted<T> = std::result::Result<T, Refusal>;

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Refusal {
        Refusal { why: Why::Unwritten, failure }
    }
}

impl<'take> Passed<'take> {
    pub fn none(queue: &'take Queue, form: Form) -> Passed<'take> {
        Passed { queue, form, memory: Memory::current(), is_shown: false, refused: None, undone: 0 }
    }

    /// Returns a task as the caller wants it, or why it cannot be delivered.
    pub fn converted<'to>(&self, task: Value<'to>) -> Attempted<Value<'to>> {
        match self.form {
            Form::Row => Ok(task),
            Form::Json => {
                let converted = self.queue.converted(task);
                converted.map_err(|failure| Refusal { why: Why::Unshown, failure })
            }
        }
    }

    /// Returns whether the conversion of tasks calls no code of a user's, which may write.
    pub fn only_looks_at_rows(&self) -> bool {
        self.form == Form::Row || self.queue.shows.calls_no_cast()
    }

    /// Delivers the tasks of a statement that is not protected. One that jsonb cannot hold is an error.
    pub fn deliver(&self, rows: &Rows, mut see: impl FnMut(&Rows) -> Result<()>) -> Result<()> {
        if self.form == Form::Row {
            return see(rows);
        }
        let tasks = (0..rows.len()).filter_map(|row| rows.value(row, 1));
        let tasks = tasks.map(|task| self.converted(task)).collect::<Attempted<Vec<_>>>();
        let error = |Refusal { failure, .. }| {
            Error::new(failure.code, failure.message).hint("Take the task as a row, or delete it.")
        };
        see(&Rows::of(tasks.map_err(error)?))
    }

    /// Notes a task that is passed over, and shows the first as the queue's error.
    fn note(&mut self, key: &[Value], refusal: Refusal) {
        let (queue, task) = (self.queue, queue::key_text(key));
        let Refusal { why, failure } = refusal;
        if !std::mem::replace(&mut self.is_shown, true) {
            let (what, hint) = match why {
                Why::Unshown => ("delivered as jsonb", "Take it as a row, or delete it."),
                Why::Unwritten => ("taken", "Mend or delete it, or what refuses its UPDATE."),
            };
            let text = format!("task {task} cannot be {what}: {}. {hint}", failure.message);
            if let Some(mut slot) = slot::lock(queue.slot) {
                slot.set_refused(&text);
            }
        }
        if why == Why::Unwritten && self.refused.is_none() {
            let key = key.iter().map(|value| self.memory.run(|| value.copied()));
            self.refused = Some((key.collect(), failure));
        }
    }

    /// Passes over a task that the direct path could not take. One that was written, and undone, is not tried again at
    /// once.
    pub fn pass_over(&mut self, direct: &Direct, task: &impl Row, refusal: Refusal) {
        let key = self.queue.key_of(task);
        if refusal.why == Why::Unwritten && direct.heap.may_refuse() {
            self.undone += 1;
            rest(self.queue.slot, self.hash(&key), &refusal.failure);
        }
        self.note(&key, refusal);
    }

    /// Passes over a task that this session could not write a short while ago; false if it is to be tried.
    pub fn passes_over_resting(&mut self, task: &impl Row) -> bool {
        if !has_rests(self.queue.slot) {
            return false;
        }
        let key = self.queue.key_of(task);
        let failure = rest_of(self.queue.slot, self.hash(&key));
        let rests = failure.is_some();
        failure.into_iter().for_each(|failure| self.note(&key, failure.into()));
        rests
    }

    /// Returns whether this take has passed over so many tasks that it ends. Each costs writes.
    pub fn is_exhausted(&self) -> bool {
        self.undone >= MOST
    }

    /// A task was taken: if it has rested, it does so no more.
    pub fn end_rest_of(&self, task: &impl Row) {
        if rests::has_any() {
            end_rest(self.queue.slot, self.hash(&self.queue.key_of(task)));
        }
    }

    fn hash(&self, key: &[Value]) -> u64 {
        self.queue.key_hash(key.iter().copied().map(Some))
    }

    /// Returns whether a statement's take may fail because of a single task.
    pub fn may_fail(&self) -> bool {
        self.queue.may_refuse
            || self.queue.may_refuse_values()
            || self.form == Form::Json && self.queue.shows.has_doubtful_types
    }

    /// Takes by a statement, and one by one where that fails.
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
        let mut tasks = match has_rests(queue.slot) {
            true => vec![],
            false => {
                let all = |see: See| self.run(change, arguments, see);
                self.tried(all).unwrap_or_default()
            }
        };
        if tasks.is_empty() {
            tasks = self.one_by_one(change, arguments);
        }
        let taken = tasks.len();
        if taken > 0 {
            deliver(&Rows::of(tasks), queue)?;
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
        let Some((key, failure)) = &self.refused else { return Ok(0) };
        let mut arguments = arguments.clone();
        arguments.set_key(key);
        arguments.set(Parameter::Limit, Value::int4(1));
        arguments.set(Parameter::Skip, Value::int4(0));
        let taken = self.run(change, &arguments, |rows| {
            unchanged::refuse(self.queue, rows, |status| status == Status::Taken)?;
            self.deliver(rows, |rows| deliver(rows, self.queue))
        })?;
        match taken {
            0 if failure.code == unchanged::CODE => Err(unchanged::error(&queue::key_text(key))),
            _ => Ok(taken),
        }
    }

    fn run(
        &self,
        change: Change,
        arguments: &Arguments,
        see: impl FnMut(&Rows) -> Result<()>,
    ) -> Result<usize> {
        counting::run(self.queue, Call::Take, || {
            spi::connect(|spi| self.queue.change(spi, change, arguments, see))
        })
    }

    /// Takes in a subtransaction, which is undone if one of the tasks cannot be taken or delivered.
    fn tried<'to>(&self, work: impl FnOnce(See) -> Result<usize>) -> Attempted<Vec<Value<'to>>> {
        let (queue, mut tasks, mut refused) = (self.queue, Vec::new(), None);
        xact::in_subtransaction(|| {
            let mut refusal = None;
            let mut see = |rows: &Rows| {
                if let Some(task) = unchanged::find(queue, rows, |status| status == Status::Taken) {
                    refusal = Some(unchanged::failure(&task).into());
                }
                for task in (0..rows.len()).filter_map(|row| rows.value(row, 1)) {
                    match self.memory.run(|| self.converted(task).map(Value::copied)) {
                        Ok(task) => tasks.push(task),
                        Err(refused) => refusal = Some(refused),
                    }
                }
                Ok(())
            };
            let failure = xact::unless_of_task(|| work(&mut see).or_raise()).err();
            refused = failure.map(Refusal::from).or(refusal);
            if refused.is_none() {
                return Verdict::Keep(());
            }
            // A task that was passed over wakes nobody: a consumer that waits would wake itself again and again.
            transaction::note(queue.slot, |delta| delta.waiters.unmade_ready = Ready::default());
            Verdict::Undo
        });
        refused.map_or(Ok(tasks), Err)
    }

    /// Takes the first task of a sub-queue by a statement. None if it was passed over.
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
            // It is there, and now it is locked.
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
            // Row security hides another task of the sub-queue that is in flight.
            Err(Refusal { failure, .. })
                if queue.has_row_security
                    && failure.code == PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION =>
            {
                Ok(Some(0))
            }
            Err(refusal) => {
                if let Some(key) = self.picked(change, arguments) {
                    self.note(&key, refusal);
                }
                Ok(None)
            }
        }
    }

    /// Takes the tasks one by one. Those that cannot be taken stay locked, so that the others keep their places behind
    /// them.
    fn one_by_one<'to>(&mut self, change: Change, arguments: &Arguments) -> Vec<Value<'to>> {
        let queue = self.queue;
        let count = arguments.get(Parameter::Limit).map_or(1, Value::to_integer);
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
            let change_one = |see: See| {
                spi::connect(|spi| {
                    let rows = queue.run(spi, &Statement::ChangeOne(change), &arguments);
                    see(&rows)?;
                    Ok(rows.len())
                })
            };
            let one = |see: See| counting::run(queue, Call::Take, || change_one(see));
            match self.tried(one) {
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

    /// Returns the key of a task that a statement picks, and locks it.
    fn picked<'to>(&self, change: Change, arguments: &Arguments) -> Option<Vec<Value<'to>>> {
        spi::connect(|spi| {
            let rows = self.queue.run(spi, &Statement::Pick(change), arguments);
            let part =
                |column| rows.value(0, column).map(|value| self.memory.run(|| value.copied()));
            (1..=self.queue.key.len() as i32).map(part).collect()
        })
    }
}
