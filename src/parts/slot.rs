//! A slot for each queue: counters, what the worker has to do, who waits, the last error.

use crate::model::change::{Calls, Outcome, Transitions};
use crate::model::options::TUBES_COUNTED;
use crate::model::status::{Status, Tasks};
use crate::parts::capacity::Room;
use crate::parts::counters::change::{add, add_all};
use crate::parts::delta::Delta;
use crate::parts::leases::epoch;
use crate::parts::locks::{self, Directory, DirectoryLock, directory};
use crate::parts::marks::groups::Marks;
use crate::parts::slot_id::SlotId;
use crate::parts::subqueues;
use crate::parts::waiters::{Cause, Line, Offer};
use crate::server::shared_memory::{Guard, Guarded, Shared, Zeroed};
use serde_json::json;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

pub const NAME_LENGTH: usize = 64;
pub const ERROR_LENGTH: usize = 512;

/// Never: an instant after all others.
pub const NEVER: i64 = i64::MAX;

#[repr(C)]
pub struct Queue {
    /// 0 while the slot is free.
    generation: u64,
    pub database: u32,
    pub table: u32,
    /// The table's owner, as far as it is known.
    owner: u32,
    /// Who is to be that if a transaction commits that is about to; 0 if there is no such transaction.
    next_owner: u32,
    /// The same of a prepared transaction, until its end is known; it has the table locked, so there is one at the most.
    prepared_owner: u32,
    pub(in crate::parts) tasks: Tasks,
    pub(in crate::parts) calls: Calls,
    pub(in crate::parts) transitions: Transitions,
    /// Some tubes have statistics of their own, or had.
    counts_tubes: bool,
    /// It is paused, or was.
    pauses: bool,
    /// How often it was defined anew, paused or resumed.
    redefinitions: u64,
    /// The last of the doubts about what has happened to its tasks, by its number among those of all queues.
    pub(in crate::parts) doubt: u64,
    /// The tubes are sub-queues.
    has_lanes: bool,
    /// Those, in the order of the options.
    pub(in crate::parts) tubes: [Tube; TUBES_COUNTED],
    /// A committed transaction has to do with it: it is not just about to be made.
    pub(in crate::parts) settled: bool,
    /// The counters are those of the table.
    pub(in crate::parts) exact: bool,
    /// The table's triggers tell of every change.
    pub(in crate::parts) told: bool,
    /// A prepared transaction may have changed the table: what it did is not counted yet.
    pub(in crate::parts) prepared: bool,
    /// The worker is looking whether one has it locked.
    pub(in crate::parts) looks_for_prepared: bool,
    /// The counters have to be counted anew.
    pub(in crate::parts) recount: bool,
    pub(in crate::parts) room: Room,
    /// The last key made of the clock; 0 while that is not known.
    last_key: i64,
    /// The worker's next instant to act, `NEVER` if there is none.
    due: i64,
    pub(in crate::parts) line: Line,
    pub(in crate::parts) marks: Marks,
    /// Bit i: the recount in area i is about this queue.
    pub(in crate::parts) recounts: u32,
    pub(in crate::parts) names: [[u8; NAME_LENGTH]; 3],
    pub(in crate::parts) error: [u8; ERROR_LENGTH],
    pub(in crate::parts) error_at: i64,
}

/// The counters of a tube.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Tube {
    pub tasks: Tasks,
    pub transitions: Transitions,
}

/// A place for a queue.
pub struct Slot(UnsafeCell<Queue>);

// SAFETY: used under the queue's lock.
unsafe impl Sync for Slot {}
// SAFETY: numbers, bools, and enums and options whose zeros are their first.
unsafe impl Zeroed for Slot {}

pub(in crate::parts) static SLOTS: Shared<Slot> = Shared::new();
/// Whose each slot is: what is looked for lies close together.
pub(in crate::parts) static ASSIGNMENTS: Guarded<Assignment, DirectoryLock> = Guarded::new();
/// The last that was given to a slot.
pub(in crate::parts) static GENERATION: Guarded<u64, DirectoryLock> = Guarded::new();

/// The table that a slot is for.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Assignment {
    /// 0 while the slot is free.
    generation: u64,
    database: u32,
    table: u32,
}

// SAFETY: numbers.
unsafe impl Zeroed for Assignment {}

/// A queue, locked.
pub struct QueueGuard {
    index: u32,
    queue: &'static mut Queue,
    _guard: Guard,
}

impl Deref for QueueGuard {
    type Target = Queue;
    fn deref(&self) -> &Queue {
        self.queue
    }
}

impl DerefMut for QueueGuard {
    fn deref_mut(&mut self) -> &mut Queue {
        self.queue
    }
}

fn at(index: u32) -> Option<QueueGuard> {
    if index as usize >= SLOTS.len() {
        return None;
    }
    let guard = locks::queue(index as usize);
    // SAFETY: the index is below the number of slots, and the queue's lock is held exclusively.
    let queue = unsafe { &mut *SLOTS.get()[index as usize].0.get() };
    Some(QueueGuard { index, queue, _guard: guard })
}

/// Locks a queue's slot; None if the queue is gone.
pub fn lock(id: SlotId) -> Option<QueueGuard> {
    at(id.index).filter(|queue| queue.generation == id.generation)
}

/// The slot of a table, if it has one.
pub fn find(database: u32, table: u32) -> Option<SlotId> {
    find_in(&directory(), database, table)
}

/// The slot of a table; a new one, of this owner or 0 if that is not known, if it has none, and whether it is new. None if
/// all are in use.
pub fn find_or_add(
    database: u32,
    table: u32,
    owner: u32,
    capacity: Option<i64>,
) -> Option<(SlotId, bool)> {
    let mut directory = directory();
    if let Some(id) = find_in(&directory, database, table) {
        return Some((id, false));
    }
    let index = ASSIGNMENTS.get(&directory).iter().position(|assigned| assigned.generation == 0)?;
    let last = &mut GENERATION.get_mut(&mut directory)[0];
    *last += 1;
    let generation = *last;
    // What was a queue before may have tasks that are taken.
    let doubt = epoch::next_doubt(&mut directory);
    ASSIGNMENTS.get_mut(&mut directory)[index] = Assignment { generation, database, table };
    let queue = at(index as u32)?;
    *queue.queue = Queue {
        generation,
        database,
        table,
        owner,
        next_owner: 0,
        prepared_owner: 0,
        tasks: Tasks::default(),
        calls: Calls::default(),
        transitions: Transitions::default(),
        counts_tubes: false,
        pauses: false,
        redefinitions: 0,
        doubt,
        has_lanes: false,
        tubes: [Tube::default(); TUBES_COUNTED],
        settled: false,
        exact: false,
        told: false,
        prepared: true,
        looks_for_prepared: false,
        recount: true,
        room: Room::with_capacity(capacity),
        last_key: 0,
        due: i64::MIN,
        line: Line::default(),
        marks: Marks::default(),
        recounts: 0,
        names: [[0; NAME_LENGTH]; 3],
        error: [0; ERROR_LENGTH],
        error_at: 0,
    };
    subqueues::open(queue.id());
    Some((queue.id(), true))
}

/// How many slots of all databases are in use by queues of an owner, or of one that is about to be that or is if a
/// prepared transaction commits; but for some that are about to be its own no more.
pub fn count_of(owner: u32, but: &[SlotId]) -> usize {
    let counts = |queue: QueueGuard| {
        let owners = [queue.owner, queue.next_owner, queue.prepared_owner];
        owners.contains(&owner) && !but.contains(&queue.id())
    };
    in_use(&directory()).filter(|(id, _)| lock(*id).is_some_and(counts)).count()
}

/// All slots of a database, or of all databases.
pub fn all(database: Option<u32>) -> Vec<(SlotId, u32)> {
    let mut found = Vec::with_capacity(SLOTS.len());
    let directory = directory();
    let is_wanted =
        |assigned: &Assignment| database.is_none_or(|database| database == assigned.database);
    let wanted = in_use(&directory).filter(|(_, assigned)| is_wanted(assigned));
    found.extend(wanted.map(|(id, assigned)| (id, assigned.table)));
    found
}

/// Whether prepared transactions may have changed queues of a database.
pub fn any_prepared(database: u32) -> bool {
    let directory = directory();
    let mut of_database = in_use(&directory).filter(|(_, assigned)| assigned.database == database);
    of_database.any(|(id, _)| lock(id).is_some_and(|queue| queue.is_prepared()))
}

fn find_in(directory: &Directory, database: u32, table: u32) -> Option<SlotId> {
    let is_its = |assigned: &Assignment| (assigned.database, assigned.table) == (database, table);
    in_use(directory).find(|(_, assigned)| is_its(assigned)).map(|(id, _)| id)
}

/// The slots that are not free.
fn in_use(directory: &Directory) -> impl Iterator<Item = (SlotId, Assignment)> {
    let slots = ASSIGNMENTS.get(directory).iter().copied().enumerate();
    let id = |(index, assigned): (usize, Assignment)| {
        (SlotId { index: index as u32, generation: assigned.generation }, assigned)
    };
    slots.map(id).filter(|(id, _)| id.generation != 0)
}

/// Frees the slot of a queue that is gone. Those who wait are woken to find out.
pub fn remove(id: SlotId) {
    free(&mut directory(), id);
}

/// Frees all slots of a database. Must neither allocate nor fail.
pub fn remove_all(database: u32) {
    let mut directory = directory();
    for index in 0..ASSIGNMENTS.len() {
        let assigned = ASSIGNMENTS.get(&directory)[index];
        if assigned.generation != 0 && assigned.database == database {
            let id = SlotId { index: index as u32, generation: assigned.generation };
            free(&mut directory, id);
        }
    }
}

fn free(directory: &mut Directory, id: SlotId) {
    if let Some(mut queue) = lock(id) {
        queue.dismiss_everyone();
        subqueues::close(id);
        queue.generation = 0;
        ASSIGNMENTS.get_mut(directory)[id.index as usize] = Assignment::default();
    }
}

/// Notes that something may have happened to a queue's tasks of which nobody was told. Must neither
/// allocate nor fail.
pub fn invalidate(id: SlotId) {
    let mut directory = directory();
    let doubt = epoch::next_doubt(&mut directory);
    if let Some(mut queue) = lock(id) {
        queue.doubt = doubt;
    }
}

impl QueueGuard {
    pub fn index(&self) -> u32 {
        self.index
    }

    pub fn id(&self) -> SlotId {
        SlotId { index: self.index, generation: self.generation }
    }

    /// Whose the table is, as this process sees it.
    pub fn learn_owner(&mut self, owner: u32) {
        self.owner = owner;
    }

    /// The table is this role's once the open transaction has committed.
    pub fn set_next_owner(&mut self, owner: u32) {
        self.next_owner = owner;
    }

    /// The transaction that has set the next owner has committed, or it was rolled back.
    pub fn end_next_owner(&mut self, is_committed: bool) {
        let next = std::mem::take(&mut self.next_owner);
        if is_committed {
            self.owner = next;
        }
    }

    /// That transaction is prepared: the table is the old owner's as well, until it is known how that ends.
    pub fn prepare_next_owner(&mut self) {
        self.prepared_owner = std::mem::take(&mut self.next_owner);
    }

    pub fn has_prepared_owner(&self) -> bool {
        self.prepared_owner != 0
    }

    /// The prepared transaction that was to change the owner has ended, and this is the owner since; unless another has
    /// been prepared meanwhile, which is looked for again.
    pub fn resolve_owner(&mut self, owner: u32) {
        if !self.prepared && std::mem::take(&mut self.prepared_owner) == owner {
            self.owner = owner;
        }
    }

    /// Takes over what transaction `xid` has committed, and wakes whom it concerns.
    pub fn commit(&mut self, xid: u32, delta: &Delta) {
        self.commit_told(delta);
        if delta.counters.tubes_changed {
            self.tubes = [Tube::default(); TUBES_COUNTED];
        }
        if delta.counters.replaces {
            self.tasks = Tasks::default();
            self.tubes.iter_mut().for_each(|tube| tube.tasks = Tasks::default());
            self.exact |= self.may_be_exact();
            self.room.empty();
        }
        add(&mut self.tasks, &delta.counters.tasks);
        self.room.reserved -= delta.capacity.reserved;
        self.settled = true;
        add(&mut self.calls, &delta.counters.calls);
        add_all(&mut self.transitions, &delta.counters.transitions);
        for (tube, change) in &delta.counters.tubes {
            add(&mut self.tubes[*tube].tasks, &change.tasks);
            add_all(&mut self.tubes[*tube].transitions, &change.transitions);
        }
        self.tell_recounts(xid, delta);
        self.lower_marks(delta);
        self.tell_ends(delta);
        if delta.table.given_away {
            self.end_next_owner(true);
        }
        self.redefinitions += u64::from(delta.table.redefined || delta.table.paused.is_some());
        self.pauses = delta.table.paused.unwrap_or(self.pauses);
        if delta.table.paused == Some(false) {
            self.wake_for_ready();
        }
        self.commit_lanes(delta);
        if delta.table.redefined || delta.table.paused == Some(true) {
            self.wake_everyone();
        } else {
            for (tube, count) in delta.waiters.made_ready.by_tube() {
                self.wake(Cause::Commit, count, Offer { tube });
            }
        }
        if delta.table.redefined {
            // What was none of the worker's may be now.
            self.lower_due(i64::MIN);
        }
        if let Some(instant) = delta.schedule.due {
            self.lower_due(instant);
        }
        if delta.counters.recount {
            (self.recount, self.exact) = (true, false);
            self.room.distrust();
            self.lower_due(i64::MIN);
        }
        if let Some(capacity) = delta.capacity.limit {
            self.set_capacity(capacity);
        }
        self.grant();
        self.trace_recount(|| {
            json!({ "do": "Tell", "xid": xid, "change": delta.counters.tasks, "replaces": delta.counters.replaces })
        });
    }

    fn tell_ends(&mut self, delta: &Delta) {
        for (hash, outcome) in &delta.waiters.ended {
            self.tell_end(Some(*hash), Some(*outcome));
        }
        if delta.counters.replaces {
            self.tell_end(None, Some(Outcome::Deleted));
        } else if delta.waiters.ended_more {
            self.tell_end(None, None);
        }
    }

    /// A key made of the clock, greater than all before it. None if the last one is not known.
    pub fn next_key(&mut self, now: i64) -> Option<i64> {
        if self.last_key == 0 {
            return None;
        }
        self.last_key = self.last_key.saturating_add(1).max(now);
        Some(self.last_key)
    }

    /// Keys made of the clock will be greater than this one.
    pub fn raise_last_key(&mut self, key: i64) {
        self.last_key = self.last_key.max(key).max(1);
    }

    /// Some tubes have statistics of their own; the queue is paused.
    pub fn note_kind(&mut self, counts_tubes: bool, pauses: bool) {
        self.counts_tubes |= counts_tubes;
        self.pauses |= pauses;
    }

    /// Whether it may be paused.
    pub fn pauses(&self) -> bool {
        self.pauses
    }

    pub fn redefinitions(&self) -> u64 {
        self.redefinitions
    }

    /// Whether the tubes are sub-queues.
    pub fn set_has_lanes(&mut self, has_lanes: bool) {
        self.has_lanes = has_lanes;
    }

    pub fn counts_tubes(&self) -> bool {
        self.counts_tubes
    }

    /// The worker has to act at `instant`. True if that is earlier than it knew.
    pub fn lower_due(&mut self, instant: i64) -> bool {
        let earlier = instant < self.due;
        self.due = self.due.min(instant);
        earlier
    }

    /// Forgets when the worker has to act; it looks into the table next. Whoever commits an
    /// instant meanwhile is not forgotten.
    pub fn forget_due(&mut self) {
        self.due = NEVER;
    }

    pub fn due(&self) -> i64 {
        self.due
    }

    /// The committed tasks, in whatever state.
    pub(in crate::parts) fn total(&self) -> i64 {
        self.tasks.iter().sum()
    }

    /// How many consumers have something to take, as far as is known.
    pub(in crate::parts) fn ready(&self) -> u32 {
        match self.has_lanes {
            // What is behind the first task of a sub-queue is nobody's yet.
            true if self.has_ready() => subqueues::waiting(self.id()).max(1),
            true => 0,
            false => self.tasks[Status::Ready as usize].clamp(0, i64::from(u32::MAX)) as u32,
        }
    }

    /// Whether none of the lanes that may have something to take is missing in the ring.
    pub(in crate::parts) fn knows_all_lanes(&self) -> bool {
        !self.has_lanes || subqueues::is_complete(self.id())
    }

    pub fn has_taken(&self) -> bool {
        !self.exact || self.tasks[Status::Taken as usize] != 0
    }

    /// Whether there may be something to take.
    pub fn has_ready(&self) -> bool {
        let has_ready = self.tasks[Status::Ready as usize] != 0;
        has_ready && (!self.has_lanes || subqueues::may_have_some(self.id()))
    }

    pub fn has_producers(&self) -> bool {
        self.line.producers > 0
    }

    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// Since there were so many doubts there was none about this queue, but for triggers that are off.
    pub fn doubt(&self) -> u64 {
        self.doubt
    }
}
