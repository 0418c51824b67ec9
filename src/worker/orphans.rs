//! What sessions that have ended have left in a queue: the worker gives it back.

use crate::model::position::Position;
use crate::parts::leases::departed::HeldLeases;
use crate::parts::leases::{epoch, sessions};
use crate::parts::schedule::orders::{End, PLACES, Report, SESSIONS, Work};
use crate::parts::slot;
use crate::parts::slot_id::SlotId;
use crate::server::types::Uuid;
use crate::worker::leases::Ended;
use crate::worker::retry::Retry;
use std::time::Duration;

/// Maximum number of departed sessions with known leases per job.
const DEPARTED: usize = 100;

/// What is to be given back of one queue.
pub struct Orphans {
    slot: SlotId,
    /// The queue's triggers report every change.
    is_tracked: bool,
    /// All taken tasks have to be compared with the live sessions.
    sweep: bool,
    /// Ended sessions that may have left tasks, which are looked for.
    ended: Vec<Uuid>,
    /// Ended sessions with the tasks that they have left.
    departed: Vec<Departed>,
    /// Those of them that a job has in hand.
    in_hand: Vec<Departed>,
    for_ended: Retry,
    for_departed: Retry,
}

/// A session that has ended, and the places of the tasks that it has left.
struct Departed {
    uuid: Uuid,
    /// Invalidation epoch at session start.
    since: u64,
    places: Vec<Position>,
}

/// Kinds of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Giving {
    /// Tasks of sessions with known leases.
    Departed,
    /// Tasks without a session, and of sessions that ended unnoticed.
    Lost,
    /// Tasks of other ended sessions.
    Ended,
}

impl Giving {
    pub const ALL: [Giving; 3] = [Giving::Departed, Giving::Lost, Giving::Ended];
}

impl Orphans {
    pub fn of(slot: SlotId) -> Orphans {
        Orphans {
            slot,
            is_tracked: true,
            sweep: true,
            ended: vec![],
            departed: vec![],
            in_hand: vec![],
            for_ended: Retry::of(slot),
            for_departed: Retry::of(slot),
        }
    }

    /// Tasks taken by hand while changes are not reported are in no session's list. Those taken before this is known
    /// are looked for.
    pub fn set_tracked(&mut self, is_tracked: bool) {
        match (std::mem::replace(&mut self.is_tracked, is_tracked), is_tracked) {
            (true, false) => {
                epoch::note_untracked();
                self.sweep = true;
            }
            (false, true) => slot::invalidate(self.slot),
            _ => {}
        }
    }

    /// Requests a comparison of all taken tasks with the live sessions.
    pub fn sweep(&mut self) {
        self.sweep = true;
    }

    /// Stops looking: the tasks belong to another server.
    pub fn forget(&mut self) {
        *self = Orphans { is_tracked: self.is_tracked, sweep: false, ..Orphans::of(self.slot) };
    }

    /// Returns whether nothing is known to be given back.
    pub fn is_settled(&self) -> bool {
        !Giving::ALL.into_iter().any(|giving| self.has(giving))
    }

    /// Records sessions that have ended. Where no task is taken there is nothing to look for.
    pub fn note(&mut self, ended: &[Ended]) {
        if ended.is_empty() && !self.sweep {
            return;
        }
        let Some(epoch) = self.epoch_if_taken() else {
            self.sweep &= !self.is_tracked;
            return;
        };
        for Ended { uuid, tasks } in ended {
            let is_sure = |held: &&HeldLeases| self.is_tracked && held.since >= epoch;
            let Some(held) = tasks.as_ref().filter(is_sure) else {
                self.ended.push(*uuid);
                continue;
            };
            let places = held.tasks.iter().filter(|task| task.slot == self.slot);
            let places: Vec<Position> = places.map(|task| task.position).collect();
            if places.len() > PLACES {
                self.ended.push(*uuid);
            } else if !places.is_empty() {
                self.departed.push(Departed { uuid: *uuid, since: held.since, places });
            }
        }
    }

    /// Returns the queue's last invalidation epoch, if there may be taken tasks.
    fn epoch_if_taken(&self) -> Option<u64> {
        let slot = slot::lock(self.slot)?;
        // A take that is visible may have been given back before it is counted, which needs the slot's lock:
        // until then the counters say too little.
        let may_be_taken = slot.has_taken() || sessions::any_committing(|_| true);
        may_be_taken.then(|| slot.epoch())
    }

    /// Returns the time until the next scheduled work; None means wait for a signal.
    pub fn pause(&self) -> Option<Duration> {
        let left = |giving| self.retry_of(giving).left().unwrap_or_default();
        Giving::ALL.into_iter().filter(|giving| self.has(*giving)).map(left).min()
    }

    fn has(&self, giving: Giving) -> bool {
        match giving {
            Giving::Departed => !self.departed.is_empty(),
            Giving::Lost => self.sweep,
            Giving::Ended => !self.ended.is_empty(),
        }
    }

    fn retry_of(&self, giving: Giving) -> &Retry {
        match giving {
            Giving::Departed => &self.for_departed,
            Giving::Lost | Giving::Ended => &self.for_ended,
        }
    }

    pub fn retry(&mut self, giving: Giving) -> &mut Retry {
        match giving {
            Giving::Departed => &mut self.for_departed,
            Giving::Lost | Giving::Ended => &mut self.for_ended,
        }
    }

    /// Returns whether there is work of a kind to do now.
    pub fn wants(&self, giving: Giving) -> bool {
        self.has(giving) && self.retry_of(giving).is_due()
    }

    /// Returns the next work of a kind. Its result is to be passed to `end`.
    pub fn begin(&mut self, giving: Giving) -> Work {
        match giving {
            Giving::Departed => self.begin_with_departed(),
            Giving::Lost => Work::FindLost,
            Giving::Ended => {
                let sessions = self.ended.iter().take(SESSIONS).copied().collect();
                Work::Reap { sessions, places: None }
            }
        }
    }

    /// Returns work for some sessions at a time.
    fn begin_with_departed(&mut self) -> Work {
        let mut room = PLACES;
        let fits = |departed: &&Departed| {
            let left = room.checked_sub(departed.places.len());
            room = left.unwrap_or_default();
            left.is_some()
        };
        let count = self.departed.iter().take(DEPARTED).take_while(fits).count();
        let others = self.departed.split_off(count);
        self.in_hand = std::mem::replace(&mut self.departed, others);
        let places = self.in_hand.iter().flat_map(|departed| departed.places.clone()).collect();
        let sessions = self.in_hand.iter().map(|departed| departed.uuid).collect();
        Work::Reap { sessions, places: Some(places) }
    }

    /// Applies the result of work of a kind.
    pub fn end(&mut self, giving: Giving, work: &Work, report: &Report) {
        let is_done = report.end == End::Done;
        match giving {
            Giving::Departed => self.end_with_departed(report, is_done),
            Giving::Lost if is_done => {
                self.sweep = report.has_more;
                let is_new = |uuid: &&Uuid| !self.ended.contains(uuid);
                let lost: Vec<Uuid> = report.sessions.iter().filter(is_new).copied().collect();
                self.ended.extend(lost);
            }
            Giving::Ended if is_done => {
                let Work::Reap { sessions, .. } = work else { return };
                // Sessions that still hold tasks come after the others.
                self.ended.retain(|uuid| !sessions.contains(uuid));
                self.ended.extend(&report.sessions);
            }
            Giving::Lost | Giving::Ended => {}
        }
        self.retry(giving).note(report);
    }

    fn end_with_departed(&mut self, report: &Report, is_done: bool) {
        // A move of one of these tasks has raised the invalidation epoch before it became visible.
        let epoch = slot::lock(self.slot).map_or(u64::MAX, |slot| slot.epoch());
        for departed in std::mem::take(&mut self.in_hand) {
            if departed.since < epoch {
                self.ended.push(departed.uuid);
            } else if !is_done || report.sessions.contains(&departed.uuid) {
                self.departed.push(departed);
            }
        }
    }
}
