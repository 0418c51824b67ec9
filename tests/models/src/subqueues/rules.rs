//! What may become of one sub-queue in shared memory: a small state machine, which a server's trace is held against.
//! It knows nothing of lists, links and room. The order within the ring is kept by the [replay](super::replay).

use crate::model::position::{FIRST, LAST, Position};
use serde::{Deserialize, Deserializer};

/// What is known of a sub-queue.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Entry {
    pub state: State,
    pub dirty: bool,
    pub settled: bool,
    pub clear: bool,
    pub unclaimed: bool,
    pub in_flight: u64,
    #[serde(deserialize_with = "position")]
    pub mark: Position,
    #[serde(deserialize_with = "position")]
    pub floor: Position,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub enum State {
    /// In the ring.
    Waiting,
    Claimed,
    Busy,
    Idle,
}

/// Where a sub-queue is to go that was claimed in vain.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub enum Back {
    Front,
    Tail,
    Away,
}

/// What is done to a sub-queue. Whatever else a server may log is refused: it is in no model.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "do")]
pub enum Act {
    /// The first in the ring is claimed.
    Next,
    /// It is claimed by name.
    Claim,
    /// It is claimed by a transaction that has taken one of its tasks by hand.
    ByHand,
    /// A claim is refused.
    InUse,
    BeginLook,
    EndLook {
        #[serde(deserialize_with = "position")]
        first: Position,
    },
    /// All tasks of it in flight are known.
    SetClear,
    /// They are not: one has been taken by hand, without the sub-queue.
    TakeUnclaimed,
    GiveBack {
        to: Back,
    },
    Undo {
        change: Change,
    },
    Commit {
        change: Change,
    },
    /// A look into the table has found something to take.
    Offer,
    EndScan {
        from: i64,
        invalidations: u64,
        next: Option<i64>,
    },
    /// What is known of all sub-queues is forgotten, but for claims.
    Reset,
    Open,
    Close,
}

/// What a transaction, or a part of it, has done in a sub-queue.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Change {
    /// How many more of its tasks are taken.
    pub taken: i32,
    pub offers: bool,
    pub claimed: bool,
    /// The first place in which a task has come to be ready.
    #[serde(deserialize_with = "position")]
    pub least: Position,
    /// The task that it has taken last, and the first that it has settled.
    pub took: Option<u64>,
    pub left: Option<u64>,
}

fn position<'de, D: Deserializer<'de>>(text: D) -> Result<Position, D::Error> {
    String::deserialize(text)?.parse().map_err(serde::de::Error::custom)
}

/// Where a sub-queue has come to be by a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    Stays,
    ToFront,
    ToTail,
    Leaves,
}

/// A sub-queue, and the processes that it belongs to.
#[derive(Clone, Debug, Default)]
pub struct Subqueue {
    /// None while nothing is known of it.
    pub entry: Option<Entry>,
    /// Process that has claimed it.
    holder: Option<i32>,
    /// Process that has looked into it since.
    looker: Option<i32>,
}

pub type Refused<T> = Result<T, &'static str>;

impl Entry {
    fn new(state: State) -> Entry {
        let (mark, floor) = (FIRST, FIRST);
        let (dirty, settled, clear, unclaimed, in_flight) = (false, false, false, false, 0);
        Entry { state, dirty, settled, clear, unclaimed, in_flight, mark, floor }
    }
}

impl Subqueue {
    pub fn state(&self) -> Option<State> {
        self.entry.as_ref().map(|entry| entry.state)
    }

    pub fn is_clear(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.clear)
    }

    /// What the step of a process makes of it. `is_sure`: no task has been taken by hand out of a sub-queue of which
    /// nothing was known.
    pub fn step(&mut self, by: i32, act: &Act, is_sure: bool) -> Refused<Move> {
        match act {
            Act::Next | Act::Claim | Act::ByHand => self.claim(by),
            Act::InUse => match self.state() {
                Some(State::Claimed | State::Busy) => Ok(Move::Stays),
                _ => Err("a claim is refused of one that is free"),
            },
            Act::BeginLook => self.begin_look(by),
            Act::EndLook { first } => self.end_look(by, *first),
            Act::SetClear => {
                let entry = self.claimed_by(by)?;
                if is_sure {
                    entry.clear = !entry.unclaimed;
                }
                Ok(Move::Stays)
            }
            Act::TakeUnclaimed => {
                if let Some(entry) = &mut self.entry {
                    (entry.clear, entry.unclaimed) = (false, true);
                }
                Ok(Move::Stays)
            }
            Act::GiveBack { to } => {
                let is_dirty = self.claimed_by(by)?.dirty;
                Ok(match to {
                    Back::Away if !is_dirty => self.place(State::Idle, Move::Stays),
                    Back::Front => self.place(State::Waiting, Move::ToFront),
                    Back::Away | Back::Tail => self.place(State::Waiting, Move::ToTail),
                })
            }
            Act::Undo { change } if change.claimed => {
                self.claimed_by(by)?;
                Ok(self.place(State::Waiting, Move::ToFront))
            }
            Act::Undo { .. } => Ok(Move::Stays),
            Act::Commit { change } => self.commit(by, change),
            Act::Offer => Ok(self.offer()),
            Act::EndScan { .. } | Act::Reset | Act::Open | Act::Close => {
                Err("it concerns no single sub-queue")
            }
        }
    }

    fn claim(&mut self, by: i32) -> Refused<Move> {
        match self.state() {
            Some(State::Claimed) => return Err("it is claimed by another"),
            Some(State::Busy) => return Err("one of its tasks is in flight"),
            _ => {}
        }
        let was_waiting = self.state() == Some(State::Waiting);
        let entry = self.entry.get_or_insert_with(|| Entry::new(State::Claimed));
        (entry.state, entry.dirty, entry.settled) = (State::Claimed, false, false);
        (self.holder, self.looker) = (Some(by), None);
        Ok(if was_waiting { Move::Leaves } else { Move::Stays })
    }

    /// For a process that has the claim.
    fn claimed_by(&mut self, by: i32) -> Refused<&mut Entry> {
        let claimed = self.entry.as_mut().filter(|entry| entry.state == State::Claimed);
        let entry = claimed.ok_or("it is not claimed")?;
        if self.holder == Some(by) { Ok(entry) } else { Err("another has claimed it") }
    }

    fn place(&mut self, state: State, to: Move) -> Move {
        if let Some(entry) = &mut self.entry {
            entry.state = state;
        }
        (self.holder, self.looker) = (None, None);
        to
    }

    /// A transaction that has settled the task in flight, and not committed, looks without a claim.
    fn begin_look(&mut self, by: i32) -> Refused<Move> {
        let is_own = self.holder == Some(by);
        match &mut self.entry {
            Some(entry) if is_own || entry.state == State::Busy => entry.floor = LAST,
            Some(_) => return Err("a look begins without a claim"),
            None => return Ok(Move::Stays),
        }
        self.looker = Some(by);
        Ok(Move::Stays)
    }

    /// What came during the look was perhaps not seen by it.
    fn end_look(&mut self, by: i32, first: Position) -> Refused<Move> {
        let is_looking = self.looker == Some(by);
        match &mut self.entry {
            Some(entry) if is_looking => entry.mark = first.min(entry.floor),
            Some(_) => return Err("a look ends that has not begun"),
            None => {}
        }
        Ok(Move::Stays)
    }

    fn commit(&mut self, by: i32, change: &Change) -> Refused<Move> {
        if let Some(entry) = &mut self.entry {
            entry.mark = entry.mark.min(change.least);
            entry.floor = entry.floor.min(change.least);
        }
        if change.claimed {
            return self.commit_claim(by, change);
        }
        let settles = change.taken < 0;
        if let Some(entry) = &mut self.entry {
            // Otherwise a task that was not known of has been taken or settled.
            let is_known = |left| entry.state == State::Busy && entry.in_flight == left;
            let knows_all = change.taken <= 0 && change.left.is_none_or(is_known);
            (entry.clear, entry.in_flight) =
                (entry.clear && knows_all, change.took.unwrap_or(entry.in_flight));
        }
        let tells = settles || change.offers;
        let has_held = change.took.is_some() || change.left.is_some();
        let is_seen = change.taken != 0 || change.offers || has_held || change.least != LAST;
        match &mut self.entry {
            Some(entry) if entry.state == State::Busy && settles => {
                Ok(self.place(State::Waiting, Move::ToTail))
            }
            Some(entry) if entry.state == State::Claimed && is_seen => {
                (entry.dirty, entry.settled) = (true, entry.settled || settles);
                Ok(Move::Stays)
            }
            _ if tells => Ok(self.offer()),
            _ => Ok(Move::Stays),
        }
    }

    fn commit_claim(&mut self, by: i32, change: &Change) -> Refused<Move> {
        let entry = self.claimed_by(by)?;
        entry.in_flight = change.took.unwrap_or_default();
        let has_only_taken = change.taken != 0 || change.left == change.took;
        entry.clear &= !entry.settled && has_only_taken;
        let is_busy = change.taken > 0 && !entry.settled;
        Ok(match is_busy {
            true => self.place(State::Busy, Move::Stays),
            false => self.place(State::Waiting, Move::ToTail),
        })
    }

    fn offer(&mut self) -> Move {
        if !matches!(self.state(), None | Some(State::Idle)) {
            return Move::Stays;
        }
        self.entry.get_or_insert_with(|| Entry::new(State::Idle));
        self.place(State::Waiting, Move::ToTail)
    }

    /// Forgets it, but for a claim.
    pub fn reset(&mut self) {
        match &mut self.entry {
            Some(entry) if entry.state == State::Claimed => {
                (entry.dirty, entry.clear) = (true, false);
                (entry.mark, entry.floor) = (FIRST, FIRST);
            }
            _ => *self = Subqueue::default(),
        }
    }
}
