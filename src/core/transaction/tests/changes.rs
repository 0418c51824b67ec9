//! Random changes to queues in a transaction, and how they are recorded.

use super::*;
use crate::change::Tube;
use proptest::option;
use proptest::sample::select;

/// A change to a queue.
#[derive(Clone, Debug)]
pub enum Change {
    Task {
        old: Option<StateAndTube>,
        new: Option<StateAndTube>,
        position: Position,
        level: Level,
    },
    Moved(StateAndTube, Position, Level),
    Claim(u64),
    Unclaim(u64),
    Exhaust(u64),
    Called(CallKind, usize),
    Due(i64),
    Ended(u64, Option<Outcome>),
    Replaced(Box<Counts>),
    Reserved(i64),
    Taken(u32),
    Held(HeldChange),
    Given(u8),
    Stood(Group, Position),
    Capacity(Option<i64>),
    Tracked(bool),
    Paused(bool),
    Dropped(bool),
    /// A flag that only ever becomes true.
    Flag(usize),
}

#[derive(Clone, Debug)]
pub enum Step {
    Change(SlotId, Change),
    Savepoint,
    Release,
    Rollback,
}

fn place() -> impl Strategy<Value = StateAndTube> {
    let subqueue = (0..4u64, any::<bool>()).prop_map(|(hash, is_strict)| Tube {
        hash,
        counted: None,
        is_subqueue: true,
        is_strict,
    });
    let tube = (0..5u64, option::of(0..3usize)).prop_map(|(hash, counted)| Tube {
        hash: 10 + hash,
        counted: counted.map(|_| hash as usize),
        is_subqueue: false,
        is_strict: false,
    });
    (select(&Status::ALL[..]), option::of(prop_oneof![subqueue, tube]))
        .prop_map(|(status, tube)| StateAndTube { status, tube })
}

fn group() -> impl Strategy<Value = Group> {
    let ready = (option::of(0..4u64), option::of(0..3i64))
        .prop_map(|(tube, priority)| Group::Ready { tube, priority });
    prop_oneof![4 => ready, 1 => Just(Group::Buried)]
}

fn counts() -> impl Strategy<Value = Counts> {
    prop::collection::vec(place(), 0..4).prop_map(|places| {
        let mut counts = Counts::default();
        places.into_iter().for_each(|place| counts.count(place));
        counts
    })
}

fn outcome() -> impl Strategy<Value = Outcome> {
    select(&[Outcome::Acked, Outcome::Buried, Outcome::Expired, Outcome::Deleted][..])
}

fn change() -> impl Strategy<Value = Change> {
    let (position, level) = (|| 0..50u128, || -3..3i64);
    prop_oneof![
        12 => (option::of(place()), option::of(place()), position(), level())
            .prop_map(|(old, new, position, level)| Change::Task { old, new, position, level }),
        1 => (place(), position(), level()).prop_map(|(place, at, level)| Change::Moved(place, at, level)),
        2 => (0..4u64).prop_map(Change::Claim),
        1 => (0..4u64).prop_map(Change::Unclaim),
        1 => (0..4u64).prop_map(Change::Exhaust),
        1 => (select(&CallKind::ALL[..]), 0..9usize).prop_map(|(call, tasks)| Change::Called(call, tasks)),
        1 => any::<i64>().prop_map(Change::Due),
        1 => (any::<u64>(), prop::option::of(outcome())).prop_map(|(key, outcome)| Change::Ended(key, outcome)),
        1 => counts().prop_map(|counts| Change::Replaced(Box::new(counts))),
        1 => (0..9i64).prop_map(Change::Reserved),
        1 => (0..9u32).prop_map(Change::Taken),
        2 => (0..3u64, 0..3u64).prop_map(|(got, lost)| Change::Held(HeldChange { got, lost })),
        1 => (0..5u8).prop_map(Change::Given),
        2 => (group(), position()).prop_map(|(group, at)| Change::Stood(group, at)),
        1 => option::of(0..9i64).prop_map(Change::Capacity),
        1 => any::<bool>().prop_map(Change::Tracked),
        1 => any::<bool>().prop_map(Change::Paused),
        1 => any::<bool>().prop_map(Change::Dropped),
        1 => (0..7usize).prop_map(Change::Flag),
    ]
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let slot = select(&[JOBS, JOBS, MAIL][..]);
    let step = prop_oneof![
        8 => (slot, change()).prop_map(|(slot, change)| Step::Change(slot, change)),
        2 => Just(Step::Savepoint),
        2 => Just(Step::Release),
        1 => Just(Step::Rollback),
    ];
    prop::collection::vec(step, 0..30)
}

/// Records a change as the server's callbacks do.
pub fn apply(delta: &mut Delta, change: &Change) {
    match change.clone() {
        Change::Task { old, new, position, level } => {
            delta.change(old, new);
            delta.subqueues.change(old, new, (position, level));
        }
        Change::Moved(place, position, level) => delta.subqueues.moved(place, (position, level)),
        Change::Claim(subqueue) => drop(delta.subqueues.claim(|| Ok::<_, ()>(subqueue))),
        Change::Unclaim(subqueue) => delta.subqueues.unclaim(subqueue),
        Change::Exhaust(subqueue) => delta.subqueues.exhaust(subqueue),
        Change::Called(call, tasks) => delta.counters.call(call, tasks),
        Change::Due(instant) => delta.schedule.due_at(instant),
        Change::Ended(key, outcome) => delta.waiters.end(key, outcome),
        Change::Replaced(counts) => delta.replace(&counts),
        Change::Reserved(tasks) => delta.capacity.reserved += tasks,
        Change::Taken(tasks) => delta.leases.taken += tasks,
        Change::Held(change) => delta.leases.held.absorb(change),
        Change::Given(session) => delta.leases.given.add([session; 16]),
        Change::Stood(group, position) => delta.marks.lowest.add(group, position),
        Change::Capacity(capacity) => delta.capacity.limit = Some(capacity),
        Change::Tracked(tracked) => delta.counters.tracked = Some(tracked),
        Change::Paused(paused) => delta.table.paused = Some(paused),
        Change::Dropped(dropped) => delta.table.dropped = Some(dropped),
        Change::Flag(flag) => *flags(delta)[flag] = true,
    }
}

pub fn flags(delta: &mut Delta) -> [&mut bool; 8] {
    [
        &mut delta.marks.moved,
        &mut delta.table.redefined,
        &mut delta.counters.recount,
        &mut delta.counters.tubes_changed,
        &mut delta.table.created,
        &mut delta.table.altered_by_user,
        &mut delta.table.given_away,
        &mut delta.waiters.ended_more,
    ]
}
