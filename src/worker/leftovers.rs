//! What sessions that have ended have left in a queue: the worker gives it back.

use crate::model::position::Position;
use crate::parts::leases::departed::HeldTasks;
use crate::parts::leases::{epoch, sessions};
use crate::parts::schedule::orders::{End, PLACES, Report, SESSIONS, Work};
use crate::parts::slot;
use crate::parts::slot_id::SlotId;
use crate::server::types::Uuid;
use crate::worker::leases::Ended;
use crate::worker::retry::Retry;
use std::time::Duration;

/// So many sessions are looked after at a time of which it is known what they have left.
const LEAVERS: usize = 100;

/// What is to be given back of one queue, and to whom it belonged.
pub struct Leftovers {
    slot: SlotId,
    /// The queue's triggers tell of every task.
    is_told: bool,
    /// All taken tasks have to be compared with the live sessions.
    sweep: bool,
    /// Sessions that have ended and may have left tasks, which are looked for.
    ended: Vec<Uuid>,
    /// Those of which it is known which tasks they have left.
    leavers: Vec<Leaver>,
    /// Those of them that a job is about.
    in_hand: Vec<Leaver>,
    for_ended: Retry,
    for_leavers: Retry,
}

/// A session that has ended, and the places of the tasks that it has left.
struct Leaver {
    uuid: Uuid,
    /// So many doubts there were when it began.
    since: u64,
    places: Vec<Position>,
}

/// The kinds of work that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Giving {
    /// Of sessions of which it is known what they have left.
    Leavers,
    /// Of no session, and of such as have ended unnoticed.
    Lost,
    /// Of sessions that have ended.
    Ended,
}

impl Giving {
    pub const ALL: [Giving; 3] = [Giving::Leavers, Giving::Lost, Giving::Ended];
}

impl Leftovers {
    pub fn of(slot: SlotId) -> Leftovers {
        Leftovers {
            slot,
            is_told: true,
            sweep: true,
            ended: vec![],
            leavers: vec![],
            in_hand: vec![],
            for_ended: Retry::of(slot),
            for_leavers: Retry::of(slot),
        }
    }

    /// What is taken by hand while nobody tells of it no session notes. What was so before this is known is
    /// looked for.
    pub fn set_told(&mut self, is_told: bool) {
        match (std::mem::replace(&mut self.is_told, is_told), is_told) {
            (true, false) => {
                epoch::note_untold();
                self.sweep = true;
            }
            (false, true) => slot::invalidate(self.slot),
            _ => {}
        }
    }

    /// All taken tasks are to be compared with the live sessions.
    pub fn sweep(&mut self) {
        self.sweep = true;
    }

    /// Looks for nothing any more: the tasks are another server's.
    pub fn forget(&mut self) {
        *self = Leftovers { is_told: self.is_told, sweep: false, ..Leftovers::of(self.slot) };
    }

    /// Takes note of sessions that have ended.
    pub fn note(&mut self, ended: &[Ended]) {
        let Some(doubt) = self.doubt_if_taken().filter(|_| !ended.is_empty()) else { return };
        for Ended { uuid, tasks } in ended {
            let is_sure = |held: &&HeldTasks| self.is_told && held.since >= doubt;
            let Some(held) = tasks.as_ref().filter(is_sure) else {
                self.ended.push(*uuid);
                continue;
            };
            let places = held.tasks.iter().filter(|task| task.slot == self.slot);
            let places: Vec<Position> = places.map(|task| task.position).collect();
            if places.len() > PLACES {
                self.ended.push(*uuid);
            } else if !places.is_empty() {
                self.leavers.push(Leaver { uuid: *uuid, since: held.since, places });
            }
        }
    }

    /// The last doubt about what has happened to the queue's tasks, if there may be some that are taken.
    fn doubt_if_taken(&self) -> Option<u64> {
        let slot = slot::lock(self.slot)?;
        // A take that is visible may have been given back before it is counted, which needs the slot's lock:
        // until then the counters say too little.
        let may_be_taken = slot.has_taken() || sessions::any_committing(|_| true);
        may_be_taken.then(|| slot.doubt())
    }

    /// How long there is nothing to do; None: until somebody says so.
    pub fn pause(&self) -> Option<Duration> {
        let left = |giving| self.retry_of(giving).left().unwrap_or_default();
        Giving::ALL.into_iter().filter(|giving| self.has(*giving)).map(left).min()
    }

    fn has(&self, giving: Giving) -> bool {
        match giving {
            Giving::Leavers => !self.leavers.is_empty(),
            Giving::Lost => self.sweep,
            Giving::Ended => !self.ended.is_empty(),
        }
    }

    fn retry_of(&self, giving: Giving) -> &Retry {
        match giving {
            Giving::Leavers => &self.for_leavers,
            Giving::Lost | Giving::Ended => &self.for_ended,
        }
    }

    pub fn retry(&mut self, giving: Giving) -> &mut Retry {
        match giving {
            Giving::Leavers => &mut self.for_leavers,
            Giving::Lost | Giving::Ended => &mut self.for_ended,
        }
    }

    /// Whether there is work of a kind to do now.
    pub fn wants(&self, giving: Giving) -> bool {
        self.has(giving) && self.retry_of(giving).is_due()
    }

    /// The work of a kind. What came of it is to be given to `end`.
    pub fn begin(&mut self, giving: Giving) -> Work {
        match giving {
            Giving::Leavers => self.begin_with_leavers(),
            Giving::Lost => Work::FindLost,
            Giving::Ended => {
                let sessions = self.ended.iter().take(SESSIONS).copied().collect();
                Work::Reap { sessions, places: None }
            }
        }
    }

    /// Of some sessions at a time.
    fn begin_with_leavers(&mut self) -> Work {
        let mut room = PLACES;
        let fits = |leaver: &&Leaver| {
            let left = room.checked_sub(leaver.places.len());
            room = left.unwrap_or_default();
            left.is_some()
        };
        let count = self.leavers.iter().take(LEAVERS).take_while(fits).count();
        let others = self.leavers.split_off(count);
        self.in_hand = std::mem::replace(&mut self.leavers, others);
        let places = self.in_hand.iter().flat_map(|leaver| leaver.places.clone()).collect();
        let sessions = self.in_hand.iter().map(|leaver| leaver.uuid).collect();
        Work::Reap { sessions, places: Some(places) }
    }

    /// What came of the work of a kind.
    pub fn end(&mut self, giving: Giving, work: &Work, report: &Report) {
        let is_done = report.end == End::Done;
        match giving {
            Giving::Leavers => self.end_with_leavers(report, is_done),
            Giving::Lost if is_done => {
                self.sweep = report.has_more;
                let is_new = |uuid: &&Uuid| !self.ended.contains(uuid);
                let lost: Vec<Uuid> = report.sessions.iter().filter(is_new).copied().collect();
                self.ended.extend(lost);
            }
            Giving::Ended if is_done => {
                let Work::Reap { sessions, .. } = work else { return };
                // Those that hold tasks yet come after the others.
                self.ended.retain(|uuid| !sessions.contains(uuid));
                self.ended.extend(&report.sessions);
            }
            Giving::Lost | Giving::Ended => {}
        }
        self.retry(giving).note(report);
    }

    fn end_with_leavers(&mut self, report: &Report, is_done: bool) {
        // Whoever has moved one of these tasks has raised a doubt before that could be seen.
        let doubt = slot::lock(self.slot).map_or(u64::MAX, |slot| slot.doubt());
        for leaver in std::mem::take(&mut self.in_hand) {
            if leaver.since < doubt {
                self.ended.push(leaver.uuid);
            } else if !is_done || report.sessions.contains(&leaver.uuid) {
                self.leavers.push(leaver);
            }
        }
    }
}
