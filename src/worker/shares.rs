//! What the owners of queues get of the time of the worker of their database: in each of its rounds a share, and none
//! while they are slow.

use crate::settings;
use crate::worker::slowness::Slowness;
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

    /// Forgets owners that have no queues any more, once it is forgotten that their queues were slow: to drop
    /// those and make them anew is no way round it.
    pub fn retain(&mut self, now: Instant, is_there: impl Fn(Oid) -> bool) {
        self.0.retain(|owner, share| is_there(*owner) || share.slowness.is_remembered(now));
    }
}

impl Share {
    /// Notes a job of one of the owner's queues, and whether it has reached the time limit.
    pub fn note(&mut self, begun: Instant, is_slow: bool) {
        let now = Instant::now();
        self.used += now - begun;
        if is_slow {
            self.slowness.note_slow(now);
        }
    }

    /// Returns whether all has been used that a round has for this owner.
    pub fn is_used_up(&self) -> bool {
        self.used >= settings::worker_timeout()
    }

    /// Until when the owner's queues are left to job workers.
    pub fn slow_until(&self) -> Option<Instant> {
        let now = Instant::now();
        self.slowness.left(now).map(|left| now + left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_that_drops_slow_queues_is_remembered() {
        let (slow, fast, now) = (Oid::from(1), Oid::from(2), Instant::now());
        let mut shares = Shares::default();
        shares.of(slow).slowness.note_slow(now);
        shares.of(fast).note(now, false);
        shares.retain(now + Duration::from_secs(60), |_| false);
        assert_eq!(shares.0.keys().collect::<Vec<_>>(), [&slow]);
        shares.retain(now + Duration::from_secs(61), |_| false);
        assert!(shares.0.is_empty());
    }
}
