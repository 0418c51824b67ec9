//! Behaviour of sub-queues, by subject. The properties hold after any sequence of changes.

mod claims;
mod looks;
mod properties;
mod room;
mod urgency;

use super::*;
use crate::position::FIRST;

const JOBS: SlotId = SlotId { index: 1, generation: 7 };
const MAIL: SlotId = SlotId { index: 0, generation: 8 };
const RESERVE: usize = 2;

/// Arrays like those in shared memory.
struct Memory {
    header: Header,
    entries: Vec<Entry>,
    buckets: Vec<u32>,
    rings: Vec<SubqueueRing>,
}

impl Memory {
    fn new(room: usize) -> Memory {
        let entries = room + RESERVE;
        let mut memory = Memory {
            header: Header::default(),
            entries: vec![Entry::default(); entries],
            buckets: vec![0; entries.next_power_of_two()],
            rings: vec![SubqueueRing::default(); 2],
        };
        memory.pool().open(JOBS);
        memory.pool().open(MAIL);
        memory
    }

    /// Makes arrays whose rings are complete.
    fn complete(room: usize) -> Memory {
        let mut memory = Memory::new(room);
        for id in [JOBS, MAIL] {
            let scan = memory.pool().begin_scan(id).expect("a new ring is incomplete");
            memory.pool().end_scan(id, scan, None);
        }
        memory
    }

    fn pool(&mut self) -> Pool<'_> {
        Pool {
            header: &mut self.header,
            entries: &mut self.entries,
            buckets: &mut self.buckets,
            rings: &mut self.rings,
            reserve: RESERVE,
        }
    }
}

/// Claims the next sub-queue.
fn claim_next(pool: &mut Pool, id: SlotId) -> Option<u64> {
    pool.claim_next(id).map(|next| next.subqueue)
}

fn offers() -> SubqueueChange {
    SubqueueChange { offers: true, level: UNKNOWN, ..SubqueueChange::default() }
}

fn took() -> SubqueueChange {
    SubqueueChange { claimed: true, taken: 1, ..SubqueueChange::default() }
}

fn settled() -> SubqueueChange {
    SubqueueChange { taken: -1, ..SubqueueChange::default() }
}

/// Claims the next sub-queue, which has nothing to take.
fn idle(pool: &mut Pool, id: SlotId) -> Option<u64> {
    let subqueue = claim_next(pool, id)?;
    assert!(!pool.give_back(id, subqueue, Back::Away));
    Some(subqueue)
}

#[test]
fn a_first_task_goes_before_the_others_or_in_its_turn() {
    let limit = |level, others, own| Next { subqueue: 7, level, others }.limit(own);
    assert_eq!(limit(3, None, None), LAST_LEVEL);
    assert_eq!(limit(3, Some(3), None), 3);
    assert_eq!(limit(3, Some(9), None), 8);
    assert_eq!(limit(3, Some(9), Some(5)), 5);
    assert_eq!(limit(3, None, Some(5)), 5);
    assert_eq!(limit(Level::MIN, Some(Level::MIN), None), Level::MIN);
}
