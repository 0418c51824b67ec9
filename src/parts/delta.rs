//! What the open transaction has changed: of one queue here, of all by subtransaction in [`Stack`].

use crate::model::change::{Call, Calls, Counts, OTHER_TUBE, Outcome, Place, Transitions, end};
use crate::model::status::{Status, Tasks};
use crate::parts::leases::change::HeldChanges;
use crate::parts::leases::given::Given;
use crate::parts::marks::change::Lowest;
use crate::parts::subqueues::change::LaneChanges;

/// Changes of one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    pub tasks: Tasks,
    pub calls: Calls,
    pub transitions: Transitions,
    /// The same of the tubes that have statistics of their own, by their place.
    pub tubes: Vec<(usize, TubeDelta)>,
    /// `tasks` is not a change but the whole count, as after TRUNCATE.
    pub replaces: bool,
    /// Tasks that came to be ready: so many waiting consumers are woken at commit.
    pub made_ready: Ready,
    /// Where in the queue tasks came to be ready or buried, as far as marks go by it.
    pub lowest: Lowest,
    /// Ready or buried tasks have perhaps got other keys or priorities.
    pub moved: bool,
    /// Buried tasks have ceased to be that.
    pub unmade_buried: bool,
    /// Tasks that ceased to be ready: so many waiting consumers are woken at rollback.
    pub unmade_ready: Ready,
    /// The same of sub-queues, where it is not the number of tasks that counts.
    pub lanes: LaneChanges,
    /// What has become of tasks that somebody may wait for, by the number that stands for the key.
    pub ended: Vec<(u64, Outcome)>,
    /// There were more than are noted.
    pub ended_more: bool,
    /// Tasks taken by this session.
    pub taken: u32,
    /// What the connection's own session has got, and lost.
    pub held: HeldChanges,
    /// To whom it has given some by hand.
    pub given: Given,
    /// The earliest instant at which the worker has to act, in microseconds.
    pub due: Option<i64>,
    /// Room that this transaction has under the queue's capacity: by so many tasks it may grow.
    pub reserved: i64,
    /// The capacity is this from now on; inside, None: unlimited.
    pub capacity: Option<Option<i64>>,
    /// The definition or the table has changed.
    pub redefined: bool,
    /// From now on the table's triggers tell of every change, or they do not.
    pub told: Option<bool>,
    /// The queue was paused (true), or resumed (false).
    pub paused: Option<bool>,
    /// The counters have to be counted anew.
    pub recount: bool,
    /// Other tubes have statistics of their own than before.
    pub tubes_changed: bool,
    /// The slot is there because of this transaction.
    pub created: bool,
    /// Whose the table was before it was altered.
    pub owner_before: Option<u32>,
    /// A role that is no superuser has altered it.
    pub altered_by_user: bool,
    /// It is about to be another's: that is noted in the slot.
    pub given_away: bool,
    /// The table or the definition is gone (true), or there again (false).
    pub dropped: Option<bool>,
}

/// Changes of one tube.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TubeDelta {
    pub tasks: Tasks,
    pub transitions: Transitions,
}

/// What a transaction does to the number of a queue's tasks, as far as capacity is concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// By so many tasks it grows; with `replaces`, so many there will be.
    pub tasks: i64,
    pub replaces: bool,
    pub reserved: i64,
    /// The capacity is changed by the same transaction.
    pub redefines: bool,
}

impl Growth {
    pub fn absorb(&mut self, later: &Delta) {
        if later.replaces {
            (self.tasks, self.replaces) = (0, true);
        }
        self.tasks += later.tasks.iter().sum::<i64>();
        self.reserved += later.reserved;
        self.redefines |= later.capacity.is_some();
    }

    /// How much room `tasks` more need beyond what is reserved. A task that the same transaction
    /// has deleted is room: if the deletion is rolled back, so is whatever came after it.
    pub fn lacking(&self, tasks: i64) -> i64 {
        self.tasks + tasks - self.reserved
    }

    /// Room that is reserved and not used.
    pub fn surplus(&self) -> i64 {
        self.reserved - self.tasks.max(0)
    }
}

/// A number of tasks that came to be ready, or ceased to be, by tube.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ready(Vec<(Option<u64>, u32)>);

/// Of so many tubes a transaction notes how many of their tasks came to be ready, and where; of the others,
/// it says at commit, nobody knows which they are.
pub const TUBES_NOTED: usize = 256;

/// Of so many tasks a transaction notes what has become of each.
const ENDED_NOTED: usize = 100_000;

impl Delta {
    /// So many tasks have come from one place to another, or from or to nowhere.
    pub fn change_many(&mut self, old: Option<Place>, new: Option<Place>, tasks: usize) {
        (0..tasks).for_each(|_| self.change(old, new));
    }

    /// A task has come from one place to another, or from or to nowhere.
    pub fn change(&mut self, old: Option<Place>, new: Option<Place>) {
        let (from, to) = (old.map(|place| place.status), new.map(|place| place.status));
        if let Some(status) = from {
            self.tasks[status as usize] -= 1;
        }
        if let Some(status) = to {
            self.tasks[status as usize] += 1;
        }
        self.unmade_buried |= from != to && from == Some(Status::Buried);
        let tube = |place: Option<Place>| place.and_then(|place| place.tube);
        let (old_tube, new_tube) = (tube(old), tube(new));
        let has_moved = old.is_some() && new.is_some() && old_tube != new_tube;
        if from != to {
            self.transitions[end(from)][end(to)] += 1;
        }
        if from != to || has_moved {
            self.change_tubes(old, new, has_moved);
        }
        let is_ready = |place: Option<Place>| {
            place.is_some_and(|place| place.status == Status::Ready && !place.is_in_lane())
        };
        let (was_ready, is_ready) = (is_ready(old), is_ready(new));
        if is_ready && (!was_ready || has_moved) {
            self.made_ready.add(new_tube.map(|tube| tube.hash), 1);
        }
        if was_ready && (!is_ready || has_moved) {
            self.unmade_ready.add(old_tube.map(|tube| tube.hash), 1);
        }
    }

    fn change_tubes(&mut self, old: Option<Place>, new: Option<Place>, has_moved: bool) {
        let (from, to) = (old.map(|place| place.status), new.map(|place| place.status));
        let counted = |place: Option<Place>| place?.tube?.counted;
        let (leaves, enters) = (counted(old), counted(new));
        if let (Some(tube), Some(status)) = (leaves, from) {
            let tube = self.tube(tube);
            tube.tasks[status as usize] -= 1;
            tube.transitions[end(from)][if has_moved { OTHER_TUBE } else { end(to) }] += 1;
        }
        if let (Some(tube), Some(status)) = (enters, to) {
            let tube = self.tube(tube);
            tube.tasks[status as usize] += 1;
            if has_moved {
                tube.transitions[OTHER_TUBE][end(to)] += 1;
            } else if leaves.is_none() {
                tube.transitions[end(from)][end(to)] += 1;
            }
        }
    }

    fn tube(&mut self, tube: usize) -> &mut TubeDelta {
        let known = self.tubes.iter().position(|(known, _)| *known == tube);
        let index = known.unwrap_or_else(|| {
            self.tubes.push((tube, TubeDelta::default()));
            self.tubes.len() - 1
        });
        &mut self.tubes[index].1
    }

    pub fn call(&mut self, call: Call, tasks: usize) {
        self.calls[call as usize] += tasks as i64;
    }

    pub fn due_at(&mut self, instant: i64) {
        self.due = Some(self.due.map_or(instant, |due| due.min(instant)));
    }

    /// Notes what has become of the task with the key that `hash` stands for.
    pub fn end(&mut self, hash: impl FnOnce() -> u64, outcome: Outcome) {
        if self.ended.len() < ENDED_NOTED {
            self.ended.push((hash(), outcome));
        } else {
            self.ended_more = true;
        }
    }

    /// From here on the queue holds exactly so many tasks.
    pub fn replace(&mut self, counts: &Counts) {
        self.tasks = counts.tasks;
        self.replaces = true;
        self.tubes.iter_mut().for_each(|(_, tube)| tube.tasks = Tasks::default());
        for (tube, tasks) in counts.tubes.iter().enumerate() {
            if *tasks != Tasks::default() {
                self.tube(tube).tasks = *tasks;
            }
        }
    }

    pub fn absorb(&mut self, later: &Delta) {
        if later.replaces {
            self.replace(&Counts::default());
        }
        add(&mut self.tasks, &later.tasks);
        add(&mut self.calls, &later.calls);
        add_all(&mut self.transitions, &later.transitions);
        for (tube, change) in &later.tubes {
            let tube = self.tube(*tube);
            add(&mut tube.tasks, &change.tasks);
            add_all(&mut tube.transitions, &change.transitions);
        }
        self.made_ready.absorb(&later.made_ready);
        self.unmade_ready.absorb(&later.unmade_ready);
        self.moved |= later.moved;
        self.unmade_buried |= later.unmade_buried;
        later.lowest.by_group().for_each(|(group, position)| self.lowest.add(group, position));
        self.lanes.absorb(&later.lanes);
        let room = ENDED_NOTED.saturating_sub(self.ended.len()).min(later.ended.len());
        self.ended.extend_from_slice(&later.ended[..room]);
        self.ended_more |= later.ended_more || room < later.ended.len();
        self.taken = self.taken.saturating_add(later.taken);
        self.held.absorb(&later.held);
        self.given.absorb(&later.given);
        if let Some(instant) = later.due {
            self.due_at(instant);
        }
        self.reserved += later.reserved;
        self.capacity = later.capacity.or(self.capacity);
        self.redefined |= later.redefined;
        self.told = later.told.or(self.told);
        self.paused = later.paused.or(self.paused);
        self.recount |= later.recount;
        self.tubes_changed |= later.tubes_changed;
        self.created |= later.created;
        self.owner_before = self.owner_before.or(later.owner_before);
        self.altered_by_user |= later.altered_by_user;
        self.given_away |= later.given_away;
        self.dropped = later.dropped.or(self.dropped);
    }
}

impl Ready {
    pub fn add(&mut self, tube: Option<u64>, count: u32) {
        let at = |tube: Option<u64>| self.0.iter().position(|(known, _)| *known == tube);
        let is_full = self.0.len() >= TUBES_NOTED;
        let (place, tube) = match at(tube) {
            None if is_full => (at(None), None),
            place => (place, tube),
        };
        match place {
            Some(place) => self.0[place].1 = self.0[place].1.saturating_add(count),
            None => self.0.push((tube, count)),
        }
    }

    pub fn absorb(&mut self, later: &Ready) {
        later.0.iter().for_each(|(tube, count)| self.add(*tube, *count));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The numbers by tube; None where the queue has none.
    pub fn by_tube(&self) -> impl Iterator<Item = (Option<u64>, u32)> {
        self.0.iter().copied()
    }
}

pub fn add<const N: usize>(sum: &mut [i64; N], change: &[i64; N]) {
    for (total, part) in sum.iter_mut().zip(change) {
        *total += part;
    }
}

pub fn add_all(sum: &mut Transitions, change: &Transitions) {
    for (total, part) in sum.iter_mut().zip(change) {
        add(total, part);
    }
}
