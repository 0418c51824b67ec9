//! Marks of sub-queues, and whether shared memory knows all their tasks in flight.

use super::*;

#[test]
fn a_mark_passes_no_key_that_came_during_the_look() {
    let mut memory = Memory::complete(10);
    let mut pool = memory.pool();
    let put = |least| SubqueueChange { least, ..offers() };
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

#[test]
fn what_is_known_of_a_subqueue_outlasts_its_tasks() {
    let mut memory = Memory::complete(10);
    let mut pool = memory.pool();
    let put = |least| SubqueueChange { least, ..offers() };
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
    assert!(!pool.commit(JOBS, 5, &SubqueueChange { least: 80, ..SubqueueChange::default() }));
    assert_eq!((pool.mark(JOBS, 5), pool.knows(JOBS, 5)), (80, false));
    assert_eq!((pool.claim(JOBS, 5), pool.claim(JOBS, 5)), (Ok(5), Err(Refusal::InUse)));
    pool.reset(JOBS);
    assert_eq!((pool.mark(JOBS, 5), pool.is_clear(JOBS, 5)), (FIRST, false));
}

#[test]
fn a_subqueue_stays_clear_until_it_is_forgotten() {
    let mut memory = Memory::complete(10);
    let mut pool = memory.pool();
    pool.offer(JOBS, 5, UNKNOWN);
    pool.set_clear(JOBS, 5);
    assert!(!pool.is_clear(JOBS, 5), "only a claimant can see that no task is taken");
    pool.claim(JOBS, 5).expect("it is free");
    pool.set_clear(JOBS, 5);
    pool.commit(JOBS, 5, &took());
    pool.commit(JOBS, 5, &SubqueueChange { lost: true, ..SubqueueChange::default() });
    assert!(pool.is_clear(JOBS, 5) && pool.is_busy(JOBS, 5));
    pool.commit(JOBS, 5, &settled());
    pool.claim(JOBS, 5).expect("it is free");
    assert!(pool.is_clear(JOBS, 5));
    pool.reset(JOBS);
    pool.commit(JOBS, 5, &took());
    assert!(!pool.is_clear(JOBS, 5) && pool.is_busy(JOBS, 5));
}

#[test]
fn a_report_from_before_the_look_frees_no_subqueue() {
    for looks in [true, false] {
        let mut memory = Memory::complete(10);
        let mut pool = memory.pool();
        pool.claim(JOBS, 5).expect("it is free");
        pool.commit(JOBS, 5, &settled());
        if looks {
            pool.set_clear(JOBS, 5);
        }
        pool.commit(JOBS, 5, &took());
        assert_eq!((pool.is_busy(JOBS, 5), pool.is_clear(JOBS, 5)), (looks, looks));
    }
}
