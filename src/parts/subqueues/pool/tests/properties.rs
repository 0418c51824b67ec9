//! What holds after any sequence of changes: of lanes that all have room, what a model of maps and queues says;
//! of more lanes than there is room for, that none is lost and that each process can claim one.

use super::*;
use crate::model::level::LAST as LAST_LEVEL;
use crate::model::position::Position;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Steps of calls, each on a lane of a queue. Which of them can be made depends on what came before.
#[derive(Clone, Copy, Debug)]
enum Step {
    Offer(Level),
    ClaimNext,
    Claim,
    GiveBack(Back),
    BeginLook,
    EndLook(Position, Level),
    /// A commit of what the lane has been offered.
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

fn steps(lanes: u64) -> impl Strategy<Value = Vec<(bool, u64, Step)>> {
    prop::collection::vec((prop::bool::weighted(0.2), 0..lanes, step()), 0..40)
}

/// A lane, as the documentation of the module has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lane {
    state: State,
    mark: Position,
    floor: Position,
    level: Level,
    level_floor: Level,
    dirty: bool,
    settled: bool,
}

/// The lanes of a queue, and those in the ring by level and turn.
#[derive(Debug, Default)]
struct Model {
    lanes: BTreeMap<u64, Lane>,
    ring: BTreeMap<Level, VecDeque<u64>>,
}

impl Model {
    fn state(&self, lane: u64) -> Option<State> {
        self.lanes.get(&lane).map(|lane| lane.state)
    }

    /// Brings a lane to a state, and to its place in the ring, with a level of its own.
    fn place(&mut self, name: u64, state: State, to: Back, level: Level) {
        let new = Lane {
            state,
            mark: FIRST,
            floor: FIRST,
            level,
            level_floor: UNKNOWN,
            dirty: false,
            settled: false,
        };
        let lane = self.lanes.entry(name).or_insert(new);
        if let Some(turns) = self.ring.get_mut(&lane.level) {
            turns.retain(|known| *known != name);
        }
        (lane.state, lane.level) = (state, level);
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
        self.lanes[&name].level
    }

    /// A lane in the ring keeps its turn unless its level changes.
    fn set_level(&mut self, name: u64, level: Level) {
        let lane = self.lanes[&name];
        if lane.level != level {
            self.place(name, lane.state, Back::Tail, level);
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
        let level = match self.lanes.get(&name) {
            None => UNKNOWN,
            Some(lane) if matches!(lane.state, State::Waiting | State::Idle) => lane.level,
            Some(_) => return Err(Refusal::InUse),
        };
        self.place(name, State::Claimed, Back::Tail, level);
        let lane = self.lanes.get_mut(&name).expect("it was placed");
        (lane.dirty, lane.settled) = (false, false);
        Ok(name)
    }

    fn claim_next(&mut self) -> Option<Next> {
        let (level, turns) = self.ring.first_key_value()?;
        let (level, lane) = (*level, turns[0]);
        self.claim(lane).expect("it waits");
        Some(Next { lane, level, others: self.ring.keys().next().copied() })
    }

    fn give_back(&mut self, name: u64, to: Back) -> bool {
        if self.state(name) != Some(State::Claimed) {
            return false;
        }
        let Lane { dirty, level, .. } = self.lanes[&name];
        let state = if to == Back::Away && !dirty { State::Idle } else { State::Waiting };
        self.place(name, state, to, level);
        to == Back::Front || dirty
    }

    fn lower(&mut self, name: u64, least: Position, level: Level) {
        let Some(lane) = self.lanes.get_mut(&name) else { return };
        (lane.mark, lane.floor) = (lane.mark.min(least), lane.floor.min(least));
        lane.level_floor = lane.level_floor.min(level);
        let level = lane.level.min(level);
        self.set_level(name, level);
    }

    fn begin_look(&mut self, name: u64) -> Position {
        let Some(lane) = self.lanes.get_mut(&name) else { return FIRST };
        (lane.floor, lane.level_floor) = (LAST, LAST_LEVEL);
        lane.mark
    }

    fn end_look(&mut self, name: u64, first: Position, level: Level) {
        let Some(lane) = self.lanes.get_mut(&name) else { return };
        lane.mark = first.min(lane.floor);
        let level = level.min(lane.level_floor);
        self.set_level(name, level);
    }

    fn commit(&mut self, name: u64, change: &LaneChange) -> bool {
        self.lower(name, change.least, change.level);
        let state = self.state(name);
        if change.claimed {
            if state != Some(State::Claimed) {
                return false;
            }
            let Lane { settled, level, .. } = self.lanes[&name];
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
                let lane = self.lanes.get_mut(&name).expect("it is claimed");
                (lane.dirty, lane.settled) = (true, lane.settled | (change.taken < 0));
                false
            }
            None | Some(State::Idle) if change.taken < 0 || change.offers => {
                let is_sure = change.taken >= 0 && state.is_some();
                self.offer(name, if is_sure { change.level } else { UNKNOWN });
                true
            }
            Some(State::Waiting) => change.offers,
            _ => false,
        }
    }

    fn undo(&mut self, name: u64, change: &LaneChange) -> bool {
        self.lower(name, LAST, change.taken_level);
        change.claimed && self.give_back(name, Back::Front)
    }

    fn reset(&mut self) {
        self.lanes.retain(|_, lane| lane.state == State::Claimed);
        self.ring.clear();
        for lane in self.lanes.values_mut() {
            (lane.mark, lane.floor, lane.dirty) = (FIRST, FIRST, true);
            (lane.level, lane.level_floor) = (UNKNOWN, UNKNOWN);
        }
    }
}

/// What has come to a lane.
fn arrival(level: Level, least: Position, lost: bool) -> LaneChange {
    LaneChange { offers: true, level, least, lost, ..LaneChange::default() }
}

proptest! {
    #[test]
    fn lanes_are_as_a_model_says(steps in steps(9)) {
        let mut memory = Memory::complete(30);
        let mut models = [Model::default(), Model::default()];
        for (is_mail, lane, step) in steps {
            let (id, model) = (if is_mail { MAIL } else { JOBS }, &mut models[usize::from(is_mail)]);
            let mut pool = memory.pool();
            match step {
                Step::Offer(level) => {
                    prop_assert_eq!(pool.offer(id, lane, level), model.offer(lane, level));
                }
                Step::ClaimNext => prop_assert_eq!(pool.claim_next(id), model.claim_next()),
                Step::Claim => prop_assert_eq!(pool.claim(id, lane), model.claim(lane)),
                Step::GiveBack(to) => {
                    prop_assert_eq!(pool.give_back(id, lane, to), model.give_back(lane, to));
                }
                Step::BeginLook => {
                    prop_assert_eq!(pool.begin_look(id, lane), model.begin_look(lane));
                }
                Step::EndLook(first, level) => {
                    pool.end_look(id, lane, first, level);
                    model.end_look(lane, first, level);
                }
                Step::Arrive(level, least, lost) => {
                    let change = arrival(level, least, lost);
                    prop_assert_eq!(pool.commit(id, lane, &change), model.commit(lane, &change));
                }
                Step::Take => {
                    prop_assert_eq!(pool.commit(id, lane, &took()), model.commit(lane, &took()));
                }
                Step::Settle => {
                    let change = settled();
                    prop_assert_eq!(pool.commit(id, lane, &change), model.commit(lane, &change));
                }
                Step::Undo(taken_level) => {
                    let change = LaneChange { taken_level, ..took() };
                    prop_assert_eq!(pool.undo(id, lane, &change), model.undo(lane, &change));
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
                for lane in 0..9 {
                    let link = pool.find(id.index, lane);
                    let found = link.map(|link| *pool.entry(link)).map(|entry| Lane {
                        state: entry.state,
                        mark: entry.mark,
                        floor: entry.floor,
                        level: entry.level,
                        level_floor: entry.level_floor,
                        dirty: entry.dirty,
                        settled: entry.settled,
                    });
                    prop_assert_eq!(found, model.lanes.get(&lane).copied(), "lane {} of {:?}", lane, id);
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
        prop_assert!((0..9).all(|lane| pool.find(JOBS.index, lane).is_none()));
    }

    /// Lanes of two queues with little room; where a lane is not known its ring says so, and goes over the table.
    #[test]
    fn no_lane_is_lost_and_each_process_can_claim_one(room in 0..7usize, steps in steps(12)) {
        let mut memory = Memory::complete(room);
        let mut ready: BTreeMap<(usize, u64), u32> = BTreeMap::new();
        let (mut claimed, mut busy) = (BTreeSet::new(), BTreeSet::new());
        for (is_mail, lane, step) in steps {
            let (id, queue) = (if is_mail { MAIL } else { JOBS }, usize::from(is_mail));
            let mut pool = memory.pool();
            let is_open = claimed.contains(&(queue, lane));
            match step {
                Step::Arrive(..) | Step::Offer(_) => {
                    *ready.entry((queue, lane)).or_default() += 1;
                    pool.commit(id, lane, &offers());
                }
                Step::Claim | Step::ClaimNext if claimed.len() < RESERVE => {
                    let by_turn = matches!(step, Step::ClaimNext);
                    let got = match by_turn {
                        true => claim_next(&mut pool, id),
                        false => pool.claim(id, lane).map(Some).or_else(|refusal| match refusal {
                            Refusal::InUse => Ok(None),
                            Refusal::NoRoom => Err(TestCaseError::fail("no room for a claim")),
                        })?,
                    };
                    let Some(lane) = got else { continue };
                    prop_assert!(claimed.insert((queue, lane)), "lane {} is claimed twice", lane);
                }
                Step::Take | Step::EndLook(..) if is_open => {
                    claimed.remove(&(queue, lane));
                    let tasks = ready.entry((queue, lane)).or_default();
                    if *tasks > 0 && !busy.contains(&(queue, lane)) {
                        *tasks -= 1;
                        busy.insert((queue, lane));
                        pool.commit(id, lane, &took());
                    } else {
                        pool.give_back(id, lane, Back::Away);
                    }
                }
                Step::GiveBack(Back::Front | Back::Tail) | Step::Undo(_) if is_open => {
                    claimed.remove(&(queue, lane));
                    pool.give_back(id, lane, Back::Front);
                }
                Step::Settle => {
                    if busy.remove(&(queue, lane)) {
                        pool.commit(id, lane, &settled());
                    }
                }
                Step::Reset => pool.reset(id),
                Step::BeginLook => {
                    // Goes over the table.
                    let Some(scan) = pool.begin_scan(id) else { continue };
                    for ((of, lane), tasks) in &ready {
                        if *of == queue && *tasks > 0 && !busy.contains(&(*of, *lane)) {
                            pool.offer(id, *lane, UNKNOWN);
                        }
                    }
                    pool.end_scan(id, scan, None);
                }
                _ => continue,
            }
            pool.assert_whole();
            for ((queue, lane), tasks) in &ready {
                let id = [JOBS, MAIL][*queue];
                let place = (*queue, *lane);
                let is_free = *tasks > 0 && !busy.contains(&place) && !claimed.contains(&place);
                prop_assert!(!is_free || pool.knows(id, *lane), "lane {} is lost", lane);
                prop_assert!(!is_free || pool.may_have_some(id));
            }
        }
    }
}
