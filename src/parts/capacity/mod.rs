//! Capacity: room for tasks is reserved before they are put.

pub mod shared;

pub use shared::*;

use crate::parts::slot::QueueGuard;
use xqueue_core::transaction::Growth;

/// A queue's room, and the producers that wait for it.
pub struct Room<'q> {
    slot: &'q mut QueueGuard,
}

impl QueueGuard {
    pub fn room(&mut self) -> Room<'_> {
        Room { slot: self }
    }
}

impl Room<'_> {
    /// Reserves room for `tasks` more, for a transaction that has changed the queue by `growth`. It holds a lock on the
    /// table under which `capacity` cannot change.
    pub fn reserve(&mut self, tasks: i64, capacity: i64, growth: &Growth) -> Answer {
        let known = self.slot.capacity.capacity;
        if known != Some(capacity) && !growth.redefines {
            self.set_capacity(Some(capacity));
        }
        // A transaction that has room does not wait behind producers that are possibly waiting for its end.
        if growth.reserved == 0 && self.slot.waiters.producers > 0 {
            return Answer::Full;
        }
        let room = self.slot.capacity.of(capacity);
        // A transaction that has emptied the table has it locked exclusively.
        let answer = match growth.replaces {
            true if room.fits(0, tasks) => Answer::Reserved,
            true => Answer::Full,
            false => room.answer(self.slot.counters.total(), tasks),
        };
        if answer == Answer::Reserved {
            self.slot.capacity.reserved += tasks;
        }
        answer
    }

    /// Gives back reserved room that was not used.
    pub fn give_back(&mut self, tasks: i64) {
        if tasks > 0 {
            self.slot.capacity.reserved -= tasks;
            self.slot.waiters().grant();
        }
    }

    /// Moves a reservation to a transaction that has been prepared.
    pub fn keep_for_prepared(&mut self, tasks: i64) {
        self.slot.capacity.reserved -= tasks;
        self.slot.capacity.prepared += tasks;
    }

    /// Sets the capacity. Producers that wait for more room than the capacity are woken to find out.
    pub(in crate::parts) fn set_capacity(&mut self, capacity: Option<i64>) {
        self.slot.capacity.capacity = capacity;
        self.slot.waiters().turn_away(capacity.unwrap_or(i64::MAX));
        self.slot.waiters().grant();
    }

    /// Returns whether waiting producers can be granted room for `tasks` more.
    pub(in crate::parts) fn suffices(&self, tasks: i64) -> bool {
        self.slot.capacity.capacity.is_none()
            || self.slot.capacity.answer(self.slot.counters.total(), tasks) == Answer::Reserved
    }
}
