//! More sub-queues than there is room for, and incomplete rings.

use super::*;

#[test]
fn what_finds_no_room_is_found_in_the_table() {
    let mut memory = Memory::complete(3);
    let mut pool = memory.pool();
    for subqueue in 1..=3 {
        assert_eq!(pool.offer(JOBS, subqueue, UNKNOWN), Offered::Queued);
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
    pool.invalidate(JOBS);
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
    for subqueue in [5, 6, 7] {
        pool.offer(JOBS, subqueue, UNKNOWN);
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
fn a_subqueue_that_is_idle_gives_way() {
    let mut memory = Memory::complete(3);
    let mut pool = memory.pool();
    for subqueue in 1..=5 {
        assert_eq!(pool.offer(JOBS, subqueue, UNKNOWN), Offered::Queued);
        assert_eq!(claim_next(&mut pool, JOBS), Some(subqueue));
        pool.set_clear(JOBS, subqueue);
        pool.give_back(JOBS, subqueue, Back::Away);
    }
    assert_eq!(pool.offer(JOBS, 6, UNKNOWN), Offered::Queued);
    let known: Vec<u64> = (1..=6).filter(|subqueue| pool.is_clear(JOBS, *subqueue)).collect();
    assert_eq!(known, [2, 3, 4, 5], "the one that was idle for longest is forgotten");
    for subqueue in [7, 8] {
        assert_eq!(pool.offer(MAIL, subqueue, UNKNOWN), Offered::Queued);
    }
    assert_eq!(pool.offer(MAIL, 9, UNKNOWN), Offered::NoRoom, "some room is for claims");
    assert_eq!(pool.offer(JOBS, 5, UNKNOWN), Offered::NoRoom);
    assert!(!pool.is_clear(JOBS, 5));
    assert_eq!((pool.claim(JOBS, 1), pool.claim(JOBS, 2)), (Ok(1), Ok(2)));
    assert_eq!(pool.claim(MAIL, 3), Err(Refusal::NoRoom));
}
