//! Those who wait for a task, for the end of one, or for room: a line for each queue, first come,
//! first served.
//!
//! A wake-up is a token: the consumer at the head is taken out of the line and woken; if it ends
//! without having used the token, it passes it on. Producers are woken with their room reserved, so
//! that nobody comes before them.
//!
//! Where the tasks that a consumer gets depend on who it is, by row security or by a function that
//! picks, a look in vain says nothing of the others: see [`token`].

use super::token::WakeToken;
use super::traced::Cause;
use crate::model::change::Outcome;
use crate::parts::slot::QueueGuard;
use crate::server::{latch, process};

pub const NO_QUEUE: u32 = u32::MAX;

/// What somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Want {
    /// A ready task.
    Any,
    /// A ready task of one tube.
    Tube(u64),
    /// The end of the task with this key.
    End(u64),
    /// Room for so many tasks more.
    Room(i64),
}

/// A wake-up: there is a ready task, of this tube where that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    pub tube: Option<u64>,
}

/// A process's place in a line. Links are process indexes plus one, 0 being none.
#[repr(C)]
pub struct Waiter {
    /// The queue in whose line this process stands, `NO_QUEUE` if in none.
    pub(in crate::parts) queue: u32,
    pub(super) previous: u32,
    pub(super) next: u32,
    /// Taken out of the line by a wake-up that has not been used yet.
    pub(super) woken: bool,
    pub(super) want: Want,
    pub(super) token: WakeToken,
    /// How many wake-ups there had been when its last look began.
    pub(super) seen: u64,
    /// Others may find what that look did not.
    pub(super) by_caller: bool,
    pub(super) outcome: Option<Outcome>,
    /// Room that has been reserved for this process, which it has not taken over yet.
    pub(super) granted: i64,
    /// It stands in front of all newcomers.
    pub(super) precedes: bool,
    pub(super) pid: i32,
    pub(super) since: i64,
    /// When to look again without a wake-up, after one that came to nothing.
    pub(super) nudge_at: i64,
    pub(super) session: [u8; 16],
}

/// The line of a queue.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Line {
    pub(super) head: u32,
    pub(super) tail: u32,
    pub(in crate::parts) length: u32,
    /// Of these, those who want the tasks of one tube.
    pub(super) choosy: u32,
    /// Of these, those who wait for the end of a task.
    pub(super) watchers: u32,
    /// Of these, those who wait for room.
    pub(in crate::parts) producers: u32,
    /// How often consumers were to be woken: the number of the last wake-up.
    pub(super) wakes: u64,
    /// The end of the pause that those in line wait for, if there is one.
    pub(in crate::parts) paused_until: i64,
}

/// Someone who waits, for the views `xqueue.consumers` and `xqueue.producers`.
pub struct Waiting {
    pub want: Want,
    pub pid: i32,
    pub since: i64,
    pub session: [u8; 16],
}

pub(super) fn waiter(process: u32) -> &'static mut Waiter {
    let segment = crate::parts::segment::segment();
    // SAFETY: the index is that of a process; the entry is guarded by the lock of the queue in
    // whose line it stands, which every caller holds but `was_woken`: that reads one flag of its
    // own process, which is looked at again after each wake-up of the latch.
    unsafe { &mut *segment.waiters.add(process as usize % segment.process_count) }
}

impl Want {
    /// Whether a ready task is what is wanted. Where its tube is not known it may be.
    pub(super) fn accepts(self, offer: Offer) -> bool {
        match self {
            Want::Any => true,
            Want::Tube(wanted) => offer.tube.is_none_or(|tube| tube == wanted),
            Want::End(_) | Want::Room(_) => false,
        }
    }

    pub fn is_for_task(self) -> bool {
        matches!(self, Want::Any | Want::Tube(_))
    }
}

impl Line {
    /// Consumers that wait for a task.
    pub(in crate::parts) fn consumers(&self) -> u32 {
        self.length - self.watchers - self.producers
    }

    /// Counts someone in or out.
    fn count(&mut self, want: Want, change: impl Fn(u32) -> u32) {
        self.length = change(self.length);
        match want {
            Want::Any => {}
            Want::Tube(_) => self.choosy = change(self.choosy),
            Want::End(_) => self.watchers = change(self.watchers),
            Want::Room(_) => self.producers = change(self.producers),
        }
    }
}

impl QueueGuard {
    /// Puts this process into the line, behind all who have waited since an earlier instant.
    /// `nudge_at`: when to be woken again though nothing has happened, `NEVER` if not at all.
    /// `precedes`: in front of all who are newcomers, as they may be waiting for its end.
    /// `by_caller`: others may find what its looks do not.
    pub fn join_line(
        &mut self,
        since: i64,
        session: [u8; 16],
        (want, precedes, by_caller): (Want, bool, bool),
        nudge_at: i64,
    ) {
        let process = process::index();
        let (index, link) = (self.index(), process + 1);
        if waiter(process).queue != NO_QUEUE {
            return;
        }
        // Newcomers belong at the end, those who come back near the head. Producers do not come back.
        let belongs_at_end = self.line.tail == 0
            || matches!(want, Want::Room(_))
            || waiter(self.line.tail - 1).since <= since;
        let mut next = if belongs_at_end && !precedes { 0 } else { self.line.head };
        let is_before = |other: &Waiter| other.precedes || !precedes && other.since <= since;
        while next != 0 && is_before(waiter(next - 1)) {
            next = waiter(next - 1).next;
        }
        let previous = match next {
            0 => self.line.tail,
            follower => waiter(follower - 1).previous,
        };
        *waiter(process) = Waiter {
            queue: index,
            previous,
            next,
            woken: false,
            want,
            token: WakeToken::NUDGE,
            seen: self.line.wakes,
            by_caller,
            outcome: None,
            granted: 0,
            precedes,
            pid: process::pid(),
            since,
            nudge_at,
            session,
        };
        match previous {
            0 => self.line.head = link,
            leader => waiter(leader - 1).next = link,
        }
        match next {
            0 => self.line.tail = link,
            follower => waiter(follower - 1).previous = link,
        }
        self.line.count(want, |count| count + 1);
        self.grant();
    }

    /// Takes this process out of the line. If it had been woken meanwhile, it gets the wake-up,
    /// which it has either used or has to pass on, with whether others may find what it does not; room
    /// that it has not taken over is given back.
    pub fn leave_line(&mut self) -> Option<(WakeToken, bool)> {
        let process = process::index();
        if waiter(process).queue == self.index() {
            self.unlink(process);
        }
        let entry = waiter(process);
        let was_woken = std::mem::replace(&mut entry.woken, false);
        let (want, token) = (entry.want, (entry.token, entry.by_caller));
        if matches!(want, Want::Room(_)) {
            self.room.reserved -= std::mem::take(&mut entry.granted);
            // It may have stood before others that need less.
            self.grant();
        }
        (was_woken && want.is_for_task()).then_some(token)
    }

    /// Wakes the first `count` consumers in the line that want what there is. If nobody knows what
    /// that is and some want only one tube, all look for themselves.
    pub fn wake(&mut self, cause: Cause, count: u32, offer: Offer) {
        let token = self.next_token(offer, cause, count);
        let everyone = offer.tube.is_none() && self.line.choosy > 0;
        let mut left = if everyone && count > 0 { u32::MAX } else { count };
        let mut link = self.line.head;
        while link != 0 && left > 0 {
            let Waiter { next, want, .. } = *waiter(link - 1);
            if want.accepts(offer) {
                self.notify(link - 1, token, None);
                left -= 1;
            }
            link = next;
        }
    }

    /// The pause is over: wakes those whose turn it is.
    pub(in crate::parts) fn wake_for_ready(&mut self) {
        self.line.paused_until = i64::MIN;
        match self.is_exact() && self.knows_all_lanes() {
            true => self.wake(Cause::PauseOver, self.ready(), Offer { tube: None }),
            false => self.wake_everyone(),
        }
    }

    /// This process waits for the end of a pause.
    pub fn note_pause(&mut self, until: i64) {
        self.line.paused_until = until;
    }

    /// A pause is over, which everyone in line notices at the same instant: whoever comes first wakes
    /// those whose turn it is.
    pub fn end_pause(&mut self, until: i64) {
        if self.line.paused_until == until {
            self.wake_for_ready();
        }
    }

    /// Wakes everyone to look again.
    pub fn wake_everyone(&mut self) {
        let token = self.next_token(Offer { tube: None }, Cause::Redefined, u32::MAX);
        self.tell_end(None, None);
        let mut link = self.line.head;
        while link != 0 {
            let Waiter { next, want, .. } = *waiter(link - 1);
            if want.is_for_task() {
                self.notify(link - 1, token, None);
            }
            link = next;
        }
    }

    /// Reserves room for the producers in the order of their line, until there is not enough for
    /// the next, and wakes them.
    pub fn grant(&mut self) {
        let mut link = if self.line.producers > 0 { self.line.head } else { 0 };
        while link != 0 {
            let Waiter { next, want, .. } = *waiter(link - 1);
            if let Want::Room(tasks) = want {
                if !self.has_room(tasks) {
                    return;
                }
                self.room.reserved += tasks;
                waiter(link - 1).granted = tasks;
                self.notify(link - 1, WakeToken::NUDGE, None);
            }
            link = next;
        }
    }

    /// Wakes the producers that wait for more room than there can ever be, without any.
    pub(in crate::parts) fn turn_away(&mut self, capacity: i64) {
        let mut link = if self.line.producers > 0 { self.line.head } else { 0 };
        while link != 0 {
            let Waiter { next, want, .. } = *waiter(link - 1);
            if matches!(want, Want::Room(tasks) if tasks > capacity) {
                self.notify(link - 1, WakeToken::NUDGE, None);
            }
            link = next;
        }
    }

    /// Takes over the room that has been reserved for this process, if any: it is its own to give
    /// back from now on.
    pub fn take_grant(&mut self) -> i64 {
        std::mem::take(&mut waiter(process::index()).granted)
    }

    /// Sends everyone away: the queue is gone.
    pub fn dismiss_everyone(&mut self) {
        while self.line.head != 0 {
            self.notify(self.line.head - 1, WakeToken::NUDGE, None);
        }
    }

    /// Tells those who wait for the end of a task what has become of it; without `hash`, all who
    /// wait for the end of any; without outcome, they look for themselves, and stay in line so as
    /// to miss nothing.
    pub fn tell_end(&mut self, hash: Option<u64>, outcome: Option<Outcome>) {
        let mut link = if self.line.watchers > 0 { self.line.head } else { 0 };
        while link != 0 {
            let Waiter { next, want, .. } = *waiter(link - 1);
            if let Want::End(wanted) = want
                && hash.is_none_or(|hash| hash == wanted)
            {
                match outcome {
                    Some(_) => self.notify(link - 1, WakeToken::NUDGE, outcome),
                    None => {
                        waiter(link - 1).woken = true;
                        latch::wake(link - 1);
                    }
                }
            }
            link = next;
        }
    }

    /// What this process, which waits for the end of a task, has been told since it last asked: the
    /// outcome, or to look for itself.
    pub fn news(&mut self) -> Option<Option<Outcome>> {
        let entry = waiter(process::index());
        match (entry.woken, entry.outcome) {
            (false, _) => None,
            (true, Some(outcome)) => Some(Some(outcome)),
            (true, None) => {
                entry.woken = false;
                Some(None)
            }
        }
    }

    /// Those who wait for what is `wanted`, in their order.
    pub fn waiting(&self, wanted: fn(Want) -> bool, into: &mut Vec<Waiting>) {
        let mut link = self.line.head;
        while link != 0 && into.len() < into.capacity() {
            let Waiter { pid, since, session, next, want, .. } = *waiter(link - 1);
            if wanted(want) {
                into.push(Waiting { want, pid, since, session });
            }
            link = next;
        }
    }

    pub(super) fn notify(&mut self, process: u32, token: WakeToken, outcome: Option<Outcome>) {
        self.unlink(process);
        let entry = waiter(process);
        (entry.token, entry.outcome, entry.woken) = (token, outcome, true);
        self.note_woken(process, token);
        latch::wake(process);
    }

    fn unlink(&mut self, process: u32) {
        let Waiter { previous, next, want, .. } = *waiter(process);
        match previous {
            0 => self.line.head = next,
            link => waiter(link - 1).next = next,
        }
        match next {
            0 => self.line.tail = previous,
            link => waiter(link - 1).previous = previous,
        }
        waiter(process).queue = NO_QUEUE;
        self.line.count(want, |count| count - 1);
    }
}

/// Whether this process has been taken out of the line since it joined.
pub fn was_woken() -> bool {
    waiter(process::index()).woken
}

/// What this process has been given when it was taken out of the line.
pub fn token() -> WakeToken {
    waiter(process::index()).token
}
