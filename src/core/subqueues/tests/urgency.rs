//! Sub-queues of several levels.

use super::*;
use crate::level::LAST as LAST_LEVEL;

/// Change of a commit that adds a ready task at this level.
fn put(level: Level) -> SubqueueChange {
    SubqueueChange { offers: true, level, ..SubqueueChange::default() }
}

#[test]
fn the_least_level_is_next_and_equals_take_turns() {
    let mut memory = Memory::complete(20);
    let mut pool = memory.pool();
    for (subqueue, level) in [(1, 5), (2, 5), (3, 1), (4, 9), (5, 1), (6, 5)] {
        assert_eq!(pool.offer(JOBS, subqueue, level), Offered::Queued);
    }
    let next = pool.claim_next(JOBS).expect("there are some");
    assert_eq!(next, Next { subqueue: 3, level: 1, others: Some(1) });
    // The sub-queue has a lesser level than before, and comes after the others of that level.
    assert!(pool.commit(JOBS, 4, &put(1)));
    assert!(!pool.commit(JOBS, 1, &SubqueueChange { offers: false, ..put(7) }), "less urgent");
    let order: Vec<_> = std::iter::from_fn(|| pool.claim_next(JOBS)).collect();
    let shown =
        order.iter().map(|next| (next.subqueue, next.level, next.others)).collect::<Vec<_>>();
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
    pool.offer(JOBS, 5, 1);
    pool.offer(JOBS, 6, 4);
    assert_eq!(claim_next(&mut pool, JOBS), Some(5));
    pool.begin_look(JOBS, 5);
    pool.end_look(JOBS, 5, FIRST, 7);
    pool.give_back(JOBS, 5, Back::Tail);
    assert_eq!(pool.claim_next(JOBS), Some(Next { subqueue: 6, level: 4, others: Some(7) }));
    pool.begin_look(JOBS, 6);
    pool.commit(JOBS, 6, &put(2));
    pool.end_look(JOBS, 6, FIRST, 4);
    pool.commit(JOBS, 6, &took());
    pool.commit(JOBS, 6, &settled());
    assert_eq!(pool.claim_next(JOBS), Some(Next { subqueue: 6, level: 2, others: Some(7) }));
    // The sub-queue is empty, so the next task determines its level.
    pool.begin_look(JOBS, 6);
    pool.end_look(JOBS, 6, LAST, LAST_LEVEL);
    pool.give_back(JOBS, 6, Back::Away);
    pool.commit(JOBS, 6, &put(8));
    assert_eq!(pool.claim_next(JOBS), Some(Next { subqueue: 5, level: 7, others: Some(8) }));
}

#[test]
fn what_is_unknown_comes_first() {
    let mut memory = Memory::complete(10);
    let mut pool = memory.pool();
    pool.offer(JOBS, 5, 1);
    // The task was taken while the sub-queue had no entry. Other tasks can have come earlier.
    pool.commit(JOBS, 6, &SubqueueChange { level: 3, ..settled() });
    pool.commit(JOBS, 7, &SubqueueChange { lost: true, ..put(0) });
    let order: Vec<_> = std::iter::from_fn(|| pool.claim_next(JOBS)).collect();
    let shown: Vec<_> = order.iter().map(|next| (next.subqueue, next.level)).collect();
    assert_eq!(shown, [(6, UNKNOWN), (7, UNKNOWN), (5, 1)]);
    pool.reset(JOBS);
    order.iter().for_each(|next| assert!(pool.give_back(JOBS, next.subqueue, Back::Away)));
    assert_eq!(
        pool.claim_next(JOBS),
        Some(Next { subqueue: 6, level: UNKNOWN, others: Some(UNKNOWN) })
    );
}

#[test]
fn a_look_that_began_before_its_subqueue_was_forgotten_raises_nothing() {
    let mut memory = Memory::complete(10);
    let mut pool = memory.pool();
    pool.commit(JOBS, 5, &put(1));
    claim_next(&mut pool, JOBS);
    pool.commit(JOBS, 5, &took());
    pool.begin_look(JOBS, 5);
    pool.reset(JOBS);
    // The scan does not see this commit.
    pool.commit(JOBS, 5, &put(-3));
    pool.end_look(JOBS, 5, FIRST, 7);
    assert!(pool.claim_next(JOBS).is_some_and(|next| next.level <= -3));
}

/// More urgent tasks can exist already: behind one that has been in flight since before a restart, if the ring is
/// complete.
#[test]
fn of_an_unknown_subqueue_no_put_makes_the_level_known() {
    for mut memory in [Memory::new(10), Memory::complete(10)] {
        let mut pool = memory.pool();
        assert!(pool.commit(JOBS, 7, &put(5)));
        assert_eq!(pool.level(JOBS, 7), UNKNOWN);
        assert_eq!(pool.claim_next(JOBS), Some(Next { subqueue: 7, level: UNKNOWN, others: None }));
    }
}
