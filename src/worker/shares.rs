//! What the owners of queues get of the time of the worker of their database: in each of its rounds a share, and none
//! while they are slow.

use super::slowness::Slowness;
use crate::guc;
use pgrx::pg_sys::Oid;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The shares of all owners.
#[derive(Default)]
pub struct Shares(HashMap<Oid, Share>);

/// What an owner gets.
pub struct Share {
    /// Of its queues' work.
    slowness: Slowness,
    /// Used in this round.
    used: Duration,
}

impl Shares {
    /// A round begins.
    pub fn begin(&mut self) {
        self.0.values_mut().for_each(|share| share.used = Duration::ZERO);
    }

    pub fn of(&mut self, owner: Oid) -> &mut Share {
        let new = || Share { slowness: Slowness::of_owner(), used: Duration::ZERO };
        self.0.entry(owner).or_insert_with(new)
    }

    /// Forgets owners that have no queues any more, which does not clear one who drops all that are slow.
    pub fn retain(&mut self, is_there: impl Fn(Oid) -> bool) {
        self.0.retain(|owner, share| is_there(*owner) || share.slow_until().is_some());
    }
}

impl Share {
    /// Notes a job of one of the owner's queues, and whether it has reached the time limit.
    pub fn note(&mut self, begun: Instant, is_slow: bool) {
        let now = Instant::now();
        self.used += now - begun;
        match is_slow {
            true => self.slowness.note_slow(now),
            false => self.slowness.note_fast(now),
        }
    }

    /// Whether all has been used that a round has for this owner.
    pub fn is_used_up(&self) -> bool {
        self.used >= guc::worker_timeout()
    }

    /// Until when the owner's queues are left to job workers.
    pub fn slow_until(&self) -> Option<Instant> {
        let now = Instant::now();
        self.slowness.left(now).map(|left| now + left)
    }
}
