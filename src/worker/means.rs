//! The two ways in which a job reads and changes tasks: the direct path and statements. Planning and running a
//! statement can run code of the table's owner, so only a job worker runs statements.

use crate::error::OrRaise;
use crate::parts::schedule::own;
use crate::queue::{Arguments, Queue, Statement, owner, times};
use crate::server::heap::FoundRow;
use crate::server::row::Row;
use crate::server::spi::{self, Spi};
use crate::server::time;
use crate::server::types::Uuid;
use crate::server::value::Value;
use crate::server::xact::Failure;
use crate::transaction;
use crate::worker::resting::{self, Version};
use crate::write::counting;
use crate::write::direct::upkeep::{Upkeep, Wanted};
use std::cell::Cell;
use std::rc::Rc;
use xqueue_core::change::{CallKind, has_progressed};
use xqueue_core::statement::{Change, Parameter};
use xqueue_core::time_column::below;

/// How a job works on a queue.
pub struct Means<'q> {
    pub queue: &'q Rc<Queue>,
    pub is_direct: bool,
    /// Tasks were resting when the job began.
    pub has_rested: bool,
    /// Another command has changed the table's description during the job. The job has not seen all tasks and has to be
    /// repeated.
    pub is_outdated: Cell<bool>,
}

/// Tasks that a batch passes over because their changes failed. Tasks that failed on the direct path also rest, see
/// [`resting`].
#[derive(Default)]
pub struct Failed {
    /// The row that is being changed, and its key. None if it is changed in a batch.
    tried: Cell<Option<(Version, String)>>,
    /// Number of tasks passed over.
    pub count: i32,
}

impl Failed {
    fn tries(&self, queue: &Queue, found: &FoundRow, is_alone: bool) -> bool {
        let is_tried = !resting::is_resting(queue.table, version(found));
        if is_tried && is_alone {
            self.tried.set(Some((version(found), queue.key_text_of(found))));
        }
        is_tried
    }

    /// Passes over the task whose change has just failed, and lets it rest.
    pub fn note_failure(&mut self, queue: &Rc<Queue>, failure: &mut Failure) {
        self.count += 1;
        if let Some((row, key)) = self.tried.take() {
            failure.message = format!("task {key}: {}", failure.message);
            resting::note_failure(queue, row, failure);
        }
    }
}

impl<'q> Means<'q> {
    /// Returns None if only statements can do the work and this is the database worker.
    pub fn of(queue: &'q Rc<Queue>) -> Option<Means<'q>> {
        let is_direct = Upkeep::of(queue).is_some();
        let has_rested = resting::begin(queue);
        (is_direct || own::served_owner().is_some()).then_some(Means {
            queue,
            is_direct,
            has_rested,
            is_outdated: Cell::new(false),
        })
    }

    /// Works on the direct path. If the table's description is outdated, notes that and returns nothing.
    fn directly<T: Default>(&self, work: impl FnOnce(&Upkeep) -> Option<T>) -> T {
        self.noted(Upkeep::of(self.queue).and_then(|upkeep| work(&upkeep)))
    }

    /// Works by a statement, under the same rule.
    fn by_statement<T: Default>(&self, work: impl FnOnce(&Spi) -> Option<T>) -> T {
        self.noted(spi::connect(work))
    }

    fn noted<T: Default>(&self, done: Option<T>) -> T {
        if done.is_none() {
            self.is_outdated.set(true);
        }
        done.unwrap_or_default()
    }

    /// Changes up to `limit` tasks, except those passed over, and returns their number.
    pub fn change(&self, change: Change, wanted: Wanted, limit: i32, passed: &Failed) -> usize {
        if self.is_direct {
            return self.directly(|upkeep| {
                let is_tried = |found: &FoundRow| passed.tries(self.queue, found, limit == 1);
                upkeep.change(change, wanted, limit as usize, is_tried)
            });
        }
        let mut arguments = self.arguments(wanted);
        arguments.set(Parameter::Limit, Value::int4(limit));
        arguments.set(Parameter::Skip, Value::int4(passed.count));
        let change_all =
            |spi: &Spi| Ok(self.noted(self.queue.change_in_job(spi, change, &arguments)?));
        counting::run(self.queue, call(change), || spi::connect(change_all)).or_raise()
    }

    /// Returns the next instant at which a task is due. No task is due before `since`. Resting tasks are skipped.
    pub fn next_due(&self, since: i64) -> Option<i64> {
        if self.is_direct {
            let is_tried =
                |found: &FoundRow| !resting::is_resting(self.queue.table, version(found));
            return self.directly(|upkeep| upkeep.next_due(since, is_tried));
        }
        self.by_statement(|spi| {
            let since = Arguments::of(Parameter::Since, Value::instant(below(since)));
            let rows = self.queue.run_in_job(spi, &Statement::NextDue, &since)?;
            let instants = [1, 2].map(|column| rows.value(0, column));
            let instants =
                instants.map(|value| Some(times::instant(value?, &self.queue.time_zone)));
            Some(instants.into_iter().flatten().min())
        })
    }

    /// Returns the sessions that hold tasks. None stands for tasks taken without a session.
    pub fn holders(&self) -> Vec<Option<Uuid>> {
        match self.is_direct {
            true => self.directly(|upkeep| upkeep.holders()),
            false => self.owners(&Statement::Holders, &Arguments::default()),
        }
    }

    /// Returns the sessions among the wanted ones that hold tasks.
    pub fn holding(&self, wanted: Wanted) -> Vec<Uuid> {
        let holding = match self.is_direct {
            true => self.directly(|upkeep| upkeep.holding(wanted)),
            false => self.owners(&Statement::Holding, &self.arguments(wanted)),
        };
        holding.into_iter().flatten().collect()
    }

    /// Returns the sessions that a statement finds. None stands for tasks taken without a session.
    fn owners(&self, find: &Statement, arguments: &Arguments) -> Vec<Option<Uuid>> {
        self.by_statement(|spi| {
            let rows = self.queue.run_in_job(spi, find, arguments)?;
            Some((0..rows.len()).map(|row| rows.value(row, 1).map(owner::holder)).collect())
        })
    }

    /// Returns whether the transitions of all changed tasks are recorded.
    pub fn tells(&self) -> bool {
        self.is_direct || self.queue.is_tracked || self.queue.has_row_security
    }

    /// Returns whether tasks have left the states in which they were found. The number of changed rows proves nothing:
    /// a trigger can revert a change or put the task back, and a rule can do nothing.
    pub fn has_made_progress(&self) -> bool {
        let (transitions, due) = transaction::transitions(self.queue.slot);
        has_progressed(&transitions, due.is_some_and(|due| due <= time::now()))
    }

    fn arguments<'a>(&self, wanted: Wanted<'a>) -> Arguments<'a> {
        match wanted {
            Wanted::Due { now, since } => {
                let mut times = Arguments::of(Parameter::Now, Value::instant(now));
                times.set(Parameter::Since, Value::instant(below(since)));
                times
            }
            Wanted::Held { sessions } => Arguments::of(Parameter::Sessions, Value::uuids(sessions)),
            Wanted::Ownerless => Arguments::default(),
        }
    }
}

fn version(found: &FoundRow) -> Version {
    (found.id(), found.writer())
}

/// Returns the call that a change counts as.
fn call(change: Change) -> CallKind {
    match change {
        Change::Promote => CallKind::Delay,
        Change::ExpireLeases => CallKind::Ttr,
        Change::Expire => CallKind::Ttl,
        Change::DeleteZombies => CallKind::Zombie,
        _ => CallKind::Session,
    }
}
