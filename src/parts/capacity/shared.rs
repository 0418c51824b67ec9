//! Room under a queue's capacity. Whoever puts reserves it first; what is committed and what is
//! reserved never come to more than the capacity, so neither does what will be committed.

/// The room of a queue.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Room {
    /// How many tasks there may be; None: any number.
    pub(in crate::parts) capacity: Option<i64>,
    /// By open transactions, and by producers that have been told so but do not know it yet.
    pub(in crate::parts) reserved: i64,
    /// By prepared transactions.
    pub(super) prepared: i64,
    /// Of these, by transactions that have ended: the next recount sees what they have put.
    resolved: i64,
    /// There are no more tasks than the counters say, but for what has been reserved.
    counted: bool,
    survivors: Survivors,
}

/// Transactions that were prepared before the server started: nobody knows what they have put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
enum Survivors {
    /// It has not been looked for them yet.
    #[default]
    Unknown,
    Open,
    None,
}

/// What comes of asking for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Reserved,
    /// There is none, or others have waited for it for longer.
    Full,
    /// The tasks have not been counted since the server started.
    Uncounted,
    /// They cannot be: a transaction that was prepared before the server started is open.
    Unresolved,
}

impl Room {
    pub fn with_capacity(capacity: Option<i64>) -> Room {
        Room { capacity, ..Room::default() }
    }

    /// The same under another capacity.
    pub(super) fn of(self, capacity: i64) -> Room {
        Room { capacity: Some(capacity), ..self }
    }

    /// Whether `tasks` more fit beside `committed` ones and what is reserved.
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

    /// The tasks were counted anew; `for_good`: nobody has asked for another count meanwhile.
    pub(in crate::parts) fn count(&mut self, for_good: bool) {
        self.counted |= for_good;
        if for_good {
            self.prepared -= std::mem::take(&mut self.resolved);
        }
    }

    /// The table was emptied by somebody who had it for himself.
    pub(in crate::parts) fn empty(&mut self) {
        (self.counted, self.survivors) = (true, Survivors::None);
    }

    /// Rows may have come that were not counted.
    pub(in crate::parts) fn distrust(&mut self) {
        self.counted = false;
    }

    pub(in crate::parts) fn prepared(&self) -> i64 {
        self.prepared
    }

    /// The prepared transactions that had reserved `room` have ended, and all before the server
    /// started.
    pub(in crate::parts) fn resolve(&mut self, room: i64) {
        (self.resolved, self.survivors) = (room, Survivors::None);
    }

    /// A prepared transaction has the table locked.
    pub(in crate::parts) fn find_prepared(&mut self) {
        if self.survivors == Survivors::Unknown {
            self.survivors = Survivors::Open;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(capacity: i64) -> Room {
        let mut room = Room::with_capacity(Some(capacity));
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
        // Another is prepared before the tasks of the first are counted.
        room.prepared += 1;
        room.count(false);
        assert_eq!(room.prepared(), 5);
        room.count(true);
        assert_eq!(room.prepared(), 1);
    }

    #[test]
    fn nothing_fits_beside_a_transaction_prepared_before_the_start() {
        let mut room = Room::with_capacity(Some(10));
        room.find_prepared();
        room.count(true);
        assert_eq!(room.answer(0, 1), Answer::Unresolved);
        room.resolve(0);
        assert_eq!(room.answer(0, 1), Answer::Reserved);
    }
}
