//! Slots: a place in shared memory for each queue, the lock under which its parts are used, and the assignment of
//! slots to tables.

use crate::parts::capacity::shared::Capacity;
use crate::parts::counters::shared::Shared as Counters;
use crate::parts::counters::shown::Shared as Shown;
use crate::parts::leases::epoch;
use crate::parts::leases::shared::Shared as Leases;
use crate::parts::locks::{self, Directory, DirectoryLock, directory};
use crate::parts::marks::groups::Marks;
use crate::parts::prepared::shared::Shared as Prepared;
use crate::parts::schedule::shared::Shared as Schedule;
use crate::parts::slot_id::SlotId;
use crate::parts::subqueues;
use crate::parts::table::shared::Shared as TableState;
use crate::parts::waiters::wait_queue::WaitQueue;
use crate::server::shared_memory::{Guard, Guarded, Shared, Zeroed};
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

/// State of a queue that processes share, part by part.
#[repr(C)]
pub struct SharedQueue {
    /// 0 while the slot is free.
    generation: u64,
    pub database: u32,
    pub relation: u32,
    pub(in crate::parts) table: TableState,
    pub(in crate::parts) counters: Counters,
    pub(in crate::parts) prepared: Prepared,
    pub(in crate::parts) marks: Marks,
    pub(in crate::parts) waiters: WaitQueue,
    pub(in crate::parts) leases: Leases,
    pub(in crate::parts) capacity: Capacity,
    pub(in crate::parts) schedule: Schedule,
    pub(in crate::parts) shown: Shown,
}

/// Slot of a queue.
pub struct Slot(UnsafeCell<SharedQueue>);

// SAFETY: used under the queue's lock.
unsafe impl Sync for Slot {}
// SAFETY: numbers, bools, and enums and options whose zeros are their first.
unsafe impl Zeroed for Slot {}

pub(in crate::parts) static SLOTS: Shared<Slot> = Shared::new();
/// Table of each slot, kept apart so that a search reads little memory.
pub(in crate::parts) static ASSIGNMENTS: Guarded<Assignment, DirectoryLock> = Guarded::new();
/// Last generation given to a slot.
pub(in crate::parts) static GENERATION: Guarded<u64, DirectoryLock> = Guarded::new();

/// Table that a slot is assigned to.
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

/// A slot whose lock this process holds.
pub struct QueueGuard {
    index: u32,
    queue: &'static mut SharedQueue,
    _guard: Guard,
}

impl Deref for QueueGuard {
    type Target = SharedQueue;
    fn deref(&self) -> &SharedQueue {
        self.queue
    }
}

impl DerefMut for QueueGuard {
    fn deref_mut(&mut self) -> &mut SharedQueue {
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

/// Returns the slot of a table, if it has one.
pub fn find(database: u32, table: u32) -> Option<SlotId> {
    find_in(&directory(), database, table)
}

/// Returns the slot of a table and whether it is new; assigns a free one, with this owner (0: unknown), if the table
/// has none. None if all slots are in use.
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
    // A table that was a queue before may have taken tasks that no session knows of.
    let epoch = epoch::next_epoch(&mut directory);
    ASSIGNMENTS.get_mut(&mut directory)[index] = Assignment { generation, database, table };
    let queue = at(index as u32)?;
    *queue.queue = SharedQueue {
        generation,
        database,
        relation: table,
        table: TableState::of(owner),
        counters: Counters::uncounted(),
        prepared: Prepared::unknown(),
        marks: Marks::default(),
        waiters: WaitQueue::default(),
        leases: Leases { epoch },
        capacity: Capacity::with_capacity(capacity),
        schedule: Schedule::at_once(),
        shown: Shown::default(),
    };
    subqueues::open(queue.id());
    Some((queue.id(), true))
}

/// Counts the slots of all databases that belong to an owner now, will once the current transaction commits, or may
/// once a prepared one does; without those in `but`, which are about to leave it.
pub fn count_of(owner: u32, but: &[SlotId]) -> usize {
    let counts = |queue: QueueGuard| {
        let owners = queue.table.owners();
        owners.contains(&owner) && !but.contains(&queue.id())
    };
    in_use(&directory()).filter(|(id, _)| lock(*id).is_some_and(counts)).count()
}

/// Returns the slots of a database, or of all databases, with their tables.
pub fn all(database: Option<u32>) -> Vec<(SlotId, u32)> {
    let mut found = Vec::with_capacity(SLOTS.len());
    let directory = directory();
    let is_wanted =
        |assigned: &Assignment| database.is_none_or(|database| database == assigned.database);
    let wanted = in_use(&directory).filter(|(_, assigned)| is_wanted(assigned));
    found.extend(wanted.map(|(id, assigned)| (id, assigned.table)));
    found
}

/// Returns whether prepared transactions may have changed queues of a database.
pub fn any_prepared(database: u32) -> bool {
    let directory = directory();
    let mut of_database = in_use(&directory).filter(|(_, assigned)| assigned.database == database);
    of_database.any(|(id, _)| lock(id).is_some_and(|queue| queue.is_prepared()))
}

fn find_in(directory: &Directory, database: u32, table: u32) -> Option<SlotId> {
    let is_its = |assigned: &Assignment| (assigned.database, assigned.table) == (database, table);
    in_use(directory).find(|(_, assigned)| is_its(assigned)).map(|(id, _)| id)
}

/// Returns the slots in use.
fn in_use(directory: &Directory) -> impl Iterator<Item = (SlotId, Assignment)> {
    let slots = ASSIGNMENTS.get(directory).iter().copied().enumerate();
    let id = |(index, assigned): (usize, Assignment)| {
        (SlotId { index: index as u32, generation: assigned.generation }, assigned)
    };
    slots.map(id).filter(|(id, _)| id.generation != 0)
}

/// Frees the slot of a queue that is gone. Waiting processes are woken to find out.
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

/// Raises the invalidation epoch of a queue: sessions that began earlier may not know all leases they hold. Must
/// neither allocate nor fail.
pub fn invalidate(id: SlotId) {
    let mut directory = directory();
    let epoch = epoch::next_epoch(&mut directory);
    if let Some(mut queue) = lock(id) {
        queue.leases.epoch = epoch;
    }
}

impl QueueGuard {
    pub fn index(&self) -> u32 {
        self.index
    }

    pub fn id(&self) -> SlotId {
        SlotId { index: self.index, generation: self.generation }
    }
}
