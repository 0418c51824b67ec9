//! Slots: the shared memory of each queue, the lock that guards it, and the assignment of slots to tables.
//!
//! State that only few queues use lies in separate arrays, with one element per slot, under the same lock. The
//! operating system backs only touched pages, so the unused elements cost no memory. The slot records whether, or up to
//! which length, its element is in use. An unused element is neither read nor cleared.

use crate::parts::capacity::shared::Capacity;
use crate::parts::counters::shared::CounterState;
use crate::parts::leases::epoch;
use crate::parts::leases::shared::LeaseState;
use crate::parts::locks::{self, Directory, DirectoryLock, directory};
use crate::parts::prepared::shared::PreparedState;
use crate::parts::schedule::Schedule;
use crate::parts::subqueues;
use crate::parts::table::TableState;
use crate::parts::waiters::wait_queue::WaitQueue;
use crate::server::shared_memory::{Guard, Guarded, Shared, Zeroed};
use std::cell::UnsafeCell;
use std::collections::HashSet;
use std::ops::{Deref, DerefMut};
use xqueue_core::assignments::{self, Head, SlotAssignment, SlotAssignments, TableId};
use xqueue_core::counters::shown::{self, Problems};
use xqueue_core::counters::tubes::CountedTubes;
use xqueue_core::marks::candidate::Candidates;
use xqueue_core::marks::groups::{Grouped, Whole};
use xqueue_core::marks::rings::{RINGS, States};
use xqueue_core::slot_id::SlotId;

/// The state of a queue that processes share, part by part.
#[repr(C)]
pub struct SharedQueue {
    /// 0 while the slot is free.
    generation: u64,
    pub database: u32,
    pub relation: u32,
    pub table: TableState,
    pub counters: CounterState,
    pub prepared: PreparedState,
    pub(in crate::parts) marks: Whole,
    pub(in crate::parts) rings: States,
    pub(in crate::parts) waiters: WaitQueue,
    pub leases: LeaseState,
    pub(in crate::parts) capacity: Capacity,
    pub schedule: Schedule,
    pub shown: shown::ShownState,
}

/// One slot's element in one of the arrays.
pub struct OfSlot<T>(UnsafeCell<T>);

// SAFETY: used under the queue's lock.
unsafe impl<T: Send> Sync for OfSlot<T> {}
// SAFETY: zeros are valid because they are valid for `T`.
unsafe impl<T: Zeroed> Zeroed for OfSlot<T> {}
// SAFETY: numbers, bools, and enums and options whose zeros are their first.
unsafe impl Zeroed for SharedQueue {}
// SAFETY: numbers, and enums and options whose zeros are their first.
unsafe impl Zeroed for Grouped {}
// SAFETY: numbers.
unsafe impl Zeroed for Candidates {}
// SAFETY: numbers.
unsafe impl Zeroed for CountedTubes {}
// SAFETY: numbers.
unsafe impl Zeroed for Problems {}

pub(in crate::parts) static SLOTS: Shared<OfSlot<SharedQueue>> = Shared::new();
pub(in crate::parts) static GROUPED: Shared<OfSlot<Grouped>> = Shared::new();
/// One array per ring, because most queues use a single ring.
pub(in crate::parts) static CANDIDATES: [Shared<OfSlot<Candidates>>; RINGS] =
    [const { Shared::new() }; RINGS];
pub(in crate::parts) static TUBES: Shared<OfSlot<CountedTubes>> = Shared::new();
pub(in crate::parts) static PROBLEMS: Shared<OfSlot<Problems>> = Shared::new();
/// The table of each slot, in an array of its own so that a search reads little memory.
pub(in crate::parts) static ASSIGNMENTS: Guarded<SlotAssignment, DirectoryLock> = Guarded::new();
pub(in crate::parts) static HEAD: Guarded<Head, DirectoryLock> = Guarded::new();

// SAFETY: numbers.
unsafe impl Zeroed for SlotAssignment {}
// SAFETY: numbers.
unsafe impl Zeroed for Head {}

/// A slot whose lock this process holds.
pub struct QueueGuard {
    index: u32,
    pub(in crate::parts) queue: &'static mut SharedQueue,
    pub(in crate::parts) apart: Apart,
    _guard: Guard,
}

/// The elements of a slot that lie in separate arrays.
pub(in crate::parts) struct Apart {
    pub marks: &'static mut Grouped,
    pub candidates: [&'static mut Candidates; RINGS],
    pub tubes: &'static mut CountedTubes,
    pub problems: &'static mut Problems,
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
    let slot = index as usize;
    if slot >= SLOTS.len() {
        return None;
    }
    let guard = locks::queue(slot);
    // SAFETY: these elements are used only under the queue's lock, which is held exclusively while the references live.
    // Each element belongs to another array.
    let (queue, apart) = unsafe {
        let apart = Apart {
            marks: &mut *GROUPED.get()[slot].0.get(),
            candidates: CANDIDATES.each_ref().map(|of| &mut *of.get()[slot].0.get()),
            tubes: &mut *TUBES.get()[slot].0.get(),
            problems: &mut *PROBLEMS.get()[slot].0.get(),
        };
        (&mut *SLOTS.get()[slot].0.get(), apart)
    };
    Some(QueueGuard { index, queue, apart, _guard: guard })
}

/// Locks a queue's slot. Returns None if the queue was dropped.
pub fn lock(id: SlotId) -> Option<QueueGuard> {
    at(id.index).filter(|queue| queue.generation == id.generation)
}

/// Does something under a queue's lock; None if the queue is gone.
pub fn with<T>(id: SlotId, work: impl FnOnce(&mut QueueGuard) -> T) -> Option<T> {
    lock(id).map(|mut slot| work(&mut slot))
}

/// Returns the slot of a table, if it has one.
pub fn find(database: u32, table: u32) -> Option<SlotId> {
    find_in(&directory(), TableId { database, table })
}

/// Returns the slot of a table, and whether it is new. A table without a slot gets a free one, with this owner (0:
/// unknown). Returns None if all slots are in use.
pub fn find_or_add(
    database: u32,
    table: u32,
    owner: u32,
    capacity: Option<i64>,
) -> Option<(SlotId, bool)> {
    let mut directory = directory();
    let of = TableId { database, table };
    if let Some(id) = find_in(&directory, of) {
        return Some((id, false));
    }
    let (index, generation) = change(&mut directory, |assignments| assignments.add(of))?;
    // A table that was a queue before might have taken tasks that no session has recorded.
    let epoch = epoch::next_epoch(&mut directory);
    let queue = at(index)?;
    *queue.queue = SharedQueue {
        generation,
        database,
        relation: table,
        table: TableState::of(owner),
        counters: CounterState::uncounted(),
        prepared: PreparedState::unknown(),
        marks: Whole::default(),
        rings: States::default(),
        waiters: WaitQueue::default(),
        leases: LeaseState { epoch },
        capacity: Capacity::with_capacity(capacity),
        schedule: Schedule::at_once(),
        shown: shown::ShownState::default(),
    };
    subqueues::open(queue.id());
    Some((queue.id(), true))
}

/// Counts the slots, of all databases, that belong to an owner: now, once the current transaction commits, or once a
/// prepared transaction commits. The slots in `but`, which are about to leave the owner, do not count.
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
    let is_wanted = |of: &TableId| database.is_none_or(|database| database == of.database);
    let wanted = in_use(&directory).filter(|(_, of)| is_wanted(of));
    found.extend(wanted.map(|(id, of)| (id, of.table)));
    found
}

/// Returns the queues that an owner's job worker serves, with their tables.
pub fn of_job_worker(database: u32, owner: u32) -> Vec<(SlotId, u32)> {
    let is_served = |id| lock(id).is_some_and(|queue| queue.schedule.job_owner() == owner);
    all(Some(database)).into_iter().filter(|(id, _)| is_served(*id)).collect()
}

/// Returns whether prepared transactions might have changed queues of a database.
pub fn any_prepared(database: u32) -> bool {
    let directory = directory();
    let mut of_database = in_use(&directory).filter(|(_, of)| of.database == database);
    of_database.any(|(id, _)| lock(id).is_some_and(|queue| queue.prepared.is_possible()))
}

/// Returns the databases with a queue whose recorded age of ready tasks is outdated.
pub fn databases_with_outdated_ages() -> HashSet<u32> {
    let mut found = Vec::with_capacity(SLOTS.len());
    found.extend(in_use(&directory()).map(|(id, of)| (id, of.database)));
    let is_outdated = |id| lock(id).is_some_and(|queue| queue.is_ready_since_outdated());
    found.into_iter().filter(|(id, _)| is_outdated(*id)).map(|(_, database)| database).collect()
}

fn find_in(directory: &Directory, of: TableId) -> Option<SlotId> {
    let found = assignments::find(ASSIGNMENTS.get(directory), of);
    found.map(|(index, generation)| SlotId { index, generation })
}

/// Returns the slots in use.
fn in_use(directory: &Directory) -> impl Iterator<Item = (SlotId, TableId)> {
    let slots = &ASSIGNMENTS.get(directory)[..HEAD.get(directory)[0].bound()];
    slots.iter().zip(0..).filter_map(|(assigned, index)| {
        let (of, generation) = assigned.in_use()?;
        Some((SlotId { index, generation }, of))
    })
}

fn change<T>(directory: &mut Directory, change: impl FnOnce(&mut SlotAssignments) -> T) -> T {
    let mut head = HEAD.get(directory)[0];
    let slots = ASSIGNMENTS.get_mut(directory);
    let changed = change(&mut SlotAssignments { head: &mut head, slots });
    HEAD.get_mut(directory)[0] = head;
    changed
}

/// Frees the slot of a dropped queue and wakes its waiting processes, which then find that it is gone.
pub fn remove(id: SlotId) {
    free(&mut directory(), id);
}

/// Frees all slots of a database. Must neither allocate nor fail.
pub fn remove_all(database: u32) {
    let mut directory = directory();
    for index in 0..HEAD.get(&directory)[0].bound() {
        let assigned = ASSIGNMENTS.get(&directory)[index].in_use();
        if let Some((_, generation)) = assigned.filter(|(of, _)| of.database == database) {
            free(&mut directory, SlotId { index: index as u32, generation });
        }
    }
}

fn free(directory: &mut Directory, id: SlotId) {
    if let Some(mut queue) = lock(id) {
        queue.waiters().dismiss_everyone();
        subqueues::close(id);
        queue.generation = 0;
        change(directory, |assignments| assignments.remove(id.index));
    }
}

/// Raises the invalidation epoch of a queue: sessions that began earlier do not necessarily know all their leases. Must
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::shared_memory;

    /// A queue without tubes and priorities uses only one of the separate elements: the candidates of one ring.
    #[test]
    fn a_plain_queue_takes_less_than_8_kb() {
        let parts = [
            size_of::<SharedQueue>(),
            size_of::<Candidates>(),
            size_of::<SlotAssignment>(),
            subqueues::SIZE_OF_QUEUE,
            shared_memory::SIZE_OF_LOCK,
        ];
        assert!(parts.iter().sum::<usize>() < 8000, "{parts:?}");
    }
}
