//! The worker's part in identified sessions. The grace period of a session begins when its last connection ends; when
//! the grace period ends, the session expires.
//!
//! The order of the reads prevents three races:
//! 1. The clock is read before the list of connections. A connection that joins a session after the list was read sees
//!    a later time, so for it, too, the session has expired. It joins an expired session only if another connection has
//!    joined before and is attached; that one is in the list.
//! 2. The connections are read before the list of departed sessions. A session that is left in between is in at least
//!    one of the two lists.
//! 3. The connections are read again at the end. A session that is being identified is not yet visible in the table,
//!    but already has a connection. A connection that fails to identify it reports it again.

use crate::error::{OrRaise, Result};
use crate::parts::leases::departed::{DepartedSession, HeldLeases};
use crate::parts::leases::{sessions, store};
use crate::server::types::Uuid;
use crate::server::{time, xact};
use std::time::Duration;
use xqueue_core::pause::{Limits, Pause};

/// First pause before the work is tried again, and the longest. Only failures make it longer, not locks.
const RETRY_PAUSES: Limits = (Duration::from_millis(50), Duration::from_secs(60));

/// The sessions that had connections at a moment.
pub struct Attached {
    /// Clock just before the list was read.
    since: i64,
    sessions: Vec<Uuid>,
}

impl Attached {
    /// Reads the clock before the list of connections (race 1).
    pub fn now() -> Attached {
        let since = time::now();
        let (lasting, passing) = sessions::identified();
        Attached { since, sessions: [lasting, passing].concat() }
    }
}

/// A session that has ended.
pub struct Ended {
    pub uuid: Uuid,
    /// None if its leases are unknown.
    pub held: Option<HeldLeases>,
}

#[derive(Default)]
pub struct Leases {
    /// Identified sessions without a connection, whose grace period has to begin.
    left: Vec<Uuid>,
    /// A full comparison with the live connections is pending.
    compares: bool,
    /// When the lease of the next session ends.
    end: Option<i64>,
    retry: Pause,
}

impl Leases {
    /// Begins and ends grace periods, and returns the sessions that have ended. `compares`: a full comparison with live
    /// connections is pending.
    pub fn settle(
        &mut self,
        left: Vec<DepartedSession>,
        attached: Attached,
        compares: bool,
    ) -> Vec<Ended> {
        let mut ended = vec![];
        for DepartedSession { uuid, identified, held } in left {
            match identified {
                true => self.left.push(uuid),
                false => ended.push(Ended { uuid, held }),
            }
        }
        self.compares |= compares;
        let is_time = self.end.is_some_and(|end| end <= time::now());
        if !self.left.is_empty() || self.compares || is_time {
            let looked = self.look(&attached).into_iter();
            ended.extend(looked.map(|uuid| Ended { uuid, held: None }));
        }
        ended
    }

    /// Returns the time until the next scheduled work; None means wait for a signal.
    pub fn left(&self) -> Option<Duration> {
        match self.retry {
            Pause::NONE => self.end.map(time::until),
            retry => Some(retry.left(time::now())),
        }
    }

    /// Returns whether the table of sessions holds all remaining work.
    pub fn is_settled(&self) -> bool {
        self.retry == Pause::NONE && self.left.is_empty() && !self.compares
    }

    fn look(&mut self, attached: &Attached) -> Vec<Uuid> {
        if !self.retry.is_over(time::now()) {
            return vec![];
        }
        let looked = xact::try_in_transaction(|| match store::try_lock() {
            true => Some(look(&self.left, attached, self.compares).or_raise()),
            false => None,
        });
        let looked = match looked {
            Ok(looked) => looked,
            Err(failure) => {
                failure.warn("look after sessions");
                self.retry.begin(time::now(), RETRY_PAUSES);
                return vec![];
            }
        };
        self.retry = Pause::NONE;
        if looked.as_ref().is_none_or(|look| !look.locked.is_empty()) {
            self.retry.begin(time::now(), RETRY_PAUSES);
        }
        let Some(look) = looked else { return vec![] };
        (self.left, self.compares, self.end) = (look.locked, false, look.end);
        look.ended
    }
}

struct LeaseScan {
    ended: Vec<Uuid>,
    locked: Vec<Uuid>,
    end: Option<i64>,
}

/// Begins the grace periods of sessions that were left, and ends expired sessions. `attached`: the connections, read
/// before the list `left`.
fn look(left: &[Uuid], attached: &Attached, compares: bool) -> Result<LeaseScan> {
    let (lasting, passing) = sessions::identified();
    if compares {
        store::compare(&lasting)?;
    }
    let left: Vec<Uuid> = left.iter().filter(|uuid| !lasting.contains(uuid)).copied().collect();
    let (mut ended, mut locked) = match left.is_empty() {
        true => (vec![], vec![]),
        false => store::begin_grace(&left)?,
    };
    let spared = [attached.sessions.clone(), lasting, passing].concat();
    ended.extend(store::expire(attached.since, &spared)?);
    // Spared or locked sessions. A transaction whose session's lease was cut short meanwhile reports its end only if
    // asked to.
    let mut lapsed = store::lapsed(attached.since)?;
    lapsed.retain(|uuid| !locked.contains(uuid));
    locked.extend(sessions::await_end(lapsed));
    // A session that is being identified has a connection now (race 3).
    let ended = sessions::not_attached(ended);
    Ok(LeaseScan { ended, locked, end: store::next_end(attached.since)? })
}
