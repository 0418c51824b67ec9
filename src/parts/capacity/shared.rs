//! Room under a queue's capacity. Producers reserve it before they put.
//!
//! Invariant: committed and reserved tasks together never exceed the capacity, so the committed tasks never exceed it
//! either. It survives these races:
//!
//! 1. Producers compete for the last room: each reserves it under the queue's lock.
//! 2. A prepared transaction ends unnoticed: its room stays reserved until a recount has seen its tasks.
//! 3. The server starts while transactions prepared earlier are open: no room is given until they have ended and the
//!    tasks have been counted.

/// The room of a queue.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Capacity {
    /// Maximum number of tasks; None: unlimited.
    pub(in crate::parts) capacity: Option<i64>,
    /// Room reserved by open transactions, or granted to producers that have not noticed yet.
    pub(in crate::parts) reserved: i64,
    /// Room reserved by prepared transactions.
    pub(super) prepared: i64,
    /// The part of `prepared` whose transactions have ended: the next recount sees their tasks.
    resolved: i64,
    /// The counters plus the reserved room are an upper bound of the number of tasks.
    counted: bool,
    survivors: Survivors,
}

/// Transactions prepared before the server started, whose tasks are unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
enum Survivors {
    /// Not searched for yet.
    #[default]
    Unknown,
    Open,
    None,
}

/// Answer to a request for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Reserved,
    /// There is no room, or other producers have waited longer.
    Full,
    /// The tasks have not been counted since the server started.
    Uncounted,
    /// The tasks cannot be counted: a transaction prepared before the server started is open.
    Unresolved,
}

impl Capacity {
    pub fn with_capacity(capacity: Option<i64>) -> Capacity {
        Capacity { capacity, ..Capacity::default() }
    }

    /// Returns this room under another capacity.
    pub(super) fn of(self, capacity: i64) -> Capacity {
        Capacity { capacity: Some(capacity), ..self }
    }

    /// Returns whether `tasks` more fit, given the `committed` ones and the reserved room.
    pub(in crate::parts) fn fits(&self, committed: i64, tasks: i64) -> bool {
        let limit = self.capacity.unwrap_or(i64::MAX);
        committed + self.reserved + self.prepared + tasks <= limit
    }

    pub(super) fn answer(&self, committed: i64, tasks: i64) -> Answer {
        match (self.counted, self.survivors) {
            (_, Survivors::Open) => Answer::Unresolved,
            (false, _) | (_, Survivors::Unknown) => Answer::Uncounted,
            _ if self.fits(committed, tasks) => Answer::Reserved,
            _ => Answer::Full,
        }
    }

    /// Applies a recount. `for_good`: no other recount has been requested meanwhile.
    pub(in crate::parts) fn count(&mut self, for_good: bool) {
        self.counted |= for_good;
        if for_good {
            self.prepared -= std::mem::take(&mut self.resolved);
        }
    }

    /// Applies the emptying of the table by a transaction that holds it exclusively.
    pub(in crate::parts) fn empty(&mut self) {
        (self.counted, self.survivors) = (true, Survivors::None);
    }

    /// Discards the count, because uncounted rows might have been added.
    pub(in crate::parts) fn distrust(&mut self) {
        self.counted = false;
    }

    pub(in crate::parts) fn prepared(&self) -> i64 {
        self.prepared
    }

    /// Returns the room of prepared transactions that are not known to have ended.
    pub(in crate::parts) fn unresolved(&self) -> i64 {
        self.prepared - self.resolved
    }

    /// Notes that the prepared transactions that had reserved `room`, and all from before the server started, have
    /// ended.
    pub(in crate::parts) fn resolve(&mut self, room: i64) {
        self.resolved += room;
        self.survivors = Survivors::None;
    }

    /// Notes that a prepared transaction has the table locked.
    pub(in crate::parts) fn find_prepared(&mut self) {
        if self.survivors == Survivors::Unknown {
            self.survivors = Survivors::Open;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(capacity: i64) -> Capacity {
        let mut room = Capacity::with_capacity(Some(capacity));
        assert_eq!(room.answer(0, 1), Answer::Uncounted);
        room.resolve(0);
        room.count(true);
        room
    }

    #[test]
    fn what_is_reserved_is_no_room() {
        let mut room = counted(10);
        assert_eq!((room.answer(7, 3), room.answer(7, 4)), (Answer::Reserved, Answer::Full));
        room.reserved = 2;
        assert_eq!((room.answer(7, 1), room.answer(7, 2)), (Answer::Reserved, Answer::Full));
        assert_eq!(room.answer(12, 1), Answer::Full);
    }

    #[test]
    fn the_room_of_a_prepared_transaction_is_kept_until_a_recount_sees_its_tasks() {
        let mut room = counted(10);
        room.prepared = 4;
        room.find_prepared();
        assert!(!room.fits(0, 7) && room.answer(0, 6) == Answer::Reserved);
        room.count(true);
        assert_eq!(room.prepared(), 4);
        room.resolve(4);
        // Another transaction is prepared before the tasks of the first one are counted.
        room.prepared += 1;
        room.count(false);
        assert_eq!(room.prepared(), 5);
        room.count(true);
        assert_eq!(room.prepared(), 1);
    }

    #[test]
    fn room_is_given_back_once_though_it_is_counted_during_a_search() {
        let mut room = counted(10);
        room.prepared = 4;
        room.resolve(room.unresolved());
        room.prepared += 3;
        let found = room.unresolved();
        room.count(true);
        room.resolve(found);
        assert_eq!(room.prepared(), 3);
        room.count(true);
        assert_eq!(room.prepared(), 0);
    }

    #[test]
    fn nothing_fits_beside_a_transaction_prepared_before_the_start() {
        let mut room = Capacity::with_capacity(Some(10));
        room.find_prepared();
        room.count(true);
        assert_eq!(room.answer(0, 1), Answer::Unresolved);
        room.resolve(0);
        assert_eq!(room.answer(0, 1), Answer::Reserved);
    }
}
