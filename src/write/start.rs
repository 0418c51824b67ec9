//! The position where a take begins its search: the low-water mark, see [`xqueue_core::marks::groups`].

use crate::parts::slot;
use crate::queue::{Arguments, Queue, Statement};
use crate::server::value::Value;
use crate::server::{injection, spi, time, xact};
use crate::transaction;
use xqueue_core::marks::priorities::{self, KnownPriorities};
use xqueue_core::order::Ties;
use xqueue_core::position::{FIRST, Group, LAST, Position, TaskKind};
use xqueue_core::slot_id::SlotId;
use xqueue_core::statement::{Parameter, Within};

/// Returns the groups of tasks that a take searches in turn. They contain all tasks, or the tasks of the tube in
/// `arguments`, in one group or in one group per priority.
pub fn groups(queue: &Queue, arguments: &Arguments) -> Vec<Group> {
    let tube = queue.tube().zip(arguments.get(Parameter::Tube));
    let tube = tube.map(|(column, value)| queue.tube_named(value, column).hash);
    let at_once = vec![Group::Ready { tube, priority: None }];
    // The transaction's own tasks are found regardless of their priority.
    let is_marked = queue.order.is_some() && (tube.is_none() || queue.tells_tubes);
    if !queue.by_priority || !is_marked || has_own(queue) || searches_all(queue) {
        return at_once;
    }
    let room = Vec::with_capacity(priorities::LIMIT);
    let may_scan = may_raise(queue, TaskKind::Ready);
    let now = time::now();
    let known_priorities = slot::lock(queue.slot).map_or(KnownPriorities::Some, |mut slot| {
        slot.marks().known_priorities(tube, room, may_scan, now)
    });
    match known_priorities {
        KnownPriorities::All(known) => {
            let group = |priority| Group::Ready { tube, priority: Some(priority) };
            known.into_iter().map(group).collect()
        }
        KnownPriorities::Some => at_once,
        KnownPriorities::PriorityScan => {
            let mut scan = PriorityScan { slot: queue.slot, since: now, found: None };
            injection::point(c"xqueue-priority-scan-begins");
            let found = scan_priorities(queue);
            injection::point(c"xqueue-priority-scan-ends");
            scan.found = Some(found).filter(|found| found.len() <= priorities::LIMIT);
            at_once
        }
    }
}

/// Returns whether the transaction must not use shared memory to narrow its search: shared memory has positions of
/// another order, or has not learned of all the transaction's tasks. For a serializable transaction, the server only sees
/// conflicts in the rows and pages that the search reads.
pub fn searches_all(queue: &Queue) -> bool {
    transaction::has_redefined(queue.slot) || xact::is_serializable()
}

/// Returns whether the open transaction has made tasks ready.
fn has_own(queue: &Queue) -> bool {
    transaction::lowest(queue.slot, TaskKind::Ready).is_some()
}

/// Sets in the arguments the position before which no task of a group is ready. Returns false if it is not known.
/// `tasks`: the number of tasks wanted. Raises the mark first if it is due.
pub fn start(queue: &Queue, group: Group, arguments: &mut Arguments, tasks: u32) -> bool {
    let from = from(queue, group, arguments, tasks).filter(|from| *from != FIRST);
    arguments.set_mark(None);
    from.is_some_and(|from| begin_at(queue, group, from, arguments).is_some())
}

fn from(queue: &Queue, group: Group, arguments: &Arguments, tasks: u32) -> Option<Position> {
    queue.order.filter(|_| !searches_all(queue))?;
    if queue.by_priority && matches!(group, Group::Ready { priority: None, .. }) {
        return None;
    }
    if !queue.tells_tubes && matches!(group, Group::Ready { tube: Some(_), .. }) {
        return None;
    }
    let now = time::now();
    let may_raise = may_raise(queue, group.kind());
    let start = slot::lock(queue.slot)?.marks().start(group, tasks, may_raise, now);
    let mut from = start.from;
    if start.raises {
        let mut raise = Raise { slot: queue.slot, group, since: now, found: None };
        injection::point(c"xqueue-mark-is-to-be-raised");
        raise.found = first(queue, group, arguments, from);
        injection::point(c"xqueue-mark-is-found");
        drop(raise);
        from = slot::lock(queue.slot)?.marks().marked(group);
    }
    Some(transaction::lowest(queue.slot, group.kind()).map_or(from, |own| own.min(from)))
}

/// Sets in the arguments where the search for a group's tasks begins.
fn begin_at(queue: &Queue, group: Group, from: Position, arguments: &mut Arguments) -> Option<()> {
    if group == Group::Buried {
        let (priority, start) = queue.buried_at(from)?;
        arguments.set_or_null(Parameter::Level, priority.map(Value::int8));
        arguments.set_mark(Some(start));
    } else {
        arguments.set_mark(Some(queue.start_at(from)?));
    }
    Some(())
}

/// Returns whether this transaction is allowed to raise marks. Its search would miss tasks that it has taken, dug out
/// or moved, which a rollback gives back. A fixed snapshot does not show tasks that others have put since.
fn may_raise(queue: &Queue, tasks: TaskKind) -> bool {
    !xact::has_fixed_snapshot()
        && !transaction::hides(queue.slot, tasks)
        && !searches_all(queue)
        && !queue.may_be_changing()
}

/// Returns whether a take can use candidates of a group that others have read ahead. The transaction's own tasks are
/// not among them, a group of several priorities has another order, and many tasks that share a position would be read
/// again and again.
pub fn may_read_ahead(queue: &Queue, group: Group) -> bool {
    let is_ordered = match group {
        Group::Ready { tube, priority } => {
            (priority.is_some() || !queue.by_priority) && (tube.is_none() || queue.tells_tubes)
        }
        Group::Buried => false,
    };
    let has_order = queue.order.is_some_and(|order| order.ties < Ties::Many);
    is_ordered && has_order && may_raise(queue, group.kind()) && !has_own(queue)
}

/// Returns the statement's condition for a group, and sets the arguments that it needs.
pub fn within(group: Group, arguments: &mut Arguments) -> Within {
    let Group::Ready { tube, priority } = group else { return Within::Buried };
    if let Some(priority) = priority {
        arguments.set(Parameter::Level, Value::int8(priority));
    }
    Within::Ready { tube: tube.is_some(), level: priority.is_some() }
}

/// Returns the position of the first task of a group from a given position on.
pub fn first(
    queue: &Queue,
    group: Group,
    arguments: &Arguments,
    from: Position,
) -> Option<Position> {
    let mut arguments = arguments.clone();
    begin_at(queue, group, from, &mut arguments)?;
    let within = within(group, &mut arguments);
    spi::connect(|spi| {
        let rows = queue.run(spi, &Statement::First(within), &arguments);
        if rows.is_empty() {
            return Some(LAST);
        }
        let value = |column: usize| rows.value(0, column as i32 + 1);
        let position = queue.position(value)?;
        let priority = value(queue.sql.marked).map(|priority| priority.to_integer());
        match group {
            Group::Buried => queue.position_by_priority(position, priority),
            Group::Ready { .. } => Some(position),
        }
    })
}

/// Returns the priorities of ready tasks, and at most one more than the limit.
fn scan_priorities(queue: &Queue) -> Vec<i64> {
    let mut arguments = Arguments::default();
    let mut found = Vec::new();
    let mut level = Some(i64::MIN);
    while let Some(from) = level.filter(|_| found.len() <= priorities::LIMIT) {
        arguments.set(Parameter::Level, Value::int8(from));
        let next = spi::connect(|spi| {
            let rows = queue.run(spi, &Statement::NextLevel, &arguments);
            rows.value(0, 1).map(|priority| priority.to_integer())
        });
        found.extend(next);
        level = next.and_then(|priority| priority.checked_add(1));
    }
    found
}

/// A raise whose end is reported on drop, also after an error.
struct Raise {
    slot: SlotId,
    group: Group,
    since: i64,
    found: Option<Position>,
}

impl Drop for Raise {
    fn drop(&mut self) {
        if let Some(mut slot) = slot::lock(self.slot) {
            slot.marks().end_raise(self.group, self.since, self.found);
        }
    }
}

/// A priority scan whose end is reported on drop, also after an error.
struct PriorityScan {
    slot: SlotId,
    since: i64,
    found: Option<Vec<i64>>,
}

impl Drop for PriorityScan {
    fn drop(&mut self) {
        if let Some(mut slot) = slot::lock(self.slot) {
            slot.marks().end_priority_scan(self.since, self.found.as_deref());
        }
    }
}
