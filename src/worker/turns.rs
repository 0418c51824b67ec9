//! Order in which job workers, of which there are fewer than queues, serve them: owners take turns, and so do the
//! queues of each.

use pgrx::pg_sys::Oid;
use std::collections::HashMap;

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
