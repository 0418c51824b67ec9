//! Row checks of `check`: one scan of all rows, and a check of the first task of each sub-queue. Neither runs a
//! statement, see [`crate::queue::census`].

use crate::error::Result;
use crate::parts::{slot, subqueues};
use crate::queue::Queue;
use crate::queue::census::{self, Holders};
use crate::server::heap::{Bound, Is};
use crate::server::memory::Scratch;
use crate::server::relation::Relation;
use crate::server::row::Tuple;
use crate::server::snapshot::Snapshot;
use crate::server::value::Value;
use crate::server::{time, xact};
use crate::transaction;
use pgrx::pg_sys::Oid;
use std::collections::HashMap;
use xqueue_core::change::StateAndTube;
use xqueue_core::field::Field;
use xqueue_core::level::Level;
use xqueue_core::marks::groups::Copied;
use xqueue_core::position::{Group, Position, TaskKind};
use xqueue_core::statement::Index;
use xqueue_core::status::Status;

/// Problems of single rows, and the holders of tasks.
#[derive(Default)]
pub struct Findings {
    /// Number of waiting tasks and zombies without an end time.
    pub stranded: i64,
    /// Number of rows whose status stands for no state.
    pub stateless: i64,
    /// Number of tasks with an owner that are not taken.
    pub disowned: i64,
    pub holders: Holders,
    /// The first ready task before a low-water mark of the whole queue.
    pub hidden: Option<Position>,
    /// The first ready task before the low-water mark of its tube.
    pub hidden_in_tube: Option<Position>,
    pub hidden_buried: Option<Position>,
    /// The greatest number of taken tasks in one sub-queue.
    pub most_in_flight: i64,
}

/// Checks all rows.
pub fn look(queue: &Queue) -> Result<Findings> {
    let relation = census::table(queue)?;
    let snapshot = Snapshot::latest();
    // Copies the marks right after the snapshot: a mark raised later can have passed tasks that are ready in the
    // snapshot.
    let mut judge = Judge::of(queue);
    let scratch = Scratch::new();
    relation.scan(&snapshot, |row| {
        scratch.run(|| judge.see(row));
        true
    });
    judge.findings.most_in_flight = judge.in_flight.into_values().max().unwrap_or(0);
    Ok(judge.findings)
}

struct Judge<'a> {
    queue: &'a Queue,
    /// Low-water marks; None if they cannot be checked.
    marks: Option<Copied>,
    judges_ready: bool,
    judges_buried: bool,
    in_flight: HashMap<u64, i64>,
    findings: Findings,
}

impl Judge<'_> {
    fn of(queue: &Queue) -> Judge<'_> {
        let has_marks = queue.order.is_some() && !xact::in_recovery();
        let is_untouched = |kind| transaction::lowest(queue.slot, kind).is_none();
        Judge {
            queue,
            marks: slot::lock(queue.slot).filter(|_| has_marks).map(|slot| slot.copy_marks()),
            judges_ready: !queue.features().has_subqueues() && is_untouched(TaskKind::Ready),
            judges_buried: is_untouched(TaskKind::Buried),
            in_flight: HashMap::new(),
            findings: Findings::default(),
        }
    }

    fn see(&mut self, row: &Tuple) {
        let queue = self.queue;
        let Ok(place) = queue.place_of(row) else {
            self.findings.stateless += 1;
            return;
        };
        if place.status != Status::Taken && queue.value_of(row, Field::Owner).is_some() {
            self.findings.disowned += 1;
        }
        match place.status {
            Status::Ready if self.judges_ready => self.see_ready(row, &place),
            Status::Buried if self.judges_buried => {
                let is_hidden = self.is_before(Group::Buried, queue.position_of_buried(row));
                note(&mut self.findings.hidden_buried, is_hidden);
            }
            Status::Taken => self.see_taken(row, &place),
            Status::Waiting => self.see_timed(row),
            Status::Zombie if queue.features().zombies() => self.see_timed(row),
            Status::Ready | Status::Buried | Status::Zombie | Status::Done => {}
        }
    }

    fn see_ready(&mut self, row: &Tuple, place: &StateAndTube) {
        let (queue, position) = (self.queue, self.queue.position_of(row));
        let priority = queue.priority(queue.value_of(row, Field::Priority));
        let of_all = self.is_before(Group::Ready { tube: None, priority }, position);
        note(&mut self.findings.hidden, of_all);
        let tube = place.tube.map(|tube| tube.hash);
        let of_tube = self.is_before(Group::Ready { tube, priority }, position);
        note(&mut self.findings.hidden_in_tube, of_tube);
    }

    fn see_taken(&mut self, row: &Tuple, place: &StateAndTube) {
        let session = self.queue.holder_of(row);
        *self.findings.holders.entry(session).or_default() += 1;
        if let Some(tube) = place.tube.filter(|tube| tube.is_subqueue) {
            *self.in_flight.entry(tube.hash).or_default() += 1;
        }
    }

    fn see_timed(&mut self, row: &Tuple) {
        let has_end = self.queue.instant_of(row, Field::Runat).is_some();
        self.findings.stranded += i64::from(!has_end);
    }

    /// Returns the position if it lies before the mark of a group.
    fn is_before(&mut self, group: Group, position: Option<Position>) -> Option<Position> {
        let mark = self.marks.as_mut()?.marks().marked(group);
        position.filter(|position| *position < mark)
    }
}

/// Keeps the lowest position.
fn note(first: &mut Option<Position>, found: Option<Position>) {
    *first = [*first, found].into_iter().flatten().min();
}

/// Reports a sub-queue whose first task no take would find: it is not in the ring, its mark lies beyond the task, or
/// its known level is lower.
pub fn lost_subqueue(queue: &Queue) -> Result<Option<String>> {
    let relation = census::table(queue)?;
    let indexes =
        [queue.sql.order_index(), Index::InFlight].map(|index| queue.index(&relation, index));
    // A missing index is reported as a problem of its own.
    let [Some(index), Some(in_flight)] = indexes else { return Ok(None) };
    // Changes of the open transaction are not in shared memory yet.
    let pending = transaction::pending_subqueues(queue.slot);
    let mut from = Some(i64::MIN);
    while let Some(at_least) = from {
        let snapshot = Snapshot::latest();
        let Some((subqueue, head)) = first_of(queue, &relation, index, at_least, &snapshot) else {
            break;
        };
        from = (subqueue as i64).checked_add(1);
        let Some(first) = head.filter(|_| !pending.contains(subqueue)) else { continue };
        let mut is_free = true;
        let of_subqueue = Bound { is: Is::Equal, value: Value::int8(subqueue as i64) };
        relation.scan_by(in_flight, &[of_subqueue], &snapshot, |row| {
            is_free = census::holder(row, queue).is_none();
            is_free
        });
        let Stand { position, level } = first;
        let mark = || subqueues::mark(queue.slot, subqueue);
        let wrong = match position {
            _ if !is_free => None,
            _ if !subqueues::knows(queue.slot, subqueue) => {
                Some("no take looks for the first task")
            }
            Some(position) if position < mark() => {
                Some("the first task stands before the low-water mark")
            }
            _ if level < subqueues::level(queue.slot, subqueue) => {
                Some("the first task is more urgent than is known")
            }
            _ => None,
        };
        if let Some(wrong) = wrong {
            return Ok(Some(format!("in the sub-queue with the hash {} {wrong}", subqueue as i64)));
        }
    }
    Ok(None)
}

/// Position and level of a sub-queue's first task.
struct Stand {
    /// None if it is unknown.
    position: Option<Position>,
    level: Level,
}

/// A sub-queue's hash and its first task; None for the task if it is not ready.
type Head = (u64, Option<Stand>);

/// Returns the next sub-queue, by hash, that has tasks to take in order.
fn first_of(
    queue: &Queue,
    relation: &Relation,
    index: Oid,
    at_least: i64,
    snapshot: &Snapshot,
) -> Option<Head> {
    let now = time::now();
    let mut found: Option<Head> = None;
    let from = Bound { is: Is::AtLeast, value: Value::int8(at_least) };
    relation.scan_by(index, &[from], snapshot, |row| {
        let Ok(StateAndTube { status, tube: Some(tube) }) = queue.place_of(row) else {
            return true;
        };
        if found.get_or_insert((tube.hash, None)).0 != tube.hash {
            return false;
        }
        if queue.instant_of(row, Field::Expires).is_some_and(|end| end <= now) {
            return true;
        }
        let is_ready = status == Status::Ready;
        let stand = || Stand { position: queue.position_of(row), level: queue.level_of(row) };
        found = Some((tube.hash, is_ready.then(stand)));
        false
    });
    found
}
