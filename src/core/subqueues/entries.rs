//! Entries of the sub-queues of all queues, found through a hash table with chains. Each entry is in its queue's ring,
//! see [`crate::subqueues::levels`], or in one of two lists.

#[cfg(test)]
#[path = "integrity.rs"]
mod integrity;

use crate::level::{Level, UNKNOWN};
use crate::position::{FIRST, Position};
use crate::slot_id::SlotId;
use crate::subqueues::Back;

/// A sub-queue of a queue.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Entry {
    pub subqueue: u64,
    /// No ready or waiting task stands before this position.
    pub mark: Position,
    /// First position at which a task arrived since the last scan began.
    pub floor: Position,
    /// No ready or waiting task has a lesser level.
    pub level: Level,
    /// Least level at which a task arrived since the last scan began.
    pub level_floor: Level,
    /// Slot of the queue.
    pub(super) queue: u32,
    /// Neighbours in the list, or in the circle of a level. A link is an index plus one; 0 is no link.
    pub(super) previous: u32,
    pub(super) next: u32,
    /// Lesser and greater levels in the tree, while the entry represents its level.
    pub(super) left: u32,
    pub(super) right: u32,
    /// Weight in the tree, while the entry represents its level. No level below it weighs more.
    pub(super) weight: u32,
    /// Next in the hash table's chain, or next free entry.
    chain: u32,
    pub state: State,
    /// A task to take has arrived while the sub-queue was claimed.
    pub dirty: bool,
    /// A taken task has come back or ended while the sub-queue was claimed.
    pub settled: bool,
    /// No task of the sub-queue is taken except the claimant's, or the one that made it busy.
    pub clear: bool,
}

#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum State {
    #[default]
    Free,
    Waiting,
    Claimed,
    Busy,
    Idle,
}

/// Lists of a queue's entries that are not in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Claimed or busy entries.
    Away,
    /// Entries that have nothing to take.
    Idle,
}

const LISTS: [List; 2] = [List::Away, List::Idle];

/// Sub-queues of a queue.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SubqueueRing {
    /// Generation of the queue's slot; 0 while the slot is free.
    generation: u64,
    /// Root of the tree of levels.
    pub(super) root: u32,
    /// First and last entry of each list.
    ends: [[u32; 2]; LISTS.len()],
    /// Number of sub-queues in the ring.
    pub waiting: u32,
    /// Sub-queues that have something to take can be missing.
    pub incomplete: bool,
    /// Number of times that the ring became incomplete.
    pub invalidations: u64,
    /// Value of `invalidations` when the pass in progress began.
    pub pass: u64,
    /// Sub-queue at which the pass continues.
    pub cursor: i64,
}

impl SubqueueRing {
    pub fn new(generation: u64) -> SubqueueRing {
        SubqueueRing {
            generation,
            incomplete: true,
            invalidations: 1,
            cursor: i64::MIN,
            ..SubqueueRing::default()
        }
    }
}

/// Bookkeeping of the entries, and the secret for the weights.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Header {
    /// First entry of the free list.
    free: u32,
    /// First entry that has never been used.
    fresh: u32,
    /// Number of entries in use.
    used: u32,
    /// Number of idle entries among them, which are evicted when there is no free entry.
    idle: u32,
    /// Secret from which the weights of levels are derived. Without it users could choose labels that degrade the tree
    /// to a list.
    pub secret: u64,
}

impl Header {
    /// Returns the weight of a level that this sub-queue represents.
    pub fn weight(&self, subqueue: u64) -> u32 {
        let mixed = (subqueue ^ self.secret).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed =
            (mixed ^ self.secret.rotate_left(32) ^ mixed >> 29).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed >> 32) as u32
    }
}

/// View of all entries, the hash table and the rings.
pub struct Pool<'a> {
    pub header: &'a mut Header,
    pub entries: &'a mut [Entry],
    /// Heads of the hash table's chains; their number is a power of two.
    pub buckets: &'a mut [u32],
    /// Rings, one for each slot.
    pub rings: &'a mut [SubqueueRing],
    /// Number of entries reserved for claims.
    pub reserve: usize,
}

impl Pool<'_> {
    pub fn ring(&mut self, id: SlotId) -> Option<&mut SubqueueRing> {
        let ring = self.rings.get_mut(id.index as usize)?;
        (ring.generation == id.generation).then_some(ring)
    }

    pub fn entry(&mut self, link: u32) -> &mut Entry {
        &mut self.entries[link as usize - 1]
    }

    /// Returns whether entries are free besides those reserved for claims.
    pub fn has_room(&self) -> bool {
        let Header { used, idle, .. } = *self.header;
        (used - idle) as usize + self.reserve < self.entries.len()
    }

    pub fn first(&self, queue: u32, list: List) -> Option<u32> {
        some(self.rings[queue as usize].ends[list as usize][0])
    }

    /// Returns the next entry in the same list.
    pub fn after(&self, link: u32) -> Option<u32> {
        some(self.entries[link as usize - 1].next)
    }

    pub fn find(&self, queue: u32, subqueue: u64) -> Option<u32> {
        let mut link = self.buckets[self.bucket(queue, subqueue)];
        while link != 0 {
            let entry = &self.entries[link as usize - 1];
            if entry.subqueue == subqueue && entry.queue == queue {
                return Some(link);
            }
            link = entry.chain;
        }
        None
    }

    /// Returns the entry of a claimed sub-queue.
    pub fn claimed(&mut self, id: SlotId, subqueue: u64) -> Option<u32> {
        self.ring(id)?;
        let link = self.find(id.index, subqueue)?;
        (self.entry(link).state == State::Claimed).then_some(link)
    }

    /// Adds an entry at the tail of the list of its state. Returns None if all entries are in use.
    pub fn add(&mut self, queue: u32, subqueue: u64, level: Level, state: State) -> Option<u32> {
        if self.header.used as usize == self.entries.len() && self.header.idle > 0 {
            self.forget_idle(queue);
        }
        let link = match some(self.header.free) {
            Some(link) => {
                self.header.free = self.entry(link).chain;
                link
            }
            None if (self.header.fresh as usize) < self.entries.len() => {
                self.header.fresh += 1;
                self.header.fresh
            }
            None => return None,
        };
        self.header.used += 1;
        let bucket = self.bucket(queue, subqueue);
        let chain = std::mem::replace(&mut self.buckets[bucket], link);
        // The floor makes sure that a scan that began before the entry existed cannot raise the mark.
        *self.entry(link) = Entry {
            subqueue,
            mark: FIRST,
            floor: FIRST,
            level,
            level_floor: UNKNOWN,
            queue,
            chain,
            ..Entry::default()
        };
        self.link(link, state, Back::Tail);
        Some(link)
    }

    /// Evicts the entry that has been idle for the longest time, of this queue if it has an idle one.
    fn forget_idle(&mut self, queue: u32) {
        let others = 0..self.rings.len() as u32;
        let idle = [queue].into_iter().chain(others).find_map(|of| self.first(of, List::Idle));
        if let Some(link) = idle {
            self.remove(link);
        }
    }

    /// Changes the level of an entry. An entry in the ring moves to the tail of the new level.
    pub fn set_level(&mut self, link: u32, level: Level) {
        let is_waiting = self.entry(link).state == State::Waiting;
        if is_waiting && self.entry(link).level != level {
            self.leave_ring(link);
            self.entry(link).level = level;
            self.enter_ring(link, Back::Tail);
        }
        self.entry(link).level = level;
    }

    /// Moves an entry to the front or tail of the list of a state, or of the ring.
    pub fn place(&mut self, link: u32, state: State, to: Back) {
        self.unlink(link);
        self.link(link, state, to);
    }

    pub fn remove(&mut self, link: u32) {
        self.unlink(link);
        let Entry { queue, subqueue, chain, .. } = *self.entry(link);
        let bucket = self.bucket(queue, subqueue);
        if self.buckets[bucket] == link {
            self.buckets[bucket] = chain;
        } else {
            let mut before = self.buckets[bucket];
            while self.entry(before).chain != link {
                before = self.entry(before).chain;
            }
            self.entry(before).chain = chain;
        }
        *self.entry(link) = Entry { chain: self.header.free, ..Entry::default() };
        self.header.free = link;
        self.header.used -= 1;
    }

    /// Frees all entries of a slot.
    pub fn empty(&mut self, queue: u32) {
        while let Some(link) = self.first_waiting(queue) {
            self.remove(link);
        }
        for list in LISTS {
            while let Some(link) = self.first(queue, list) {
                self.remove(link);
            }
        }
    }

    fn bucket(&self, queue: u32, subqueue: u64) -> usize {
        let mixed =
            (subqueue ^ u64::from(queue).rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize & (self.buckets.len() - 1)
    }

    fn link(&mut self, link: u32, state: State, to: Back) {
        let queue = self.entry(link).queue as usize;
        self.entry(link).state = state;
        let Some(list) = list_of(state) else {
            self.rings[queue].waiting += 1;
            return self.enter_ring(link, to);
        };
        let ends = &mut self.rings[queue].ends[list as usize];
        let (previous, next) = match to {
            Back::Front => (0, std::mem::replace(&mut ends[0], link)),
            _ => (std::mem::replace(&mut ends[1], link), 0),
        };
        if next == 0 && previous == 0 {
            *ends = [link, link];
        }
        if let Some(previous) = some(previous) {
            self.entry(previous).next = link;
        }
        if let Some(next) = some(next) {
            self.entry(next).previous = link;
        }
        let entry = self.entry(link);
        (entry.previous, entry.next) = (previous, next);
        self.header.idle += u32::from(state == State::Idle);
    }

    fn unlink(&mut self, link: u32) {
        let Entry { queue, previous, next, state, .. } = *self.entry(link);
        let Some(list) = list_of(state) else {
            self.rings[queue as usize].waiting -= 1;
            return self.leave_ring(link);
        };
        match some(previous) {
            Some(previous) => self.entry(previous).next = next,
            None => self.rings[queue as usize].ends[list as usize][0] = next,
        }
        match some(next) {
            Some(next) => self.entry(next).previous = previous,
            None => self.rings[queue as usize].ends[list as usize][1] = previous,
        }
        self.header.idle -= u32::from(state == State::Idle);
    }
}

/// Returns the list of a state; None for the ring.
fn list_of(state: State) -> Option<List> {
    match state {
        State::Waiting => None,
        State::Idle => Some(List::Idle),
        _ => Some(List::Away),
    }
}

pub(super) fn some(link: u32) -> Option<u32> {
    (link != 0).then_some(link)
}
