//! What the worker does for identified sessions: their time of grace begins with the end of their
//! last connection, and with its end they are over.

use crate::error::{OrRaise, Result};
use crate::parts::leases::departed::{DepartedSession, HeldLeases};
use crate::parts::leases::{sessions, store};
use crate::server::types::Uuid;
use crate::server::{time, xact};
use std::time::{Duration, Instant};

/// Retry delay after lock contention or failure.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// The sessions that had connections at a moment.
pub struct Attached {
    /// Just before.
    since: i64,
    sessions: Vec<Uuid>,
}

impl Attached {
    /// Clock read before the connection list, so that a session joined later is seen as expired consistently.
    pub fn now() -> Attached {
        let since = time::now();
        let (lasting, passing) = sessions::identified();
        Attached { since, sessions: [lasting, passing].concat() }
    }
}

/// A session that is over.
pub struct Ended {
    pub uuid: Uuid,
    /// None if its leases are not known.
    pub held: Option<HeldLeases>,
}

#[derive(Default)]
pub struct Leases {
    /// Sessions that were left, and may go on without a connection.
    left: Vec<Uuid>,
    /// All have to be compared with the connections that there are.
    compares: bool,
    /// When the next lease ends.
    end: Option<i64>,
    retry_at: Option<Instant>,
}

impl Leases {
    /// Maintains the leases and returns the sessions that are over. `compares`: a full comparison with live
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
        match self.retry_at {
            Some(at) => Some(at.saturating_duration_since(Instant::now())),
            None => self.end.map(time::until),
        }
    }

    /// Returns whether only the table of sessions says what is left to do.
    pub fn is_settled(&self) -> bool {
        self.retry_at.is_none() && self.left.is_empty() && !self.compares
    }

    fn look(&mut self, attached: &Attached) -> Vec<Uuid> {
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            return vec![];
        }
        let looked = xact::try_in_transaction(|| match store::try_lock() {
            true => Some(look(&self.left, attached, self.compares).or_raise()),
            false => None,
        });
        let looked = looked.unwrap_or_else(|failure| {
            failure.warn("look after sessions");
            None
        });
        let has_locked = looked.as_ref().is_none_or(|look| !look.locked.is_empty());
        self.retry_at = has_locked.then(|| Instant::now() + RETRY_PAUSE);
        let Some(look) = looked else { return vec![] };
        (self.left, self.compares, self.end) = (look.locked, false, look.end);
        look.ended
    }
}

struct Look {
    ended: Vec<Uuid>,
    locked: Vec<Uuid>,
    end: Option<i64>,
}

/// `attached`: the connections before the list of the sessions that were left was read.
fn look(left: &[Uuid], attached: &Attached, compares: bool) -> Result<Look> {
    let (lasting, passing) = sessions::identified();
    if compares {
        store::compare(&lasting)?;
    }
    let left: Vec<Uuid> = left.iter().filter(|uuid| !lasting.contains(uuid)).copied().collect();
    let (mut ended, locked) = match left.is_empty() {
        true => (vec![], vec![]),
        false => store::begin_grace(&left)?,
    };
    let spared = [attached.sessions.clone(), lasting, passing].concat();
    ended.extend(store::expire(attached.since, &spared)?);
    // One that is being identified just now is not to be seen yet, but has a connection.
    let ended = sessions::not_attached(ended);
    Ok(Look { ended, locked, end: store::next_end(attached.since)? })
}
