//! Every change of a transaction, and their sums, counted one by one.

use super::*;
use crate::change::NOWHERE;
use crate::level::LAST as LAST_LEVEL;
use crate::position::LAST;

/// Every remaining change, with the depth at which it was made or to which it was released.
#[derive(Default)]
pub struct Model(pub Vec<(i32, SlotId, Change)>);

impl Model {
    pub fn of(&self, slot: SlotId) -> impl DoubleEndedIterator<Item = &Change> + Clone {
        self.0.iter().filter(move |(_, of, _)| *of == slot).map(|(_, _, change)| change)
    }

    pub fn release(&mut self, depth: i32) {
        let of_level = self.0.iter_mut().filter(|(made_at, ..)| *made_at == depth);
        of_level.for_each(|(made_at, ..)| *made_at -= 1);
    }

    pub fn roll_back(&mut self, depth: i32) -> Model {
        let (undone, left) =
            std::mem::take(&mut self.0).into_iter().partition(|(at, ..)| *at >= depth);
        self.0 = left;
        Model(undone)
    }

    /// Returns whether a sub-queue can be claimed: it is not exhausted, or something has arrived since.
    pub fn may_claim(&self, slot: SlotId, subqueue: u64) -> bool {
        !self.of(slot).any(|change| matches!(change, Change::Exhaust(of) if *of == subqueue))
    }

    /// Removes the claim of a sub-queue that was made at this depth.
    pub fn unclaim(&mut self, slot: SlotId, subqueue: u64, depth: i32) -> bool {
        let before = self.0.len();
        let is_claim = |change: &Change| matches!(change, Change::Claim(of) if *of == subqueue);
        self.0.retain(|(at, of, change)| !(*at == depth && *of == slot && is_claim(change)));
        self.0.len() < before
    }

    pub fn tasks(&self, slot: SlotId) -> (Tasks, bool, BTreeMap<usize, Tasks>) {
        let (mut tasks, mut replaces) = (Tasks::default(), false);
        let mut tubes = BTreeMap::<usize, Tasks>::new();
        for change in self.of(slot) {
            match change {
                Change::Replaced(counts) => {
                    (tasks, replaces) = (counts.tasks, true);
                    tubes = (0..).zip(counts.tubes).collect();
                }
                Change::Task { old, new, .. } => {
                    let is_same_tube = old.and_then(|old| old.tube) == new.and_then(|new| new.tube);
                    let stays = old.map(|old| old.status) == new.map(|new| new.status);
                    let is_moved = old.is_some() && new.is_some() && !is_same_tube;
                    for (place, sign) in [(old, -1), (new, 1)] {
                        let Some(StateAndTube { status, tube }) = *place else { continue };
                        tasks[status as usize] += sign;
                        let tube =
                            tube.and_then(|tube| tube.counted).filter(|_| !stays || is_moved);
                        if let Some(tube) = tube {
                            tubes.entry(tube).or_default()[status as usize] += sign;
                        }
                    }
                }
                _ => {}
            }
        }
        tubes.retain(|_, tasks| *tasks != Tasks::default());
        (tasks, replaces, tubes)
    }

    /// Returns the transitions by their end states, of the whole queue (None) and of its tubes.
    pub fn transitions(&self, slot: SlotId) -> BTreeMap<(Option<usize>, usize, usize), i64> {
        let mut transitions = BTreeMap::new();
        for change in self.of(slot) {
            let Change::Task { old, new, .. } = change else { continue };
            let end =
                |place: &Option<StateAndTube>| place.map_or(NOWHERE, |place| place.status as usize);
            let (from, to) = (end(old), end(new));
            let tube = |place: &Option<StateAndTube>| place.and_then(|place| place.tube);
            let counted = |place| tube(place).and_then(|tube| tube.counted);
            let is_moved = old.is_some() && new.is_some() && tube(old) != tube(new);
            let mut count = |of, from, to| *transitions.entry((of, from, to)).or_default() += 1;
            if from != to {
                count(None, from, to);
            }
            if let Some(tube) = counted(old).filter(|_| from != to || is_moved) {
                count(Some(tube), from, if is_moved { OTHER_TUBE } else { to });
            }
            if let Some(tube) = counted(new).filter(|_| is_moved || old.is_none()) {
                count(Some(tube), if is_moved { OTHER_TUBE } else { from }, to);
            }
        }
        transitions
    }

    /// Returns how many tasks became ready (true) or ceased to be, by tube, outside of sub-queues.
    pub fn ready(&self, slot: SlotId, made: bool) -> BTreeMap<Option<u64>, u32> {
        let mut ready = BTreeMap::new();
        for change in self.of(slot) {
            let Change::Task { old, new, .. } = change else { continue };
            let where_ready = |place: &Option<StateAndTube>| {
                let place =
                    place.filter(|place| place.status == Status::Ready && !place.is_in_subqueue());
                place.map(|place| place.tube)
            };
            let (was, is) = (where_ready(old), where_ready(new));
            if let Some(tube) = if made { is } else { was }.filter(|_| was != is) {
                *ready.entry(tube.map(|tube| tube.hash)).or_default() += 1;
            }
        }
        ready
    }

    pub fn subqueue(&self, slot: SlotId, subqueue: u64) -> SubqueueChange {
        let mut sum = SubqueueChange::default();
        let (mut least, mut level) = (LAST, LAST_LEVEL);
        let mut stands = |at: Position, of: Level| (least, level) = (least.min(at), level.min(of));
        for change in self.of(slot) {
            let is_looked_at = match change {
                Change::Claim(of) if *of == subqueue => {
                    sum.claimed = true;
                    continue;
                }
                Change::Exhaust(of) if *of == subqueue => {
                    sum.exhausted = true;
                    continue;
                }
                Change::Moved(place, at, of) => {
                    let stays = matches!(place.status, Status::Ready | Status::Waiting);
                    let is_here = place.subqueue() == Some(subqueue) && stays;
                    if is_here {
                        (sum.offers, sum.lost) = (true, true);
                        stands(*at, *of);
                    }
                    is_here
                }
                Change::Task { old, new, position, level } => {
                    let here = |place: &Option<StateAndTube>| {
                        let place = place.filter(|place| place.subqueue() == Some(subqueue))?;
                        Some(place.status)
                    };
                    let in_subqueue = |place: &Option<StateAndTube>| {
                        place.and_then(|place| Some((place.subqueue()?, place.status)))
                    };
                    let stays = in_subqueue(old) == in_subqueue(new);
                    match here(old).filter(|_| !stays) {
                        Some(Status::Taken) => sum.taken -= 1,
                        Some(Status::Waiting) => (sum.offers, sum.lost) = (true, true),
                        Some(Status::Ready) => sum.lost = true,
                        _ => {}
                    }
                    match here(new) {
                        Some(Status::Ready) => {
                            sum.offers = true;
                            stands(*position, *level);
                        }
                        Some(Status::Waiting) => {
                            sum.offers |= stays;
                            stands(*position, *level);
                        }
                        Some(Status::Taken) if !stays => {
                            sum.taken += 1;
                            sum.first = Some(*position);
                            sum.taken_level = sum.taken_level.min(*level);
                        }
                        _ => {}
                    }
                    let is_of_note = matches!(here(new), Some(Status::Ready | Status::Waiting));
                    is_of_note
                        || !stays && (here(old).is_some() || here(new) == Some(Status::Taken))
                }
                _ => false,
            };
            sum.exhausted &= !is_looked_at;
        }
        (sum.least, sum.level) = (least, level);
        sum
    }

    pub fn held(&self, slot: SlotId) -> HeldChange {
        let mut sum = HeldChange::default();
        for change in self.of(slot) {
            let Change::Held(HeldChange { got, lost }) = change else { continue };
            (sum.got, sum.lost) = (sum.got + got, sum.lost + lost);
        }
        sum
    }

    pub fn lowest(&self, slot: SlotId) -> BTreeMap<String, (Group, Position)> {
        let mut lowest = BTreeMap::new();
        for change in self.of(slot) {
            let Change::Stood(group, position) = change else { continue };
            let known = lowest.entry(format!("{group:?}")).or_insert((*group, *position));
            known.1 = known.1.min(*position);
        }
        lowest
    }

    /// Returns the last change for which `of` returns a value.
    pub fn last<T>(&self, slot: SlotId, of: impl Fn(&Change) -> Option<T>) -> Option<T> {
        self.of(slot).rev().find_map(of)
    }

    pub fn sum(&self, slot: SlotId, of: impl Fn(&Change) -> i64) -> i64 {
        self.of(slot).map(of).sum()
    }
}
