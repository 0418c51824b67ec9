//! A queue as the database worker knows it: who serves it, and what has ended sessions may have left in it.

use crate::parts::leases::epoch;
use crate::parts::schedule::NEVER;
use crate::parts::slot::{self, QueueGuard};
use crate::queue::Queue;
use crate::server::time;
use crate::worker::leases::Ended;
use crate::worker::maintenance::{Maintenance, may_have_taken};
use crate::worker::unending;
use pgrx::pg_sys::Oid;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};
use xqueue_core::slot_id::SlotId;

/// Interval of full looks at a queue with row security. Its owner may not see all due tasks, and their becoming visible
/// is not reported.
const ALL_INTERVAL: Duration = Duration::from_secs(5);

pub struct KnownQueue {
    pub maintenance: Maintenance,
    /// As it was last described.
    described: Option<Weak<Queue>>,
    /// Owner of the table.
    pub owner: Oid,
    server: Server,
    /// The triggers report every change.
    is_tracked: bool,
    has_row_security: bool,
    /// Time of the last full look because of that.
    looked: Instant,
}

/// Who serves a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    DatabaseWorker,
    /// The job worker of its owner.
    JobWorker,
    /// Its tasks belong to another server, of which the table is a subscriber's copy.
    Publisher,
    /// Code of its owner did not end: its tasks are left alone.
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

    /// Notes what its definition says. Once it has changed, what has failed is tried again.
    pub fn describe(&mut self, queue: &Rc<Queue>) {
        let described = self.described.replace(Rc::downgrade(queue));
        let is_same = |described: Weak<Queue>| std::ptr::eq(described.as_ptr(), Rc::as_ptr(queue));
        if described.is_some_and(|described| !is_same(described)) {
            slot::with(self.slot(), QueueGuard::end_pauses);
        }
        if std::mem::replace(&mut self.has_row_security, queue.has_row_security)
            && !queue.has_row_security
        {
            self.look_for_all();
        }
        // Tasks taken by hand while changes are not reported are in no session's list.
        match (std::mem::replace(&mut self.is_tracked, queue.is_tracked), queue.is_tracked) {
            (true, false) => {
                epoch::note_untracked();
                self.ask_for_sweep();
            }
            (false, true) => slot::invalidate(self.slot()),
            _ => {}
        }
    }

    /// Hands it to who serves it from now on, who looks after all that was left behind.
    pub fn set_server(&mut self, owner: Oid, server: Server) {
        let is_new = (self.owner, self.server) != (owner, server);
        let was_left = matches!(self.server, Server::Publisher | Server::Nobody);
        (self.owner, self.server) = (owner, server);
        let Some(mut slot) = slot::lock(self.maintenance.slot) else { return };
        let job_owner = if server == Server::JobWorker { owner.into() } else { 0 };
        if !is_new && slot.job_owner() == job_owner {
            return;
        }
        slot.look_for_all();
        slot.set_job_owner(job_owner);
        if was_left {
            slot.clear_error();
        }
        if server == Server::Nobody {
            slot.set_error(unending::MESSAGE);
        }
        drop(slot);
        self.maintenance.forget();
    }

    fn look_for_all(&mut self) {
        self.looked = Instant::now();
        slot::with(self.slot(), QueueGuard::look_for_all);
    }

    /// Looks now and then at a queue with row security as a whole.
    pub fn look_again(&mut self) {
        if self.look_left().is_some_and(|left| left.is_zero()) {
            self.look_for_all();
        }
    }

    /// Returns the time until it is to be looked at as a whole.
    pub fn look_left(&self) -> Option<Duration> {
        self.has_row_security.then(|| ALL_INTERVAL.saturating_sub(self.looked.elapsed()))
    }

    pub fn ask_for_sweep(&self) {
        slot::with(self.slot(), QueueGuard::ask_for_sweep);
    }

    /// Takes note of sessions that have ended and may have left tasks here.
    pub fn note_ended(&mut self, ended: &[Ended]) {
        if ended.is_empty() || !may_have_taken(self.slot()) {
            return;
        }
        let Some(epoch) = slot::lock(self.slot()).map(|slot| slot.epoch()) else { return };
        for Ended { uuid, held } in ended {
            let known = held.filter(|held| self.is_tracked && held.since >= epoch);
            if known.is_some_and(|held| !held.is_in(self.slot())) {
                continue;
            }
            match self.server {
                Server::DatabaseWorker => self.maintenance.note_ended(*uuid),
                Server::JobWorker => self.ask_for_sweep(),
                Server::Publisher | Server::Nobody => {}
            }
        }
    }

    /// Returns when there is something to do; `NEVER` if it is not served.
    pub fn needed_at(&self, now: i64) -> i64 {
        match self.server {
            Server::DatabaseWorker | Server::JobWorker => self.maintenance.needed_at(now),
            Server::Publisher | Server::Nobody => NEVER,
        }
    }

    /// Returns whether consumers wait for ready tasks.
    pub fn has_idle_consumers(&self) -> bool {
        slot::lock(self.slot()).is_some_and(|slot| slot.has_idle_consumers(time::now()))
    }
}
