//! Calls that pass over tasks that jsonb cannot hold or whose UPDATE fails, and change the tasks behind them in a
//! slower way. Such a call picks its tasks itself: it is a take or a change of many tasks, see [`many`].
//!
//! 1. A call that can fail because of a single task runs in a subtransaction, or refuses the task before it has written
//!    anything.
//! 2. If the statement of a take fails, its tasks are tried one by one.
//! 3. If no other task can be changed, the first task that no UPDATE can write is tried again without protection. So
//!    the caller gets the original error.

pub mod many;
mod rests;
mod take;

use crate::error::{Error, OrRaise, Result};
use crate::parts::slot;
use crate::queue::{self, Arguments, Direct, Queue, Statement};
use crate::server::memory::Memory;
use crate::server::row::Row;
use crate::server::spi::{self, Rows};
use crate::server::time;
use crate::server::value::Value;
use crate::server::xact::{self, Failure, Verdict};
use crate::transaction;
use crate::write::counting;
use crate::write::unchanged;
use rests::{end_rest, has_rests, rest, rest_of};
use xqueue_core::change::CallKind;
use xqueue_core::form::Form;
use xqueue_core::statement::{Change, Parameter};
use xqueue_core::status::Status;
use xqueue_core::transaction::Ready;

/// Maximum number of tasks that a call passes over; beyond it the call ends.
const MOST: i32 = 100;

/// The tasks that a call has passed over.
pub struct Passed<'take> {
    queue: &'take Queue,
    call: CallKind,
    pub form: Form,
    /// Memory of the call, for values that outlive a subtransaction.
    memory: Memory,
    /// A refused task has been shown as the queue's error.
    is_shown: bool,
    /// The first task that no UPDATE can write: its key and the failure.
    refused: Option<(Vec<Value<'take>>, Failure)>,
    /// Number of tasks that were written and undone, because an index refuses them.
    undone: i32,
}

/// Receives the tasks that a statement has returned.
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

/// Returns the verdict on a take. A task that was passed over wakes no consumer: a waiting consumer would wake itself
/// again and again.
fn undone<T>(queue: &Queue) -> Verdict<T> {
    transaction::note(queue.slot, |delta| delta.waiters.unmade_ready = Ready::default());
    Verdict::Undo
}

impl<'take> Passed<'take> {
    /// Returns an empty record for a take.
    pub fn none(queue: &'take Queue, form: Form) -> Passed<'take> {
        Passed::of(queue, CallKind::Take, form)
    }

    pub fn of(queue: &'take Queue, call: CallKind, form: Form) -> Passed<'take> {
        let memory = Memory::current();
        Passed { queue, call, form, memory, is_shown: false, refused: None, undone: 0 }
    }

    /// Returns a task in the form that the caller wants, or the reason why it cannot be delivered.
    pub fn converted<'to>(&self, task: Value<'to>) -> Attempted<Value<'to>> {
        match self.form {
            Form::Row => Ok(task),
            Form::Json => {
                let converted = self.queue.converted(task);
                converted.map_err(|failure| Refusal { why: Why::Unshown, failure })
            }
        }
    }

    /// Returns whether the conversion of tasks calls no user code, which could write.
    pub fn only_looks_at_rows(&self) -> bool {
        self.form == Form::Row || self.queue.shows.calls_no_cast()
    }

    /// Delivers the tasks of an unprotected statement. A task that jsonb cannot hold is an error.
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

    /// Records a task that is passed over. Shows the first one as the queue's error.
    fn note(&mut self, key: &[Value], refusal: Refusal) {
        let (queue, task) = (self.queue, queue::key_text(key));
        let Refusal { why, failure } = refusal;
        if !std::mem::replace(&mut self.is_shown, true) {
            let (what, hint) = match why {
                Why::Unshown => ("delivered as jsonb", "Take it as a row, or delete it."),
                Why::Unwritten => (self.done(), "Mend or delete it, or what refuses its UPDATE."),
            };
            let text = format!("task {task} cannot be {what}: {}. {hint}", failure.message);
            if let Some(mut slot) = slot::lock(queue.slot) {
                slot.shown().set_refused(&text, time::now());
            }
        }
        if why == Why::Unwritten && self.refused.is_none() {
            let key = key.iter().map(|value| self.memory.run(|| value.copied()));
            self.refused = Some((key.collect(), failure));
        }
    }

    /// Passes over a task that the direct path could not take. A task that was written and undone rests before it is
    /// tried again.
    pub fn pass_over(&mut self, direct: &Direct, task: &impl Row, refusal: Refusal) {
        let key = self.queue.key_of(task);
        if refusal.why == Why::Unwritten && direct.heap.may_refuse() {
            self.undone += 1;
            rest(self.queue.slot, self.hash(&key), &refusal.failure);
        }
        self.note(&key, refusal);
    }

    /// Passes over a task that this session recently could not write. Returns false if the task has to be tried.
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

    /// Returns whether this take ends because it has passed over too many written tasks, which cost writes.
    pub fn is_exhausted(&self) -> bool {
        self.undone >= MOST
    }

    /// Ends the rest of a task that was taken.
    pub fn end_rest_of(&self, task: &impl Row) {
        if rests::has_any() {
            end_rest(self.queue.slot, self.hash(&self.queue.key_of(task)));
        }
    }

    fn hash(&self, key: &[Value]) -> u64 {
        self.queue.key_hash(key.iter().copied().map(Some))
    }

    /// Returns whether the call has met a task that no UPDATE can write.
    pub fn has_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Returns whether the call can return tasks to the caller.
    fn delivers(&self) -> bool {
        matches!(self.call, CallKind::Take | CallKind::Kick)
    }

    /// Returns the participle for a task that the call changes, for messages.
    fn done(&self) -> &'static str {
        match self.call {
            CallKind::Kick => "kicked",
            CallKind::Snatch => "snatched",
            CallKind::GiveBack => "given back",
            _ => "taken",
        }
    }

    /// Returns whether a task that the call has changed is in the right state.
    fn is_right(&self, status: Status) -> bool {
        match self.call {
            CallKind::Take => status == Status::Taken,
            CallKind::Kick => status != Status::Buried,
            _ => status != Status::Taken,
        }
    }

    /// Returns whether a statement can fail because of a single task.
    pub fn may_fail(&self) -> bool {
        self.queue.may_refuse
            || self.queue.may_refuse_values()
            || self.form == Form::Json && self.queue.shows.has_doubtful_types
    }

    /// Changes the first task that no UPDATE could write, without protection. Adds its key to the arguments.
    fn insist_on(
        &self,
        arguments: &Arguments,
        work: impl FnOnce(&Arguments) -> Result<usize>,
    ) -> Result<usize> {
        let Some((key, failure)) = &self.refused else { return Ok(0) };
        let mut arguments = arguments.clone();
        arguments.set_key(key);
        arguments.set(Parameter::Limit, Value::int4(1));
        arguments.set(Parameter::Skip, Value::int4(0));
        // This transaction has locked the task itself. Outside a subtransaction, its update would meet an update of the
        // task that was undone before, which the server does not forget.
        let changed = xact::in_subtransaction(|| Verdict::Keep(work(&arguments)));
        match changed.unwrap_or(Ok(0))? {
            0 if failure.code == unchanged::CODE => Err(unchanged::error(&queue::key_text(key))),
            changed => Ok(changed),
        }
    }

    fn run(
        &self,
        change: Change,
        arguments: &Arguments,
        see: impl FnMut(&Rows) -> Result<()>,
    ) -> Result<usize> {
        counting::run(self.queue, self.call, || {
            spi::connect(|spi| self.queue.change(spi, change, arguments, see))
        })
    }

    /// Does work in a subtransaction, which is undone if one of the tasks cannot be changed or delivered. Returns the
    /// tasks if the call delivers them.
    fn tried<'to>(&self, work: impl FnOnce(See) -> Result<usize>) -> Attempted<Vec<Value<'to>>> {
        let (queue, mut tasks, mut refused) = (self.queue, Vec::new(), None);
        xact::in_subtransaction(|| {
            let mut refusal = None;
            let mut see = |rows: &Rows| {
                if let Some(task) = unchanged::find(queue, rows, |status| self.is_right(status)) {
                    refusal = Some(unchanged::failure(&task).into());
                }
                if !self.delivers() {
                    return Ok(());
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
            match self.call {
                CallKind::Take => undone(queue),
                _ => Verdict::Undo,
            }
        });
        refused.map_or(Ok(tasks), Err)
    }

    /// Changes a picked task by the key among the arguments.
    fn change_one(
        &self,
        change: Change,
        arguments: &Arguments,
        see: impl FnOnce(&Rows) -> Result<()>,
    ) -> Result<usize> {
        counting::run(self.queue, self.call, || {
            spi::connect(|spi| {
                let rows = self.queue.run(spi, &Statement::ChangeOne(change), arguments);
                see(&rows)?;
                Ok(rows.len())
            })
        })
    }

    /// Returns the key of a task that a statement picks, and locks it.
    fn picked<'to>(&self, change: Change, arguments: &Arguments) -> Option<Vec<Value<'to>>> {
        self.picked_all(change, arguments).into_iter().next()
    }

    /// Returns the keys of the tasks that a statement picks, and locks them.
    fn picked_all<'to>(&self, change: Change, arguments: &Arguments) -> Vec<Vec<Value<'to>>> {
        let columns = 1..=self.queue.key.len() as i32;
        spi::connect(|spi| {
            let rows = self.queue.run(spi, &Statement::Pick(change), arguments);
            let part = |row, column| {
                rows.value(row, column).map(|value| self.memory.run(|| value.copied()))
            };
            let key = |row| columns.clone().map(|column| part(row, column)).collect();
            (0..rows.len()).filter_map(key).collect()
        })
    }
}
