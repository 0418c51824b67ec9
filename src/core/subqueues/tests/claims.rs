//! Claims of sub-queues, and their state afterwards.

use super::*;

#[test]
fn subqueues_are_served_in_the_order_of_their_last_service() {
    let mut memory = Memory::complete(10);
    let mut pool = memory.pool();
    for subqueue in [5, 6, 7] {
        assert!(pool.commit(JOBS, subqueue, &offers()));
    }
    for subqueue in [5, 6, 7, 5, 6, 7] {
        assert_eq!(claim_next(&mut pool, JOBS), Some(subqueue));
        assert!(!pool.commit(JOBS, subqueue, &took()));
        assert!(!pool.commit(JOBS, subqueue, &offers()), "what comes to a busy sub-queue waits");
        assert!(pool.commit(JOBS, subqueue, &settled()));
    }
    assert_eq!(claim_next(&mut pool, MAIL), None);
}

#[test]
fn a_subqueue_is_claimed_once() {
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
fn what_comes_while_a_subqueue_is_looked_at_is_not_missed() {
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
    // Both transactions have committed, and the callback of the later one runs first.
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
    for subqueue in [5, 6, 7] {
        pool.offer(JOBS, subqueue, UNKNOWN);
    }
    assert_eq!((claim_next(&mut pool, JOBS), claim_next(&mut pool, JOBS)), (Some(5), Some(6)));
    assert!(pool.give_back(JOBS, 6, Back::Front));
    assert!(pool.give_back(JOBS, 5, Back::Front));
    assert!(!pool.give_back(JOBS, 5, Back::Front));
    let order: Vec<_> = std::iter::from_fn(|| claim_next(&mut pool, JOBS)).collect();
    assert_eq!(order, [5, 6, 7]);
}

#[test]
fn a_complete_ring_has_nothing_once_all_is_claimed() {
    let mut memory = Memory::complete(10);
    let mut pool = memory.pool();
    assert!(!pool.may_have_some(JOBS));
    pool.offer(JOBS, 5, UNKNOWN);
    assert!(pool.may_have_some(JOBS) && !pool.may_have_some(MAIL));
    claim_next(&mut pool, JOBS);
    assert!(!pool.may_have_some(JOBS));
    pool.invalidate(JOBS);
    assert!(pool.may_have_some(JOBS));
}

/// A take of one sub-queue found its first task locked, or another task in flight, and gave it back.
#[test]
fn the_end_of_what_was_in_the_way_wakes_a_consumer_of_a_waiting_subqueue() {
    let mut memory = Memory::complete(10);
    let mut pool = memory.pool();
    pool.offer(JOBS, 5, UNKNOWN);
    assert!(pool.commit(JOBS, 5, &settled()));
    let lost = SubqueueChange { lost: true, ..SubqueueChange::default() };
    assert!(pool.commit(JOBS, 5, &lost));
    assert!(pool.undo(JOBS, 5, &lost));
    assert!(!pool.undo(JOBS, 5, &settled()), "the task is still in flight");
}
