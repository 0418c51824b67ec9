//! Taking the first task of a sub-queue that the transaction has claimed.

use crate::error::Result;
use crate::parts::subqueues;
use crate::queue::{Arguments, Statement};
use crate::server::spi::{Rows, Spi};
use crate::server::value::Value;
use crate::server::{injection, xact};
use crate::transaction;
use crate::write::direct;
use crate::write::direct::subqueue::First;
use crate::write::start;
use crate::write::subqueues::{Take, in_flight};
use xqueue_core::level::{LAST as LAST_LEVEL, Level, UNKNOWN};
use xqueue_core::position::{FIRST, LAST};
use xqueue_core::statement::{Change, Parameter};

/// The result of an attempt to take the first task of a sub-queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looked {
    Taken,
    /// A task of the sub-queue is in flight.
    Busy,
    /// Another transaction has locked the task.
    Locked,
    /// The task comes after the first tasks of other sub-queues.
    Later,
    /// There is no takeable task.
    Nothing,
    /// The task was not taken, for another reason.
    InVain,
}

impl Looked {
    pub(super) fn tasks(self) -> usize {
        usize::from(self == Looked::Taken)
    }
}

impl Take<'_> {
    /// Takes the first task of a sub-queue claimed by this transaction, if the task is takeable and its level within a
    /// limit.
    pub(super) fn look(
        &mut self,
        spi: &Spi,
        subqueue: u64,
        limit: Level,
        see: &mut impl FnMut(&Rows) -> Result<()>,
    ) -> Result<Looked> {
        let slot = self.queue.slot;
        injection::point(c"xqueue-subqueue-is-claimed");
        if !in_flight::is_free(self.queue, subqueue)? {
            transaction::note(slot, |delta| delta.subqueues.exhaust(subqueue));
            return Ok(Looked::Busy);
        }
        let before = transaction::pending_subqueue(slot, subqueue);
        // The transaction can hold the sub-queue only through a task that it has acked, which shared memory no longer
        // knows. Then other takes search there too.
        let is_alone = before.claimed || subqueues::is_busy(slot, subqueue);
        let searches_all = start::searches_all(self.queue);
        let mark = match is_alone && !searches_all {
            true => subqueues::begin_look(slot, subqueue).min(before.least),
            false => FIRST,
        };
        let mark = self.queue.start_at(mark).filter(|_| mark != FIRST);
        self.arguments.set(Parameter::Subqueue, Value::int8(subqueue as i64));
        self.arguments.set_mark(mark);
        // Tasks that are gone only for this transaction return with a rollback, and a fixed snapshot does not show
        // tasks that others have put since.
        let sees_all = is_alone
            && !searches_all
            && !before.lost
            && !xact::has_fixed_snapshot()
            && !self.queue.may_be_changing();
        // A limit would send the sub-queue back to the ring, but its level could not be recorded: the next take would
        // find it again immediately.
        let limit = if sees_all { limit } else { LAST_LEVEL };
        self.arguments.set(Parameter::Level, Value::int8(limit));
        let none_left = if self.queue.has_levels() { LAST_LEVEL } else { UNKNOWN };
        let first = match is_alone {
            true => direct::subqueue::take(
                self.queue,
                subqueue,
                &self.arguments,
                limit,
                &mut self.passed,
            )?,
            false => None,
        };
        // A trigger can move the task to another sub-queue. A rollback brings it back, so nothing is recorded.
        let taken_first = || {
            let change = transaction::pending_subqueue(slot, subqueue);
            Some((change.first?, change.taken_level))
        };
        let (looked, end) = match first {
            Some((tasks, First::Taken(level))) => {
                see(&Rows::of(tasks))?;
                (Looked::Taken, taken_first().zip(level).map(|((first, _), level)| (first, level)))
            }
            Some((_, First::Later(level))) => (Looked::Later, Some((FIRST, level))),
            Some((_, First::Locked)) => (Looked::Locked, None),
            Some((_, First::Waits)) => (Looked::Nothing, None),
            Some((_, First::Missing)) => (Looked::Nothing, Some((LAST, none_left))),
            None => match self.take_by_statement(spi, mark.is_some(), limit, see)? {
                Looked::Taken => (Looked::Taken, taken_first()),
                looked => match self.level_beyond(spi, subqueue, limit) {
                    Some(level) => (Looked::Later, Some((FIRST, level))),
                    None => (looked, None),
                },
            },
        };
        if !matches!(looked, Looked::Taken | Looked::Later) {
            transaction::note(slot, |delta| delta.subqueues.exhaust(subqueue));
        }
        if let Some((first, level)) = end.filter(|_| sees_all) {
            subqueues::end_look(slot, subqueue, first, level);
        }
        Ok(looked)
    }

    fn take_by_statement(
        &mut self,
        spi: &Spi,
        marked: bool,
        limit: Level,
        see: &mut impl FnMut(&Rows) -> Result<()>,
    ) -> Result<Looked> {
        let (queue, passed) = (self.queue, &mut self.passed);
        let limited = limit != LAST_LEVEL;
        let change = Change::TakeInSubqueue { ttr: self.ttr, marked, limited };
        let arguments = &self.arguments;
        if passed.may_fail() {
            return Ok(match passed.take_first(change, arguments, see)? {
                Some(0) => Looked::InVain,
                Some(_) => Looked::Taken,
                None => Looked::Locked,
            });
        }
        let deliver = |rows: &Rows| passed.deliver(rows, &mut *see);
        let taken = queue.change(spi, change, arguments, deliver)?;
        Ok(if taken > 0 { Looked::Taken } else { Looked::InVain })
    }

    /// Returns the level of a sub-queue's first task if it is beyond a limit.
    fn level_beyond(&self, spi: &Spi, subqueue: u64, limit: Level) -> Option<Level> {
        let level = (limit != LAST_LEVEL).then(|| self.first_level(spi, subqueue))?;
        level.filter(|level| *level > limit)
    }

    /// Returns the level of a sub-queue's first task, if the task is takeable.
    pub(super) fn first_level(&self, spi: &Spi, subqueue: u64) -> Option<Level> {
        let subqueue = Arguments::of(Parameter::Subqueue, Value::int8(subqueue as i64));
        let rows = self.queue.run(spi, &Statement::FirstLevel, &subqueue);
        rows.value(0, 1).map(|level| level.to_integer())
    }

    pub(super) fn is_takeable(&self, spi: &Spi, subqueue: u64) -> bool {
        let subqueue = Arguments::of(Parameter::Subqueue, Value::int8(subqueue as i64));
        let rows = self.queue.run(spi, &Statement::IsTakeable, &subqueue);
        rows.value(0, 1).is_some_and(|flag| flag.to_bool())
    }
}
