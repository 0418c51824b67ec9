//! Where a take begins to look: at the low-water marks, see [`crate::shmem::marks`].

pub mod mark;
pub mod priorities;

use crate::delta::SlotId;
use crate::model::position::{FIRST, Group, Kind, LAST, Position};
use crate::pg::{injection, spi, time, transaction};
use crate::registry::{Arguments, Queue, Statement};
use crate::shmem::queues;
use crate::statement::{Parameter, Within};
use crate::xact;
use pgrx::pg_sys::Datum;
use priorities::Sight;

/// The groups of tasks that a take looks at one after the other: the tube that `arguments` name, each
/// of the priorities, or all tasks.
pub fn groups(queue: &Queue, arguments: &Arguments) -> Vec<Group> {
    if let Some((column, value)) = queue.tube().zip(arguments.get(Parameter::Tube)) {
        return vec![Group::Tube(queue.tube_named(value, column).hash)];
    }
    // What the transaction itself has put is found whatever its priority.
    if !queue.by_priority || queue.order.is_none() || has_own(queue) {
        return vec![Group::All];
    }
    let room = Vec::with_capacity(priorities::LIMIT);
    let now = time::now();
    let sight = queues::lock(queue.slot)
        .map_or(Sight::Some, |mut slot| slot.priorities(room, may_raise(queue, Kind::Ready), now));
    match sight {
        Sight::All(known) => known.into_iter().map(Group::Priority).collect(),
        Sight::Some => vec![Group::All],
        Sight::Survey => {
            let mut survey = Survey { slot: queue.slot, since: now, found: None };
            let found = survey_of(queue);
            survey.found = found.filter(|found| found.len() <= priorities::LIMIT);
            vec![Group::All]
        }
    }
}

/// Whether the open transaction has made tasks ready.
fn has_own(queue: &Queue) -> bool {
    xact::lowest(queue.slot, Kind::Ready).is_some()
}

/// The key before which there is no task of a group, of which up to so many are looked for; None if nothing
/// is known. Every so many tasks raises the mark first.
pub fn start(queue: &Queue, group: Group, arguments: &Arguments, tasks: u32) -> Option<Datum> {
    queue.order?;
    if queue.by_priority && !matches!(group, Group::Priority(_) | Group::Buried) {
        return None;
    }
    let now = time::now();
    let may_raise = may_raise(queue, group.kind());
    let start = queues::lock(queue.slot)?.start(group, tasks, may_raise, now);
    let mut from = start.from;
    if start.raises {
        let mut raise = Raise { slot: queue.slot, group, since: now, found: None };
        injection::point(c"xqueue-mark-is-to-be-raised");
        raise.found = first(queue, group, arguments, from);
        injection::point(c"xqueue-mark-is-found");
        drop(raise);
        from = queues::lock(queue.slot)?.marked(group);
    }
    from = xact::lowest(queue.slot, group.kind()).map_or(from, |own| own.min(from));
    if from == FIRST { None } else { queue.key_at(from) }
}

/// What this transaction itself has taken, dug out or moved, and may give back by a rollback, would not be
/// seen; nor would a fixed snapshot show what others have put since.
fn may_raise(queue: &Queue, tasks: Kind) -> bool {
    !transaction::has_fixed_snapshot() && !xact::hides(queue.slot, tasks)
}

/// The statement's part for a group; gives the arguments that it takes.
pub fn within(group: Group, arguments: &mut Arguments) -> Within {
    match group {
        Group::All => Within::All,
        Group::Tube(_) => Within::Tube,
        Group::Buried => Within::Buried,
        Group::Priority(priority) => {
            arguments.set(Parameter::Level, Datum::from(priority));
            Within::Level
        }
    }
}

/// The place of the first task of a group from a place on.
pub fn first(
    queue: &Queue,
    group: Group,
    arguments: &Arguments,
    from: Position,
) -> Option<Position> {
    let mut arguments = arguments.clone();
    arguments.set(Parameter::Mark, queue.key_at(from)?);
    let within = within(group, &mut arguments);
    spi::connect(|spi| {
        let rows = queue.run(spi, &Statement::First(within), &arguments);
        rows.datum(0, 1).map_or(Some(LAST), |key| queue.position(key))
    })
}

/// The priorities of ready tasks, and where the first of each stands; as many as there is room for, and
/// one more.
pub fn survey_of(queue: &Queue) -> Option<Vec<(i64, Position)>> {
    let mut found: Vec<(i64, Position)> = Vec::new();
    let mut level = Some(i64::MIN);
    while let Some(from) = level.filter(|_| found.len() <= priorities::LIMIT) {
        let arguments = Arguments::of(Parameter::Level, Datum::from(from));
        let next = spi::connect(|spi| {
            let rows = queue.run(spi, &Statement::NextLevel, &arguments);
            let priority = rows.datum(0, 1).map(|priority| priority.value() as i64);
            priority
                .map(|priority| (priority, rows.datum(0, 2).and_then(|key| queue.position(key))))
        });
        let Some((priority, position)) = next else { break };
        found.push((priority, position?));
        level = priority.checked_add(1);
    }
    Some(found)
}

/// A look whose end is told, in case of an error as well.
struct Raise {
    slot: SlotId,
    group: Group,
    since: i64,
    found: Option<Position>,
}

impl Drop for Raise {
    fn drop(&mut self) {
        if let Some(mut slot) = queues::lock(self.slot) {
            slot.end_raise(self.group, self.since, self.found);
        }
    }
}

/// The same of a survey.
struct Survey {
    slot: SlotId,
    since: i64,
    found: Option<Vec<(i64, Position)>>,
}

impl Drop for Survey {
    fn drop(&mut self) {
        if let Some(mut slot) = queues::lock(self.slot) {
            slot.end_survey(self.since, self.found.as_deref());
        }
    }
}
