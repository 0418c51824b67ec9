use super::*;
use crate::model::level::LAST as LAST_LEVEL;
use crate::model::position::FIRST;
use std::collections::{BTreeMap, BTreeSet};

const JOBS: SlotId = SlotId { index: 1, generation: 7 };
const MAIL: SlotId = SlotId { index: 0, generation: 8 };
const RESERVE: usize = 2;

/// Arrays as they are in shared memory.
struct Memory {
    header: Header,
    entries: Vec<Entry>,
    buckets: Vec<u32>,
    rings: Vec<Ring>,
}

impl Memory {
    fn new(room: usize) -> Memory {
        let entries = room + RESERVE;
        let mut memory = Memory {
            header: Header::default(),
            entries: vec![Entry::default(); entries],
            buckets: vec![0; entries.next_power_of_two()],
            rings: vec![Ring::default(); 2],
        };
        memory.pool().open(JOBS);
        memory.pool().open(MAIL);
        memory
    }

    /// The same with complete rings.
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

/// Claims the lane that is next.
fn claim_next(pool: &mut Pool, id: SlotId) -> Option<u64> {
    pool.claim_next(id).map(|next| next.lane)
}

fn offers() -> LaneChange {
    LaneChange { offers: true, level: UNKNOWN, ..LaneChange::default() }
}

fn took() -> LaneChange {
    LaneChange { claimed: true, taken: 1, ..LaneChange::default() }
}

fn settled() -> LaneChange {
    LaneChange { taken: -1, ..LaneChange::default() }
}

#[test]
fn lanes_are_served_in_the_order_of_their_last_service() {
    let mut memory = Memory::complete(10);
    let mut pool = memory.pool();
    for lane in [5, 6, 7] {
        assert!(pool.commit(JOBS, lane, &offers()));
    }
    for lane in [5, 6, 7, 5, 6, 7] {
        assert_eq!(claim_next(&mut pool, JOBS), Some(lane));
        assert!(!pool.commit(JOBS, lane, &took()));
        assert!(!pool.commit(JOBS, lane, &offers()), "what comes to a busy lane waits");
        assert!(pool.commit(JOBS, lane, &settled()));
    }
    assert_eq!(claim_next(&mut pool, MAIL), None);
}

#[test]
fn a_lane_is_claimed_once() {
    let mut memory = Memory::complete(10);
    let mut pool = memory.pool();
    pool.offer(JOBS, 5, UNKNOWN);
    assert_eq!(pool.claim(JOBS, 5), Ok(5));
    assert_eq!(pool.claim(JOBS, 5), Err(Refusal::InUse));
    assert_eq!(claim_next(&mut pool, JOBS), None);
    assert_eq!(pool.claim(MAIL, 5), Ok(5));
    pool.commit(JOBS, 5, &took());
    assert_eq!(pool.claim(JOBS, 5), Err(Refusal::InUse));
}

#[test]
fn what_comes_while_a_lane_is_looked_at_is_not_missed() {
    let mut memory = Memory::complete(10);
    let mut pool = memory.pool();
    pool.offer(JOBS, 5, UNKNOWN);
    assert_eq!(claim_next(&mut pool, JOBS), Some(5));
    assert!(!pool.commit(JOBS, 5, &offers()));
    assert!(pool.give_back(JOBS, 5, Back::Away));
    assert_eq!(claim_next(&mut pool, JOBS), Some(5));
    assert!(!pool.give_back(JOBS, 5, Back::Away));
    assert_eq!(claim_next(&mut pool, JOBS), None);
    assert!(pool.commit(JOBS, 5, &offers()));
    assert_eq!(claim_next(&mut pool, JOBS), Some(5));
}

#[test]
fn a_task_may_be_given_back_before_its_take_is_noted() {
    let mut memory = Memory::complete(10);
    let mut pool = memory.pool();
    pool.offer(JOBS, 5, UNKNOWN);
    claim_next(&mut pool, JOBS);
    // Both have committed, and the later one comes here first.
    assert!(!pool.commit(JOBS, 5, &settled()));
    assert!(pool.commit(JOBS, 5, &took()));
    assert_eq!(claim_next(&mut pool, JOBS), Some(5));
    pool.commit(JOBS, 5, &offers());
    assert!(!pool.commit(JOBS, 5, &took()));
    assert_eq!(claim_next(&mut pool, JOBS), None);
}

#[test]
fn a_take_that_is_undone_is_the_next_again() {
    let mut memory = Memory::complete(10);
    let mut pool = memory.pool();
    for lane in [5, 6, 7] {
        pool.offer(JOBS, lane, UNKNOWN);
    }
    assert_eq!((claim_next(&mut pool, JOBS), claim_next(&mut pool, JOBS)), (Some(5), Some(6)));
    assert!(pool.give_back(JOBS, 6, Back::Front));
    assert!(pool.give_back(JOBS, 5, Back::Front));
    assert!(!pool.give_back(JOBS, 5, Back::Front));
    let order: Vec<_> = std::iter::from_fn(|| claim_next(&mut pool, JOBS)).collect();
    assert_eq!(order, [5, 6, 7]);
}

#[test]
fn what_finds_no_room_is_found_in_the_table() {
    let mut memory = Memory::complete(3);
    let mut pool = memory.pool();
    for lane in 1..=3 {
        assert_eq!(pool.offer(JOBS, lane, UNKNOWN), Offered::Queued);
    }
    assert!(pool.knows(JOBS, 3) && !pool.knows(JOBS, 4));
    assert_eq!(pool.offer(JOBS, 3, UNKNOWN), Offered::Known);
    assert_eq!(pool.offer(JOBS, 4, UNKNOWN), Offered::NoRoom);
    assert!(pool.knows(JOBS, 4), "the ring is incomplete");
    assert_eq!(pool.claim(JOBS, 4), Ok(4), "there is always room for a few claims");
    assert_eq!(pool.claim(MAIL, 4), Ok(4));
    assert_eq!(pool.claim(MAIL, 5), Err(Refusal::NoRoom));
    pool.commit(JOBS, 4, &took());
    pool.give_back(MAIL, 4, Back::Away);
    assert_eq!(pool.waiting(JOBS), 3);
}

#[test]
fn a_ring_is_complete_after_a_pass_in_which_nothing_came_into_doubt() {
    let mut memory = Memory::new(3);
    let mut pool = memory.pool();
    let first = pool.begin_scan(JOBS).expect("incomplete");
    assert_eq!(first.from, i64::MIN);
    let late = pool.begin_scan(JOBS).expect("incomplete");
    pool.end_scan(JOBS, first, Some(100));
    pool.doubt(JOBS);
    let second = pool.begin_scan(JOBS).expect("incomplete");
    assert_eq!(second.from, 100);
    pool.end_scan(JOBS, late, None);
    assert_eq!(pool.begin_scan(JOBS), Some(second), "who comes late changes nothing");
    pool.end_scan(JOBS, second, None);
    let third = pool.begin_scan(JOBS).expect("what came into doubt is looked at again");
    assert_eq!(third.from, i64::MIN);
    pool.end_scan(JOBS, third, None);
    assert_eq!(pool.begin_scan(JOBS), None);
}

#[test]
fn a_reset_forgets_all_but_the_claims() {
    let mut memory = Memory::complete(10);
    let mut pool = memory.pool();
    for lane in [5, 6, 7] {
        pool.offer(JOBS, lane, UNKNOWN);
    }
    pool.offer(MAIL, 5, UNKNOWN);
    claim_next(&mut pool, JOBS);
    claim_next(&mut pool, JOBS);
    pool.commit(JOBS, 6, &took());
    pool.reset(JOBS);
    assert_eq!((pool.waiting(JOBS), pool.waiting(MAIL)), (0, 1));
    assert!(pool.give_back(JOBS, 5, Back::Away), "it has to be looked at again");
    assert!(pool.begin_scan(JOBS).is_some() && pool.begin_scan(MAIL).is_none());
    pool.close(MAIL);
    pool.open(SlotId { generation: 9, ..MAIL });
    assert_eq!((pool.waiting(MAIL), pool.claim(MAIL, 5)), (0, Err(Refusal::InUse)));
}

#[test]
fn a_mark_passes_no_key_that_came_during_the_look() {
    let mut memory = Memory::complete(10);
    let mut pool = memory.pool();
    let put = |least| LaneChange { least, ..offers() };
    pool.commit(JOBS, 5, &put(100));
    claim_next(&mut pool, JOBS);
    assert_eq!(pool.begin_look(JOBS, 5), FIRST);
    pool.commit(JOBS, 5, &put(50));
    pool.end_look(JOBS, 5, 100, UNKNOWN);
    assert_eq!(pool.begin_look(JOBS, 5), 50);
    pool.end_look(JOBS, 5, 80, UNKNOWN);
    assert_eq!(pool.begin_look(JOBS, 5), 80);
    pool.end_look(JOBS, 5, 80, UNKNOWN);
    pool.commit(JOBS, 5, &put(60));
    assert_eq!(pool.begin_look(JOBS, 5), 60);
}

/// Claims the next lane, which has nothing to take.
fn idle(pool: &mut Pool, id: SlotId) -> Option<u64> {
    let lane = claim_next(pool, id)?;
    assert!(!pool.give_back(id, lane, Back::Away));
    Some(lane)
}

#[test]
fn what_is_known_of_a_lane_outlasts_its_tasks() {
    let mut memory = Memory::complete(10);
    let mut pool = memory.pool();
    let put = |least| LaneChange { least, ..offers() };
    pool.commit(JOBS, 5, &put(100));
    claim_next(&mut pool, JOBS);
    pool.begin_look(JOBS, 5);
    pool.end_look(JOBS, 5, 100, UNKNOWN);
    pool.set_clear(JOBS, 5);
    pool.commit(JOBS, 5, &took());
    pool.commit(JOBS, 5, &settled());
    assert_eq!(idle(&mut pool, JOBS), Some(5));
    assert!(!pool.knows(JOBS, 5) && pool.waiting(JOBS) == 0);
    assert_eq!((pool.mark(JOBS, 5), pool.is_clear(JOBS, 5)), (100, true));
    assert!(pool.commit(JOBS, 5, &put(90)), "it has something to take again");
    assert_eq!((pool.mark(JOBS, 5), pool.is_clear(JOBS, 5)), (90, true));
    assert_eq!((pool.waiting(JOBS), pool.offer(JOBS, 5, UNKNOWN)), (1, Offered::Known));
    assert_eq!(idle(&mut pool, JOBS), Some(5));
    assert!(!pool.commit(JOBS, 5, &LaneChange { least: 80, ..LaneChange::default() }));
    assert_eq!((pool.mark(JOBS, 5), pool.knows(JOBS, 5)), (80, false));
    assert_eq!((pool.claim(JOBS, 5), pool.claim(JOBS, 5)), (Ok(5), Err(Refusal::InUse)));
    pool.reset(JOBS);
    assert_eq!((pool.mark(JOBS, 5), pool.is_clear(JOBS, 5)), (FIRST, false));
}

#[test]
fn a_lane_is_clear_only_while_every_taken_task_is_known() {
    let took = |task| LaneChange { took: Some(task), ..took() };
    let left = |task| LaneChange { left: Some(task), ..settled() };
    let next = LaneChange { took: Some(2), left: Some(1), ..LaneChange::default() };
    // Takes 1, and says that the lane is clear.
    let taken = |pool: &mut Pool| {
        pool.offer(JOBS, 5, UNKNOWN);
        pool.claim(JOBS, 5).expect("it is free");
        pool.set_clear(JOBS, 5);
        pool.commit(JOBS, 5, &took(1));
    };
    for (changes, is_clear) in [
        (vec![left(1)], true),
        (vec![next, left(2)], true),
        (vec![next, left(1)], false),
        // A task that was taken before, whose ack is told of only now.
        (vec![left(9)], false),
        (vec![next, left(9)], false),
        (vec![left(1), left(9)], false),
        (vec![LaneChange { claimed: false, ..took(3) }], false),
    ] {
        let mut memory = Memory::complete(10);
        let mut pool = memory.pool();
        taken(&mut pool);
        for change in &changes {
            pool.commit(JOBS, 5, change);
        }
        assert_eq!(pool.is_clear(JOBS, 5), is_clear, "{changes:?}");
    }
    let mut memory = Memory::complete(10);
    let mut pool = memory.pool();
    taken(&mut pool);
    pool.commit(JOBS, 5, &left(1));
    pool.claim(JOBS, 5).expect("it is free");
    pool.commit(JOBS, 5, &left(9));
    pool.set_clear(JOBS, 5);
    pool.commit(JOBS, 5, &took(2));
    assert!(!pool.is_clear(JOBS, 5) && pool.knows(JOBS, 5), "it is looked at again");
    pool.claim(JOBS, 5).expect("it is free");
    pool.set_clear(JOBS, 5);
    pool.commit(JOBS, 5, &LaneChange { claimed: true, ..next });
    assert!(!pool.is_clear(JOBS, 5) && pool.knows(JOBS, 5), "2 is in flight");
}

#[test]
fn a_lane_of_which_a_task_was_taken_without_it_is_not_clear() {
    let hand = LaneChange { took: Some(1), taken: 1, ..LaneChange::default() };
    let (back, took) =
        (LaneChange { left: Some(1), ..settled() }, LaneChange { took: Some(1), ..took() });
    let take = |pool: &mut Pool| {
        pool.claim(JOBS, 5).expect("it is free");
        pool.set_clear(JOBS, 5);
        pool.commit(JOBS, 5, &took);
    };
    let mut memory = Memory::complete(10);
    let mut pool = memory.pool();
    pool.offer(JOBS, 5, UNKNOWN);
    pool.claim(JOBS, 5).expect("it is free");
    pool.take_unclaimed(JOBS, 5);
    pool.commit(JOBS, 5, &hand);
    // It has come back, which the claimant sees before it is told here, and takes it.
    pool.set_clear(JOBS, 5);
    pool.commit(JOBS, 5, &took);
    pool.commit(JOBS, 5, &back);
    assert!(!pool.is_clear(JOBS, 5) && pool.knows(JOBS, 5), "task 1 is in flight");
    // The same where the lane has no entry, or has lost it meanwhile.
    take(&mut pool);
    pool.reset(JOBS);
    take(&mut pool);
    assert!(!pool.is_clear(JOBS, 5));
    let mut memory = Memory::complete(10);
    let mut pool = memory.pool();
    pool.take_unclaimed(JOBS, 5);
    take(&mut pool);
    assert!(!pool.is_clear(JOBS, 5));
}

#[test]
fn a_lane_that_is_idle_gives_way() {
    let mut memory = Memory::complete(3);
    let mut pool = memory.pool();
    for lane in 1..=5 {
        assert_eq!(pool.offer(JOBS, lane, UNKNOWN), Offered::Queued);
        assert_eq!(idle(&mut pool, JOBS), Some(lane));
        pool.set_clear(JOBS, lane);
    }
    assert_eq!(pool.offer(JOBS, 6, UNKNOWN), Offered::Queued);
    let known: Vec<u64> = (1..=6).filter(|lane| pool.is_clear(JOBS, *lane)).collect();
    assert_eq!(known, [2, 3, 4, 5], "the one that was idle for longest is forgotten");
    for lane in [7, 8] {
        assert_eq!(pool.offer(MAIL, lane, UNKNOWN), Offered::Queued);
    }
    assert_eq!(pool.offer(MAIL, 9, UNKNOWN), Offered::NoRoom, "some room is for claims");
    assert_eq!(pool.offer(JOBS, 5, UNKNOWN), Offered::NoRoom);
    assert!(!pool.is_clear(JOBS, 5));
    assert_eq!((pool.claim(JOBS, 1), pool.claim(JOBS, 2)), (Ok(1), Ok(2)));
    assert_eq!(pool.claim(MAIL, 3), Err(Refusal::NoRoom));
}

/// Many transactions at random: in the end every lane with something to take is served.
#[test]
fn no_lane_is_lost_and_none_is_claimed_twice() {
    let mut seed = 42u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let mut memory = Memory::complete(6);
    // What the table says: how many tasks are ready, and in which lanes one is taken.
    let mut ready: BTreeMap<u64, u32> = BTreeMap::new();
    let (mut open, mut busy) = (BTreeMap::new(), BTreeSet::new());
    for _ in 0..20_000 {
        let mut pool = memory.pool();
        let lane = random(12);
        match random(6) {
            0 | 1 => {
                *ready.entry(lane).or_default() += 1;
                pool.commit(JOBS, lane, &offers());
            }
            2 | 3 => {
                let Some(lane) = claim_next(&mut pool, JOBS) else { continue };
                assert!(!open.contains_key(&lane), "lane {lane} is claimed twice");
                let has = ready.get(&lane).is_some_and(|tasks| *tasks > 0) && !busy.contains(&lane);
                if has {
                    open.insert(lane, ());
                } else {
                    pool.give_back(JOBS, lane, Back::Away);
                }
            }
            4 => {
                let Some((lane, ())) = open.pop_first() else { continue };
                if random(3) == 0 {
                    pool.give_back(JOBS, lane, Back::Front);
                } else {
                    *ready.get_mut(&lane).expect("there was one") -= 1;
                    busy.insert(lane);
                    pool.commit(JOBS, lane, &took());
                }
            }
            _ => {
                let Some(lane) = busy.pop_first() else { continue };
                pool.commit(JOBS, lane, &settled());
            }
        }
        let mut pool = memory.pool();
        for (lane, tasks) in &ready {
            let is_takeable = *tasks > 0 && !busy.contains(lane) && !open.contains_key(lane);
            assert!(!is_takeable || pool.knows(JOBS, *lane), "lane {lane} is lost");
        }
    }
    let mut pool = memory.pool();
    pool.close(JOBS);
    pool.close(MAIL);
    assert!((0..12).all(|lane| pool.find(JOBS.index, lane).is_none()));
}

/// Something has come to be ready at a level.
fn put(level: Level) -> LaneChange {
    LaneChange { offers: true, level, ..LaneChange::default() }
}

#[test]
fn the_least_level_is_next_and_equals_take_turns() {
    let mut memory = Memory::complete(20);
    let mut pool = memory.pool();
    for (lane, level) in [(1, 5), (2, 5), (3, 1), (4, 9), (5, 1), (6, 5)] {
        assert!(pool.commit(JOBS, lane, &put(level)));
    }
    let next = pool.claim_next(JOBS).expect("there are some");
    assert_eq!(next, Next { lane: 3, level: 1, others: Some(1) });
    // More urgent than it was: it comes behind those that are so already.
    assert!(pool.commit(JOBS, 4, &put(1)));
    assert!(!pool.commit(JOBS, 1, &LaneChange { offers: false, ..put(7) }), "less urgent");
    let order: Vec<_> = std::iter::from_fn(|| pool.claim_next(JOBS)).collect();
    let shown = order.iter().map(|next| (next.lane, next.level, next.others)).collect::<Vec<_>>();
    assert_eq!(
        shown,
        [(5, 1, Some(1)), (4, 1, Some(5)), (1, 5, Some(5)), (2, 5, Some(5)), (6, 5, None)]
    );
    assert!(pool.give_back(JOBS, 2, Back::Front) && pool.give_back(JOBS, 1, Back::Front));
    assert!(!pool.give_back(JOBS, 6, Back::Tail));
    assert!(pool.give_back(JOBS, 3, Back::Front));
    let order: Vec<_> = std::iter::from_fn(|| claim_next(&mut pool, JOBS)).collect();
    assert_eq!(order, [3, 1, 2, 6]);
}

#[test]
fn a_level_is_raised_to_what_a_look_finds_and_no_further() {
    let mut memory = Memory::complete(10);
    let mut pool = memory.pool();
    pool.commit(JOBS, 5, &put(1));
    pool.commit(JOBS, 6, &put(4));
    assert_eq!(claim_next(&mut pool, JOBS), Some(5));
    pool.begin_look(JOBS, 5);
    pool.end_look(JOBS, 5, FIRST, 7);
    pool.give_back(JOBS, 5, Back::Tail);
    assert_eq!(pool.claim_next(JOBS), Some(Next { lane: 6, level: 4, others: Some(7) }));
    pool.begin_look(JOBS, 6);
    pool.commit(JOBS, 6, &put(2));
    pool.end_look(JOBS, 6, FIRST, 4);
    pool.commit(JOBS, 6, &took());
    pool.commit(JOBS, 6, &settled());
    assert_eq!(pool.claim_next(JOBS), Some(Next { lane: 6, level: 2, others: Some(7) }));
    // With nothing in it, what comes next says how urgent it is.
    pool.begin_look(JOBS, 6);
    pool.end_look(JOBS, 6, LAST, LAST_LEVEL);
    pool.give_back(JOBS, 6, Back::Away);
    pool.commit(JOBS, 6, &put(8));
    assert_eq!(pool.claim_next(JOBS), Some(Next { lane: 5, level: 7, others: Some(8) }));
}

#[test]
fn what_nobody_knows_comes_first() {
    let mut memory = Memory::complete(10);
    let mut pool = memory.pool();
    pool.commit(JOBS, 5, &put(1));
    // Its task was taken while nobody knew of the lane, and others may have come before.
    pool.commit(JOBS, 6, &LaneChange { level: 3, ..settled() });
    pool.commit(JOBS, 7, &LaneChange { lost: true, ..put(0) });
    let order: Vec<_> = std::iter::from_fn(|| pool.claim_next(JOBS)).collect();
    let shown: Vec<_> = order.iter().map(|next| (next.lane, next.level)).collect();
    assert_eq!(shown, [(6, UNKNOWN), (7, UNKNOWN), (5, 1)]);
    pool.reset(JOBS);
    order.iter().for_each(|next| assert!(pool.give_back(JOBS, next.lane, Back::Away)));
    assert_eq!(
        pool.claim_next(JOBS),
        Some(Next { lane: 6, level: UNKNOWN, others: Some(UNKNOWN) })
    );
}

/// Against a list that is sorted.
#[test]
fn many_levels_stay_in_order() {
    let mut seed = 7u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for levels in [1, 3, 40, 1_000_000] {
        let mut memory = Memory::complete(300);
        let mut ring: Vec<(Level, u64)> = Vec::new();
        let mut pool = memory.pool();
        for step in 0..20_000u64 {
            match random(8) {
                0..3 if ring.len() < 250 => {
                    let level = random(levels) as Level;
                    let at = ring.partition_point(|(known, _)| *known <= level);
                    ring.insert(at, (level, step));
                    assert_eq!(pool.offer(JOBS, step, level), Offered::Queued);
                }
                3 if !ring.is_empty() => {
                    let (level, lane) = ring.remove(random(ring.len() as u64) as usize);
                    assert_eq!(pool.claim(JOBS, lane), Ok(lane));
                    let back = random(3);
                    if back == 0 {
                        let at = ring.partition_point(|(known, _)| *known < level);
                        ring.insert(at, (level, lane));
                        pool.give_back(JOBS, lane, Back::Front);
                    } else {
                        pool.give_back(JOBS, lane, Back::Away);
                    }
                }
                4 if !ring.is_empty() => {
                    let from = random(ring.len() as u64) as usize;
                    let (before, lane) = ring[from];
                    let level = random(levels) as Level;
                    pool.begin_look(JOBS, lane);
                    pool.end_look(JOBS, lane, FIRST, level);
                    if level != before {
                        ring.remove(from);
                        let at = ring.partition_point(|(known, _)| *known <= level);
                        ring.insert(at, (level, lane));
                    }
                }
                _ if !ring.is_empty() => {
                    let (level, lane) = ring.remove(0);
                    let others = ring.first().map(|(level, _)| *level);
                    assert_eq!(pool.claim_next(JOBS), Some(Next { lane, level, others }));
                    pool.give_back(JOBS, lane, Back::Away);
                }
                _ => assert_eq!(pool.claim_next(JOBS), None),
            }
            assert_eq!(pool.waiting(JOBS), ring.len() as u32);
        }
        let left: Vec<_> = std::iter::from_fn(|| claim_next(&mut pool, JOBS)).collect();
        assert_eq!(left, ring.iter().map(|(_, lane)| *lane).collect::<Vec<_>>());
    }
}
