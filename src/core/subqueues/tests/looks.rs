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
fn a_subqueue_is_clear_only_while_every_taken_task_is_known() {
    let took = |task| SubqueueChange { took: Some(task), ..took() };
    let left = |task| SubqueueChange { left: Some(task), ..settled() };
    let next = SubqueueChange { took: Some(2), left: Some(1), ..SubqueueChange::default() };
    // Takes task 1 and makes the sub-queue clear.
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
        // A task that was taken earlier, whose ack is reported only now.
        (vec![left(9)], false),
        (vec![next, left(9)], false),
        (vec![left(1), left(9)], false),
        (vec![SubqueueChange { claimed: false, ..took(3) }], false),
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
    pool.commit(JOBS, 5, &SubqueueChange { claimed: true, ..next });
    assert!(!pool.is_clear(JOBS, 5) && pool.knows(JOBS, 5), "2 is in flight");
}

#[test]
fn a_subqueue_of_which_a_task_was_taken_without_it_is_not_clear() {
    let hand = SubqueueChange { took: Some(1), taken: 1, ..SubqueueChange::default() };
    let (back, took) =
        (SubqueueChange { left: Some(1), ..settled() }, SubqueueChange { took: Some(1), ..took() });
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
    // The task has come back. The claimant sees and takes it before its return is reported.
    pool.set_clear(JOBS, 5);
    pool.commit(JOBS, 5, &took);
    pool.commit(JOBS, 5, &back);
    assert!(!pool.is_clear(JOBS, 5) && pool.knows(JOBS, 5), "task 1 is in flight");
    // The sub-queue has no entry, or loses it: it does not become clear either.
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
