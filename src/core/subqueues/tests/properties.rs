//! Properties that hold after any sequence of changes. While all sub-queues have room, they behave like a model of maps
//! and queues. With more sub-queues than room, no sub-queue is lost and each process can claim one.

use super::*;
use crate::level::LAST as LAST_LEVEL;
use crate::position::Position;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Calls on a sub-queue of a queue. Calls that are impossible after the earlier ones are skipped.
#[derive(Clone, Copy, Debug)]
enum Step {
    Offer(Level),
    ClaimNext,
    Claim,
    GiveBack(Back),
    BeginLook,
    EndLook(Position, Level),
    /// A commit that adds or moves tasks of the sub-queue.
    Arrive(Level, Position, bool),
    Take,
    Settle,
    Undo(Level),
    Reset,
    Reopen,
}

fn level() -> impl Strategy<Value = Level> {
    prop_oneof![4 => -3..3i64, 1 => Just(UNKNOWN), 1 => Just(LAST_LEVEL), 1 => any::<i64>()]
}

fn step() -> impl Strategy<Value = Step> {
    let back = prop_oneof![Just(Back::Front), Just(Back::Tail), Just(Back::Away)];
    let position = prop_oneof![3 => 0..9u128, 1 => Just(LAST)];
    prop_oneof![
        3 => level().prop_map(Step::Offer),
        4 => Just(Step::ClaimNext),
        2 => Just(Step::Claim),
        3 => back.prop_map(Step::GiveBack),
        2 => Just(Step::BeginLook),
        2 => (position.clone(), level()).prop_map(|(first, level)| Step::EndLook(first, level)),
        3 => (level(), position, any::<bool>())
            .prop_map(|(level, least, lost)| Step::Arrive(level, least, lost)),
        3 => Just(Step::Take),
        3 => Just(Step::Settle),
        1 => level().prop_map(Step::Undo),
        1 => Just(Step::Reset),
        1 => Just(Step::Reopen),
    ]
}

fn steps(subqueues: u64) -> impl Strategy<Value = Vec<(bool, u64, Step)>> {
    prop::collection::vec((prop::bool::weighted(0.2), 0..subqueues, step()), 0..40)
}

/// A sub-queue according to the documentation of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Subqueue {
    state: State,
    mark: Position,
    floor: Position,
    level: Level,
    level_floor: Level,
    dirty: bool,
    settled: bool,
}

/// The sub-queues of a queue, and those in the ring by level and turn.
#[derive(Debug, Default)]
struct Model {
    subqueues: BTreeMap<u64, Subqueue>,
    ring: BTreeMap<Level, VecDeque<u64>>,
}

impl Model {
    fn state(&self, subqueue: u64) -> Option<State> {
        self.subqueues.get(&subqueue).map(|subqueue| subqueue.state)
    }

    /// Moves a sub-queue to a state, and to its position in the ring.
    fn place(&mut self, name: u64, state: State, to: Back, level: Level) {
        let new = Subqueue {
            state,
            mark: FIRST,
            floor: FIRST,
            level,
            level_floor: UNKNOWN,
            dirty: false,
            settled: false,
        };
        let subqueue = self.subqueues.entry(name).or_insert(new);
        if let Some(turns) = self.ring.get_mut(&subqueue.level) {
            turns.retain(|known| *known != name);
        }
        (subqueue.state, subqueue.level) = (state, level);
        self.ring.retain(|_, turns| !turns.is_empty());
        if state == State::Waiting {
            let turns = self.ring.entry(level).or_default();
            match to {
                Back::Front => turns.push_front(name),
                _ => turns.push_back(name),
            }
        }
    }

    fn level(&self, name: u64) -> Level {
        self.subqueues[&name].level
    }

    /// A sub-queue in the ring keeps its turn unless its level changes.
    fn set_level(&mut self, name: u64, level: Level) {
        let subqueue = self.subqueues[&name];
        if subqueue.level != level {
            self.place(name, subqueue.state, Back::Tail, level);
        }
    }

    fn offer(&mut self, name: u64, level: Level) -> Offered {
        match self.state(name) {
            None => self.place(name, State::Waiting, Back::Tail, level),
            Some(state) => {
                self.set_level(name, self.level(name).min(level));
                if state != State::Idle {
                    return Offered::Known;
                }
                self.place(name, State::Waiting, Back::Tail, self.level(name));
            }
        }
        Offered::Queued
    }

    fn claim(&mut self, name: u64) -> Result<u64, Refusal> {
        let level = match self.subqueues.get(&name) {
            None => UNKNOWN,
            Some(subqueue) if matches!(subqueue.state, State::Waiting | State::Idle) => {
                subqueue.level
            }
            Some(_) => return Err(Refusal::InUse),
        };
        self.place(name, State::Claimed, Back::Tail, level);
        let subqueue = self.subqueues.get_mut(&name).expect("it was placed");
        (subqueue.dirty, subqueue.settled) = (false, false);
        Ok(name)
    }

    fn claim_next(&mut self) -> Option<Next> {
        let (level, turns) = self.ring.first_key_value()?;
        let (level, subqueue) = (*level, turns[0]);
        self.claim(subqueue).expect("it waits");
        Some(Next { subqueue, level, others: self.ring.keys().next().copied() })
    }

    fn give_back(&mut self, name: u64, to: Back) -> bool {
        if self.state(name) != Some(State::Claimed) {
            return false;
        }
        let Subqueue { dirty, level, .. } = self.subqueues[&name];
        let state = if to == Back::Away && !dirty { State::Idle } else { State::Waiting };
        self.place(name, state, to, level);
        to == Back::Front || dirty
    }

    fn lower(&mut self, name: u64, least: Position, level: Level) {
        let Some(subqueue) = self.subqueues.get_mut(&name) else { return };
        (subqueue.mark, subqueue.floor) = (subqueue.mark.min(least), subqueue.floor.min(least));
        subqueue.level_floor = subqueue.level_floor.min(level);
        let level = subqueue.level.min(level);
        self.set_level(name, level);
    }

    fn begin_look(&mut self, name: u64) -> Position {
        let Some(subqueue) = self.subqueues.get_mut(&name) else { return FIRST };
        (subqueue.floor, subqueue.level_floor) = (LAST, LAST_LEVEL);
        subqueue.mark
    }

    fn end_look(&mut self, name: u64, first: Position, level: Level) {
        let Some(subqueue) = self.subqueues.get_mut(&name) else { return };
        subqueue.mark = first.min(subqueue.floor);
        let level = level.min(subqueue.level_floor);
        self.set_level(name, level);
    }

    fn commit(&mut self, name: u64, change: &SubqueueChange) -> bool {
        self.lower(name, change.least, change.level);
        let state = self.state(name);
        if change.claimed {
            if state != Some(State::Claimed) {
                return false;
            }
            let Subqueue { settled, level, .. } = self.subqueues[&name];
            let is_busy = change.taken > 0 && !settled;
            let state = if is_busy { State::Busy } else { State::Waiting };
            self.place(name, state, Back::Tail, level);
            return !is_busy;
        }
        match state {
            Some(State::Busy) if change.taken < 0 => {
                self.place(name, State::Waiting, Back::Tail, self.level(name));
                true
            }
            Some(State::Claimed) => {
                let subqueue = self.subqueues.get_mut(&name).expect("it is claimed");
                (subqueue.dirty, subqueue.settled) = (true, subqueue.settled | (change.taken < 0));
                false
            }
            None | Some(State::Idle) if change.taken < 0 || change.offers => {
                let is_sure = change.taken >= 0 && state.is_some();
                self.offer(name, if is_sure { change.level } else { UNKNOWN });
                true
            }
            Some(State::Waiting) => change.offers || change.lost || change.taken < 0,
            _ => false,
        }
    }

    fn undo(&mut self, name: u64, change: &SubqueueChange) -> bool {
        self.lower(name, LAST, change.taken_level);
        match change.claimed {
            true => self.give_back(name, Back::Front),
            false => change.lost && self.state(name) == Some(State::Waiting),
        }
    }

    fn reset(&mut self) {
        self.subqueues.retain(|_, subqueue| subqueue.state == State::Claimed);
        self.ring.clear();
        for subqueue in self.subqueues.values_mut() {
            (subqueue.mark, subqueue.floor, subqueue.dirty) = (FIRST, FIRST, true);
            (subqueue.level, subqueue.level_floor) = (UNKNOWN, UNKNOWN);
        }
    }
}

/// Change of a commit that adds tasks to a sub-queue.
fn arrival(level: Level, least: Position, lost: bool) -> SubqueueChange {
    SubqueueChange { offers: true, level, least, lost, ..SubqueueChange::default() }
}

proptest! {
    #[test]
    fn subqueues_are_as_a_model_says(steps in steps(9)) {
        let mut memory = Memory::complete(30);
        let mut models = [Model::default(), Model::default()];
        for (is_mail, subqueue, step) in steps {
            let (id, model) = (if is_mail { MAIL } else { JOBS }, &mut models[usize::from(is_mail)]);
            let mut pool = memory.pool();
            match step {
                Step::Offer(level) => {
                    prop_assert_eq!(pool.offer(id, subqueue, level), model.offer(subqueue, level));
                }
                Step::ClaimNext => prop_assert_eq!(pool.claim_next(id), model.claim_next()),
                Step::Claim => prop_assert_eq!(pool.claim(id, subqueue), model.claim(subqueue)),
                Step::GiveBack(to) => {
                    prop_assert_eq!(pool.give_back(id, subqueue, to), model.give_back(subqueue, to));
                }
                Step::BeginLook => {
                    prop_assert_eq!(pool.begin_look(id, subqueue), model.begin_look(subqueue));
                }
                Step::EndLook(first, level) => {
                    pool.end_look(id, subqueue, first, level);
                    model.end_look(subqueue, first, level);
                }
                Step::Arrive(level, least, lost) => {
                    let change = arrival(level, least, lost);
                    prop_assert_eq!(pool.commit(id, subqueue, &change), model.commit(subqueue, &change));
                }
                Step::Take => {
                    prop_assert_eq!(pool.commit(id, subqueue, &took()), model.commit(subqueue, &took()));
                }
                Step::Settle => {
                    let change = settled();
                    prop_assert_eq!(pool.commit(id, subqueue, &change), model.commit(subqueue, &change));
                }
                Step::Undo(taken_level) => {
                    let change = SubqueueChange { taken_level, ..took() };
                    prop_assert_eq!(pool.undo(id, subqueue, &change), model.undo(subqueue, &change));
                }
                Step::Reset => {
                    pool.reset(id);
                    model.reset();
                }
                Step::Reopen => {
                    pool.open(id);
                    *model = Model::default();
                }
            }
            pool.assert_whole();
            for (id, model) in [JOBS, MAIL].into_iter().zip(&models) {
                let waiting: usize = model.ring.values().map(VecDeque::len).sum();
                prop_assert_eq!(pool.waiting(id), waiting as u32);
                prop_assert_eq!(pool.least(id), model.ring.keys().next().copied());
                for subqueue in 0..9 {
                    let link = pool.find(id.index, subqueue);
                    let found = link.map(|link| *pool.entry(link)).map(|entry| Subqueue {
                        state: entry.state,
                        mark: entry.mark,
                        floor: entry.floor,
                        level: entry.level,
                        level_floor: entry.level_floor,
                        dirty: entry.dirty,
                        settled: entry.settled,
                    });
                    prop_assert_eq!(found, model.subqueues.get(&subqueue).copied(), "sub-queue {} of {:?}", subqueue, id);
                }
            }
        }
        let mut pool = memory.pool();
        let left: Vec<_> = std::iter::from_fn(|| pool.claim_next(JOBS)).collect();
        let expected: Vec<_> = std::iter::from_fn(|| models[0].claim_next()).collect();
        prop_assert_eq!(left, expected);
        pool.close(JOBS);
        pool.close(MAIL);
        pool.assert_whole();
        prop_assert!((0..9).all(|subqueue| pool.find(JOBS.index, subqueue).is_none()));
    }

    /// Sub-queues of two queues with little room. If a ring lacks sub-queues it is incomplete, and a pass over the
    /// table finds them.
    #[test]
    fn no_subqueue_is_lost_and_each_process_can_claim_one(room in 0..7usize, steps in steps(12)) {
        let mut memory = Memory::complete(room);
        let mut ready: BTreeMap<(usize, u64), u32> = BTreeMap::new();
        let (mut claimed, mut busy) = (BTreeSet::new(), BTreeSet::new());
        for (is_mail, subqueue, step) in steps {
            let (id, queue) = (if is_mail { MAIL } else { JOBS }, usize::from(is_mail));
            let mut pool = memory.pool();
            let is_open = claimed.contains(&(queue, subqueue));
            match step {
                Step::Arrive(..) | Step::Offer(_) => {
                    *ready.entry((queue, subqueue)).or_default() += 1;
                    pool.commit(id, subqueue, &offers());
                }
                Step::Claim | Step::ClaimNext if claimed.len() < RESERVE => {
                    let by_turn = matches!(step, Step::ClaimNext);
                    let got = match by_turn {
                        true => claim_next(&mut pool, id),
                        false => pool.claim(id, subqueue).map(Some).or_else(|refusal| match refusal {
                            Refusal::InUse => Ok(None),
                            Refusal::NoRoom => Err(TestCaseError::fail("no room for a claim")),
                        })?,
                    };
                    let Some(subqueue) = got else { continue };
                    prop_assert!(claimed.insert((queue, subqueue)), "sub-queue {} is claimed twice", subqueue);
                }
                Step::Take | Step::EndLook(..) if is_open => {
                    claimed.remove(&(queue, subqueue));
                    let tasks = ready.entry((queue, subqueue)).or_default();
                    if *tasks > 0 && !busy.contains(&(queue, subqueue)) {
                        *tasks -= 1;
                        busy.insert((queue, subqueue));
                        pool.commit(id, subqueue, &took());
                    } else {
                        pool.give_back(id, subqueue, Back::Away);
                    }
                }
                Step::GiveBack(Back::Front | Back::Tail) | Step::Undo(_) if is_open => {
                    claimed.remove(&(queue, subqueue));
                    pool.give_back(id, subqueue, Back::Front);
                }
                Step::Settle => {
                    if busy.remove(&(queue, subqueue)) {
                        pool.commit(id, subqueue, &settled());
                    }
                }
                Step::Reset => pool.reset(id),
                Step::BeginLook => {
                    // A pass over the table.
                    let Some(scan) = pool.begin_scan(id) else { continue };
                    for ((of, subqueue), tasks) in &ready {
                        if *of == queue && *tasks > 0 && !busy.contains(&(*of, *subqueue)) {
                            pool.offer(id, *subqueue, UNKNOWN);
                        }
                    }
                    pool.end_scan(id, scan, None);
                }
                _ => continue,
            }
            pool.assert_whole();
            for ((queue, subqueue), tasks) in &ready {
                let id = [JOBS, MAIL][*queue];
                let place = (*queue, *subqueue);
                let is_free = *tasks > 0 && !busy.contains(&place) && !claimed.contains(&place);
                prop_assert!(!is_free || pool.knows(id, *subqueue), "sub-queue {} is lost", subqueue);
                prop_assert!(!is_free || pool.may_have_some(id));
            }
        }
    }
}
