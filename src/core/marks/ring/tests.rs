use super::*;
use crate::row_id::RowId;

fn candidates(positions: impl IntoIterator<Item = Position>) -> Vec<Candidate> {
    let candidate = |position| Candidate::new(position, RowId::new(position as u32, 1));
    positions.into_iter().map(candidate).collect()
}

#[derive(Default)]
struct Own {
    state: State,
    candidates: Candidates,
}

impl Own {
    fn ring(&mut self) -> CandidateRing<'_> {
        CandidateRing { state: &mut self.state, candidates: &mut self.candidates }
    }

    fn hand_out(&mut self, now: i64) -> Handed {
        self.ring().hand_out(&mut More::besides_one(1), now)
    }

    fn end_refill(&mut self, refill: &Refill, found: &[Candidate], now: i64) {
        let read = Read { found: found.to_vec(), has_left_out: false };
        self.ring().end_refill(refill, &read, now);
    }

    fn lower(&mut self, group: Group, position: Position) {
        self.ring().lower(group, position);
    }
}

fn filled(positions: impl IntoIterator<Item = Position>) -> Own {
    let mut ring = Own::default();
    let handed = ring.hand_out(7);
    ring.end_refill(&handed.refill.unwrap(), &candidates(positions), 7);
    ring
}

fn next(ring: &mut Own, now: i64) -> Option<Position> {
    ring.hand_out(now).candidate.map(|candidate| candidate.position())
}

fn of(tube: impl Into<Option<u64>>, priority: impl Into<Option<i64>>) -> Group {
    Group::Ready { tube: tube.into(), priority: priority.into() }
}

#[test]
fn candidates_are_handed_out_in_order_once() {
    let mut ring = filled([3, 5, 9]);
    let handed: Vec<_> = (8..12).map(|now| next(&mut ring, now)).collect();
    assert_eq!(handed, [Some(3), Some(5), Some(9), None]);
    let row = filled([u128::MAX >> 1]).hand_out(8).candidate.unwrap();
    assert_eq!(row.position(), u128::MAX >> 1);
}

#[test]
fn a_take_of_several_tasks_is_handed_several() {
    let mut ring = filled([3, 5, 9, 11]);
    let mut more = More::besides_one(3);
    let first = ring.ring().hand_out(&mut more, 8).candidate.unwrap();
    let more = more.take().map(|candidate| candidate.position());
    assert_eq!((first.position(), more.collect::<Vec<_>>()), (3, vec![5, 9]));
    let mut more = More::besides_one(3);
    assert!(ring.ring().hand_out(&mut more, 9).candidate.is_some());
    assert_eq!((more.take().count(), next(&mut ring, 10)), (0, None));
}

#[test]
fn a_refill_goes_on_where_the_last_one_ended() {
    let mut ring = filled((0..ROOM as u128).map(|position| 10 + position));
    let refill = |now| {
        let handed = ring.hand_out(now);
        handed.candidate.map(|_| handed.refill)
    };
    let refills: Vec<_> = (8..).map_while(refill).collect();
    assert_eq!(refills.len(), ROOM);
    let due: Vec<_> = refills.iter().flatten().collect();
    assert_eq!((due.len(), due[0].from, due[0].room), (1, 10 + ROOM as u128, ROOM - LOW));
    // Only one refill at a time, unless it takes too long.
    assert_eq!(ring.hand_out(900).refill, None);
    ring.end_refill(due[0], &candidates([500, 501]), 7);
    assert_eq!((next(&mut ring, 901), next(&mut ring, 902)), (Some(500), Some(501)));
}

#[test]
fn a_ring_that_is_exhausted_is_not_refilled_until_a_task_is_ready() {
    let mut ring = filled([3]);
    assert_eq!(ring.hand_out(8).refill, None);
    ring.lower(of(1, 2), 7);
    let refill = ring.hand_out(9).refill.unwrap();
    assert_eq!(refill.from, 4);
    ring.end_refill(&refill, &[], 7);
    assert_eq!(ring.hand_out(10), Handed::default());
}

#[test]
fn an_earlier_task_cuts_off_those_behind_it() {
    let mut ring = filled([3, 5, 9]);
    ring.lower(Group::ALL, 7);
    ring.lower(Group::ALL, 8);
    let first = ring.hand_out(8);
    assert_eq!(first.refill.map(|refill| refill.from), Some(7));
    assert_eq!((next(&mut ring, 9), next(&mut ring, 10)), (Some(5), None));
    ring.end_refill(&first.refill.unwrap(), &candidates([7, 8, 9]), 7);
    assert_eq!([11, 12, 13].map(|now| next(&mut ring, now)), [Some(7), Some(8), Some(9)]);
}

#[test]
fn what_becomes_ready_during_a_refill_is_not_missed() {
    let mut ring = Own::default();
    let refill = ring.hand_out(7).refill.unwrap();
    ring.lower(Group::ALL, 6);
    ring.end_refill(&refill, &candidates([3, 5, 9]), 7);
    let second = ring.hand_out(8);
    assert_eq!(second.candidate.map(|candidate| candidate.position()), Some(3));
    assert_eq!(second.refill.map(|refill| refill.from), Some(6));
}

#[test]
fn a_discarded_ring_begins_at_the_mark() {
    let mut ring = filled([3, 5, 9]);
    ring.lower(Group::ALL, 11);
    let refill = ring.hand_out(8).refill.unwrap();
    ring.state.discard();
    ring.end_refill(&refill, &candidates([11]), 7);
    let handed = ring.hand_out(8);
    assert_eq!((handed.candidate, handed.refill.map(|refill| refill.from)), (None, Some(FIRST)));
    let mut old = filled([3, 5]);
    assert_eq!(next(&mut old, 8 + TRUSTED_FOR), None, "it is too old");
}

#[test]
fn a_ring_that_is_given_to_a_group_knows_nothing() {
    let mut ring = filled([3, 5]);
    assert!(!ring.state.is_idle(8) && ring.state.is_idle(8 + IDLE_AFTER));
    ring.lower(Group::Buried, 1);
    assert_eq!(next(&mut ring, 9), Some(3));
    ring.state.bind(of(1, None));
    let handed = ring.hand_out(10);
    let from = handed.refill.map(|refill| refill.from);
    assert_eq!((handed.candidate, from), (None, Some(FIRST)));
    assert!(!ring.state.is_idle(11), "it is being refilled");
    ring.end_refill(&handed.refill.unwrap(), &candidates([5]), 12);
    // Tasks of other tubes do not concern the ring.
    ring.lower(of(2, 7), 4);
    assert_eq!(next(&mut ring, 13), Some(5));
}

#[test]
fn locks_in_the_way_are_told_until_they_are_too_many() {
    let mut ring = filled([3, 5]);
    (1..=LOCKERS as u32).for_each(|locker| ring.state.pass_over(Some(locker), 8));
    ring.state.pass_over(Some(1), 8);
    let handed = ring.hand_out(9);
    assert_eq!((handed.lockers, handed.candidate.is_some()), ([1, 2, 3, 4], true));
    ring.state.pass_over(Some(99), 10);
    assert_eq!(ring.hand_out(11), Handed::default());
    assert!(ring.hand_out(11 + DISTRUSTED_FOR).refill.is_some());
    ring.state.pass_over(None, 12 + DISTRUSTED_FOR);
    assert_eq!(ring.hand_out(13 + DISTRUSTED_FOR), Handed::default());
}

#[test]
fn a_ring_that_is_cut_too_often_pauses() {
    // Refills the ring, takes some candidates and cuts it. Returns whether the ring pauses.
    let turn = |ring: &mut Own, handed_out: usize, now| {
        let Some(refill) = ring.hand_out(now).refill else { return true };
        ring.end_refill(&refill, &candidates(10..20), now);
        (0..handed_out).for_each(|_| assert!(next(ring, now).is_some()));
        ring.lower(Group::ALL, 10);
        false
    };
    let pauses_in = |handed_out| {
        let mut ring = Own::default();
        (1..=20).find(|_| turn(&mut ring, handed_out, 8))
    };
    assert_eq!([0, 4, 8].map(pauses_in), [Some(10), Some(17), None]);

    let mut ring = Own::default();
    while !turn(&mut ring, 0, 8) {}
    assert!(turn(&mut ring, 0, 7 + PAUSED_FOR));
    assert!(!turn(&mut ring, 0, 8 + PAUSED_FOR));
    assert!(turn(&mut ring, 0, 8 + PAUSED_FOR), "it has earned nothing since");

    let mut ring = filled(1..=190);
    (1..=20).for_each(|cut| ring.lower(Group::ALL, 191 - cut));
    assert_eq!(next(&mut ring, 8), Some(1), "cuts without a refill between them count as one");
}

#[test]
fn the_end_of_a_lock_discards_the_ring_although_another_lock_was_met_since() {
    let mut ring = filled([3, 5, 7]);
    ring.state.pass_over(Some(1), 8);
    assert_eq!(next(&mut ring, 9), Some(3));
    ring.state.pass_over(Some(2), 9);
    ring.state.locker_ended(1);
    assert_eq!(ring.hand_out(10).refill.map(|refill| refill.from), Some(FIRST));
    ring.state.locker_ended(2);
    assert!(ring.state.is_being_refilled(11), "it was discarded before");
}

#[test]
fn none_is_left_once_all_are_handed_out() {
    let mut ring = filled([3, 5]);
    let knows_none = |ring: &Own| ring.state.knows_none(9);
    assert_eq!((next(&mut ring, 8), knows_none(&ring)), (Some(3), false));
    assert_eq!((next(&mut ring, 8), knows_none(&ring)), (Some(5), true));
    assert!(!ring.state.knows_none(8 + TRUSTED_FOR));
    ring.lower(Group::ALL, 9);
    assert!(!knows_none(&ring));
    let refill = ring.hand_out(9).refill.unwrap();
    assert!(!knows_none(&ring));
    ring.end_refill(&refill, &[], 9);
    assert!(knows_none(&ring));
    ring.state.pass_over(Some(1), 9);
    assert!(!knows_none(&ring), "a lock may end");
}

#[test]
fn what_was_being_changed_may_be_left() {
    let mut ring = filled([3]);
    assert_eq!(next(&mut ring, 8), Some(3));
    ring.state.leave_out();
    assert!(!ring.state.knows_none(9));
    // The skipped task is read again after a pause, which grows with the duration of the last refill.
    ring.lower(Group::ALL, 7);
    assert_eq!(ring.hand_out(9).refill.map(|refill| refill.from), Some(4));
    ring.state.discard();
    let refill = ring.hand_out(10).refill.unwrap();
    ring.ring().end_refill(&refill, &Read { found: vec![], has_left_out: true }, 30);
    assert_eq!(
        (ring.state.knows_none(31), ring.hand_out(30 + 20 * 100)),
        (false, Handed::default())
    );
    let refill = ring.hand_out(31 + 20 * 100).refill.unwrap();
    assert_eq!(refill.from, FIRST);
    ring.end_refill(&refill, &[], 2050);
    assert!(ring.state.knows_none(2051));
}

#[test]
fn a_clock_that_is_set_back_ends_all_terms() {
    let mut ring = filled([3, 5]);
    ring.state.pass_over(None, 8);
    let handed = ring.hand_out(-1_000_000_000);
    assert!(handed.refill.is_some());
    ring.end_refill(&handed.refill.unwrap(), &candidates([3]), -999_999_999);
    // Another process had read the clock earlier.
    assert_eq!(next(&mut ring, -1_000_000_000), Some(3));
}

#[test]
fn an_abandoned_refill_changes_nothing() {
    let mut ring = Own::default();
    let refill = ring.hand_out(7).refill.unwrap();
    let second = ring.hand_out(8 + LOST_AFTER).refill.unwrap();
    ring.end_refill(&refill, &candidates([3]), 7);
    ring.end_refill(&second, &candidates([4]), 8 + LOST_AFTER);
    assert_eq!(next(&mut ring, 9 + LOST_AFTER), Some(4));
}
