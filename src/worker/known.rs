//! A queue as the database worker knows it: which process serves it, and which ended sessions can have left tasks in
//! it.
//!
//! A process that begins to serve a queue scans all of it first, because the process before it can have left work
//! undone.

use crate::parts::leases::epoch;
use crate::parts::schedule::NEVER;
use crate::parts::slot;
use crate::queue::Queue;
use crate::server::time;
use crate::worker::leases::Ended;
use crate::worker::maintenance::{Maintenance, may_have_taken};
use crate::worker::unending;
use pgrx::pg_sys::Oid;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};
use xqueue_core::slot_id::SlotId;

/// Interval of full rescans of a queue with row security. Its owner possibly does not see all due tasks, and nothing
/// reports when they become visible.
const ALL_INTERVAL: Duration = Duration::from_secs(5);

pub struct KnownQueue {
    pub maintenance: Maintenance,
    /// The description last read.
    described: Option<Weak<Queue>>,
    /// Owner of the table.
    pub owner: Oid,
    server: Server,
    /// The triggers report every change.
    is_tracked: bool,
    has_row_security: bool,
    /// Time of the last full rescan.
    looked: Instant,
}

/// The process that serves a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    DatabaseWorker,
    /// The job worker of its owner.
    JobWorker,
    /// The table is a subscriber's copy, so its tasks belong to another server.
    Publisher,
    /// The table is being restored. No process touches the tasks before its triggers exist.
    Restore,
    /// Code of the owner did not end, so no process touches the tasks.
    Nobody,
}

impl KnownQueue {
    pub fn of(slot: SlotId) -> KnownQueue {
        KnownQueue {
            maintenance: Maintenance::of(slot),
            described: None,
            owner: Oid::INVALID,
            server: Server::DatabaseWorker,
            is_tracked: true,
            has_row_security: false,
            looked: Instant::now(),
        }
    }

    pub fn slot(&self) -> SlotId {
        self.maintenance.slot
    }

    pub fn server(&self) -> Server {
        self.server
    }

    /// Records the queue's description. A changed description ends all pauses, so failed work is tried again.
    pub fn describe(&mut self, queue: &Rc<Queue>) {
        let described = self.described.replace(Rc::downgrade(queue));
        let is_same = |described: Weak<Queue>| std::ptr::eq(described.as_ptr(), Rc::as_ptr(queue));
        if described.is_some_and(|described| !is_same(described)) {
            slot::with(self.slot(), |slot| slot.schedule.end_pauses());
        }
        if std::mem::replace(&mut self.has_row_security, queue.has_row_security)
            && !queue.has_row_security
        {
            self.look_for_all();
        }
        // No session's leases include tasks that manual statements took while triggers did not report every change.
        match (std::mem::replace(&mut self.is_tracked, queue.is_tracked), queue.is_tracked) {
            (true, false) => {
                epoch::note_untracked();
                self.ask_for_sweep();
            }
            (false, true) => slot::invalidate(self.slot()),
            _ => {}
        }
    }

    /// Hands the queue to the process that serves it from now on, and has that process scan all of it.
    pub fn set_server(&mut self, owner: Oid, server: Server) {
        let is_new = (self.owner, self.server) != (owner, server);
        let was_left = !matches!(self.server, Server::DatabaseWorker | Server::JobWorker);
        (self.owner, self.server) = (owner, server);
        let Some(mut slot) = slot::lock(self.maintenance.slot) else { return };
        let job_owner = if server == Server::JobWorker { owner.into() } else { 0 };
        if !is_new && slot.schedule.job_owner() == job_owner {
            return;
        }
        slot.schedule.look_for_all();
        slot.schedule.set_job_owner(job_owner);
        if was_left {
            slot.shown.clear_error();
        }
        if server == Server::Nobody {
            slot.shown().set_error(unending::MESSAGE, time::now());
        }
        drop(slot);
        self.maintenance.forget();
    }

    fn look_for_all(&mut self) {
        self.looked = Instant::now();
        slot::with(self.slot(), |slot| slot.schedule.look_for_all());
    }

    /// Requests a full rescan of a queue with row security when its interval has passed.
    pub fn look_again(&mut self) {
        if self.look_left().is_some_and(|left| left.is_zero()) {
            self.look_for_all();
        }
    }

    /// Returns the time until the next full rescan; None without row security.
    pub fn look_left(&self) -> Option<Duration> {
        self.has_row_security.then(|| ALL_INTERVAL.saturating_sub(self.looked.elapsed()))
    }

    pub fn ask_for_sweep(&self) {
        slot::with(self.slot(), |slot| slot.schedule.ask_for_sweep());
    }

    /// Records ended sessions that can have left tasks in this queue.
    pub fn note_ended(&mut self, ended: &[Ended]) {
        if ended.is_empty() || !may_have_taken(self.slot()) {
            return;
        }
        let Some(epoch) = slot::lock(self.slot()).map(|slot| slot.leases.epoch()) else { return };
        for Ended { uuid, held } in ended {
            let known = held.filter(|held| self.is_tracked && held.since >= epoch);
            if known.is_some_and(|held| !held.is_in(self.slot())) {
                continue;
            }
            match self.server {
                Server::DatabaseWorker => self.maintenance.note_ended(*uuid),
                Server::JobWorker => self.ask_for_sweep(),
                Server::Publisher | Server::Restore | Server::Nobody => {}
            }
        }
    }

    /// Returns when the queue needs work; `NEVER` if it is not served.
    pub fn needed_at(&self, now: i64) -> i64 {
        match self.server {
            Server::DatabaseWorker | Server::JobWorker => self.maintenance.needed_at(now),
            Server::Publisher | Server::Restore | Server::Nobody => NEVER,
        }
    }

    /// Returns whether consumers wait although tasks are ready.
    pub fn has_idle_consumers(&self) -> bool {
        slot::lock(self.slot()).is_some_and(|slot| slot.has_idle_consumers(time::now()))
    }
}
