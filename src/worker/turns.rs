//! Order in which job workers, of which there are fewer than queues, serve them: owners take turns, and so do the
//! queues of each.

use pgrx::pg_sys::Oid;
use std::collections::{HashMap, VecDeque};

/// When owners and tables had their last turn.
#[derive(Default)]
pub struct Turns {
    last: u64,
    of: HashMap<Oid, u64>,
}

/// A queue that wants to be served.
pub struct Candidate<T> {
    pub owner: Oid,
    pub table: Oid,
    pub what: T,
}

/// The number that may be served at a time, and the owners being served.
pub struct Served<'a> {
    pub most: usize,
    pub owners: &'a [Oid],
    /// Owners whose turn is not over.
    pub in_turn: &'a [Oid],
}

impl Turns {
    pub fn take(&mut self, oid: Oid) {
        self.last += 1;
        self.of.insert(oid, self.last);
    }

    /// Forgets owners and tables that are gone.
    pub fn retain(&mut self, is_there: impl Fn(Oid) -> bool) {
        self.of.retain(|oid, _| is_there(*oid));
    }

    /// Returns the candidate whose turn it is. Where several may be served, the last place is kept for an owner
    /// without one.
    pub fn next<T>(
        &self,
        served: &Served,
        candidates: impl Iterator<Item = Candidate<T>>,
    ) -> Option<Candidate<T>> {
        let free = served.most.checked_sub(served.owners.len()).filter(|free| *free > 0)?;
        let is_kept = free == 1 && !served.owners.is_empty();
        let may = |of: &Candidate<T>| !is_kept || !served.owners.contains(&of.owner);
        let rank = |of: &Candidate<T>| {
            (!served.in_turn.contains(&of.owner), self.of(of.owner), self.of(of.table))
        };
        candidates.filter(may).min_by_key(rank)
    }

    /// Returns all candidates in the order in which `next` would give them one at a time, at the cost of a sort.
    pub fn all<T>(&self, candidates: impl Iterator<Item = Candidate<T>>) -> Vec<Candidate<T>> {
        let mut all: Vec<Candidate<T>> = candidates.collect();
        all.sort_by_cached_key(|of| {
            (self.of(of.owner), u32::from(of.owner), self.of(of.table), u32::from(of.table))
        });
        let mut owners: Vec<VecDeque<Candidate<T>>> = vec![];
        for candidate in all {
            match owners
                .last_mut()
                .filter(|last| last.back().is_some_and(|of| of.owner == candidate.owner))
            {
                Some(last) => last.push_back(candidate),
                None => owners.push(VecDeque::from([candidate])),
            }
        }
        let mut in_turn = vec![];
        while !owners.is_empty() {
            in_turn.extend(owners.iter_mut().filter_map(VecDeque::pop_front));
            owners.retain(|of_owner| !of_owner.is_empty());
        }
        in_turn
    }

    /// Least for what has waited for longest.
    fn of(&self, oid: Oid) -> u64 {
        self.of.get(&oid).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two queues of owner 1, one of owner 2 and one of owner 3, all of which always have something to do.
    const QUEUES: [(u32, u32); 4] = [(1, 11), (1, 12), (2, 21), (3, 31)];

    fn oids(numbers: &[u32]) -> Vec<Oid> {
        numbers.iter().map(|number| Oid::from(*number)).collect()
    }

    fn next(turns: &mut Turns, most: usize, owners: &[u32], in_turn: &[u32]) -> Option<u32> {
        let (owners, in_turn) = (oids(owners), oids(in_turn));
        let served = Served { most, owners: &owners, in_turn: &in_turn };
        let candidates = QUEUES.iter().map(|(owner, table)| Candidate {
            owner: Oid::from(*owner),
            table: Oid::from(*table),
            what: (),
        });
        let next = turns.next(&served, candidates)?;
        turns.take(next.owner);
        turns.take(next.table);
        Some(next.table.into())
    }

    #[test]
    fn owners_and_their_queues_take_turns() {
        let mut turns = Turns::default();
        let served: Vec<_> = (0..6).filter_map(|_| next(&mut turns, 1, &[], &[])).collect();
        assert_eq!(served, [11, 21, 31, 12, 21, 31]);
    }

    #[test]
    fn all_at_once_are_in_the_order_of_one_at_a_time() {
        let mut turns = Turns::default();
        for _ in 0..5 {
            let candidates = QUEUES.iter().map(|(owner, table)| Candidate {
                owner: Oid::from(*owner),
                table: Oid::from(*table),
                what: (),
            });
            let all: Vec<u32> = turns.all(candidates).iter().map(|of| of.table.into()).collect();
            let mut left = QUEUES.to_vec();
            let mut copy = Turns { last: turns.last, of: turns.of.clone() };
            let mut one_at_a_time = vec![];
            while !left.is_empty() {
                let served = Served { most: 1, owners: &[], in_turn: &[] };
                let candidates = left.iter().map(|(owner, table)| Candidate {
                    owner: Oid::from(*owner),
                    table: Oid::from(*table),
                    what: (),
                });
                let next = copy.next(&served, candidates).expect("a candidate");
                copy.take(next.owner);
                copy.take(next.table);
                left.retain(|(_, table)| Oid::from(*table) != next.table);
                one_at_a_time.push(u32::from(next.table));
            }
            assert_eq!(all, one_at_a_time);
            next(&mut turns, 1, &[], &[]);
        }
    }

    #[test]
    fn the_last_place_is_kept_for_an_owner_without_one() {
        let mut turns = Turns::default();
        assert_eq!(next(&mut turns, 2, &[1], &[]), Some(21));
        assert_eq!(next(&mut turns, 2, &[1, 2], &[]), None);
        assert_eq!(next(&mut turns, 2, &[2], &[1]), Some(11));
        assert_eq!(next(&mut turns, 1, &[], &[]), Some(31));
    }

    #[test]
    fn a_turn_that_is_not_over_goes_on() {
        let mut turns = Turns::default();
        let served: Vec<_> = (0..3).filter_map(|_| next(&mut turns, 1, &[], &[1])).collect();
        assert_eq!(served, [11, 12, 11]);
        assert_eq!(next(&mut turns, 1, &[], &[]), Some(21));
    }
}
