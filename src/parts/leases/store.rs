//! The table `xqueue.session`: identified sessions, which outlive connections, restarts and failover.
//!
//! A session's lease is the instant at which the session ends if no connection is attached to it. While the worker has
//! recorded an attached connection, the lease is infinity. Using a session without staying attached renews the lease in
//! steps of half the grace period, so most uses write nothing. A renewal skips a locked row, which is being renewed.
//! Only a change of the grace period waits for a row, and only briefly.

use crate::error::Result;
use crate::parts::leases::sessions;
use crate::server::relation::{self, LockMode};
use crate::server::row::Row;
use crate::server::spi::Rows;
use crate::server::types::{self, Uuid};
use crate::server::value::Value;
use crate::server::{catalog, latch, own_table, time, user, xact};
use pgrx::pg_sys::Oid;
use std::ffi::CStr;
use std::time::{Duration, Instant};

const TABLE: &CStr = c"session";
const KEY: &CStr = c"session_pkey";
/// The index on the second column, the role.
const ROLES: (&CStr, i16) = (c"session_role_idx", 2);
/// Maximum wait for the worker to handle an expired lease; afterwards the session counts as ended.
const WORKER_PATIENCE: Duration = Duration::from_secs(1);
/// Maximum wait for another transaction, such as the worker's, that holds a session's row.
const ROW_PATIENCE: Duration = Duration::from_millis(200);
/// Pause between two attempts of a wait.
const PAUSE: Duration = Duration::from_millis(2);

/// An identified session.
pub struct Known {
    pub role: Oid,
    /// In microseconds.
    pub grace: i64,
    /// In microseconds; `i64::MAX` for infinity.
    pub lease: i64,
    /// This transaction has written the lease; a rollback to a savepoint can undo that.
    pub is_own: bool,
}

/// Returns the session with this identifier, even if its lease has expired. Reads the current state, regardless of the
/// transaction's snapshot.
fn find(uuid: Uuid) -> Option<Known> {
    let known = own_table::row_of(TABLE, KEY, uuid, |row| {
        Some(Known {
            role: row.value(2).map(Value::to_oid)?,
            grace: time::length(&row.value(3)?.to_interval()),
            lease: row.value(4).map(Value::to_instant)?,
            is_own: row.writer().is_some_and(xact::is_own),
        })
    });
    known.flatten()
}

/// Returns the session with this identifier if it has not ended.
pub fn living(uuid: Uuid) -> Option<Known> {
    find(uuid).filter(|known| is_living(uuid, known))
}

/// Returns the session with this identifier if it has not ended. If a connection has just left it after its lease,
/// waits until the worker has begun its grace period.
pub fn await_living(uuid: Uuid) -> Option<Known> {
    // No worker runs on a standby.
    if xact::in_recovery() {
        return living(uuid);
    }
    let settled = || match find(uuid) {
        Some(known) if !is_living(uuid, &known) => None,
        settled => Some(settled),
    };
    patiently(WORKER_PATIENCE, settled).flatten()
}

/// After its lease a session lives on while a connection is attached to it, for example by a long transaction.
fn is_living(uuid: Uuid, known: &Known) -> bool {
    known.lease > time::now() || sessions::is_attended(uuid)
}

/// Repeats an attempt until it has a result; returns None after the time limit.
fn patiently<T>(limit: Duration, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        let result = attempt();
        if result.is_some() || begun.elapsed() >= limit {
            return result;
        }
        latch::wait(latch::Reason::Other, Some(PAUSE), true);
    }
}

/// Returns the number of sessions of a role, up to a limit. Sessions that are being opened count too.
pub fn count_of(role: Oid, limit: usize) -> usize {
    own_table::count(TABLE, ROLES, role, limit)
}

/// Changes the grace period of a known session. Without connections the session lives for that period from now, unless
/// a use renews its lease. Returns false, and changes nothing, if another transaction holds the session's row.
pub fn set_grace(uuid: Uuid, grace: Value) -> Result<bool> {
    let given = patiently(ROW_PATIENCE, || match try_set_grace(uuid, grace) {
        Ok(false) => None,
        given => Some(given),
    });
    given.unwrap_or(Ok(false))
}

fn try_set_grace(uuid: Uuid, grace: Value) -> Result<bool> {
    own_table::as_owner(|spi| {
        let written = spi.run_with(
            "UPDATE xqueue.session SET grace = $2, lease = CASE \
             WHEN picked.lease OPERATOR(pg_catalog.=) 'infinity' THEN picked.lease \
             ELSE pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) \
             ($2 OPERATOR(pg_catalog.*) 1.5::pg_catalog.float8) END FROM (SELECT s.uuid, s.lease \
             FROM xqueue.session s WHERE s.uuid OPERATOR(pg_catalog.=) $1 FOR UPDATE SKIP LOCKED) \
             AS picked WHERE session.uuid OPERATOR(pg_catalog.=) picked.uuid",
            &[(types::UUID, Some(Value::uuid(uuid))), (types::INTERVAL, Some(grace))],
        );
        !written.is_empty()
    })
}

/// Stores a session.
pub fn keep(uuid: Uuid, role: Oid, grace: Value) -> Result<()> {
    own_table::as_owner(|spi| {
        spi.run_with(
            "INSERT INTO xqueue.session AS s (uuid, role, grace, lease) VALUES ($1, $2, $3, \
             pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) \
             ($3 OPERATOR(pg_catalog.*) 1.5::pg_catalog.float8)) ON CONFLICT (uuid) DO UPDATE \
             SET grace = excluded.grace, lease = GREATEST(s.lease, excluded.lease)",
            &[
                (types::UUID, Some(Value::uuid(uuid))),
                (types::OID, Some(Value::oid(role))),
                (types::INTERVAL, Some(grace)),
            ],
        );
    })
}

/// Renews a session's lease to one and a half grace periods from now.
pub fn renew(uuid: Uuid) -> Result<()> {
    own_table::as_owner(|spi| {
        let renewed = "pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) \
                       (s.grace OPERATOR(pg_catalog.*) 1.5::pg_catalog.float8)";
        spi.run_with(
            &set_lease(renewed, "s.uuid OPERATOR(pg_catalog.=) $1", ""),
            &[(types::UUID, Some(Value::uuid(uuid)))],
        );
    })
}

/// Returns the uuids that are no longer sessions: no connection is attached to them, and they are not identified.
pub fn lost(uuids: Vec<Uuid>) -> Result<Vec<Uuid>> {
    let uuids = sessions::not_attached(uuids);
    if uuids.is_empty() {
        return Ok(uuids);
    }
    let known = among(&uuids)?;
    Ok(uuids.into_iter().filter(|uuid| !known.contains(uuid)).collect())
}

/// Returns the process that acts for a session; None for an identified one without a connection.
pub fn holder(uuid: Uuid) -> Option<i32> {
    let attached = sessions::pid_of(uuid);
    if attached.is_some() || is_identified(uuid) {
        attached
    } else {
        Some(crate::parts::leases::session::pid(uuid))
    }
}

/// Returns whether a session outlives its connections.
pub fn is_identified(uuid: Uuid) -> bool {
    find(uuid).is_some()
}

/// Returns whether the current role is allowed to see a session's identifier, because it could join the session.
pub fn is_open_to_current_role(uuid: Uuid) -> bool {
    let known = find(uuid);
    known.is_some_and(|known| user::may_act_as(user::current(), known.role))
}

/// Returns the uuids that are identified sessions.
pub fn among(uuids: &[Uuid]) -> Result<Vec<Uuid>> {
    own_table::as_owner(|spi| {
        let rows = spi.run_with(
            "SELECT s.uuid FROM xqueue.session s WHERE s.uuid OPERATOR(pg_catalog.=) ANY ($1)",
            &[(types::UUID_ARRAY, Some(Value::uuids(uuids)))],
        );
        identifiers(&rows)
    })
}

/// Locks the tables that the worker needs; the worker must not wait for DROP EXTENSION. Returns false if a lock is not
/// available immediately.
pub fn try_lock() -> bool {
    let try_lock = |table: &CStr| {
        let table = catalog::own_relation(table);
        table.is_some_and(|table| relation::try_lock(table, LockMode::RowExclusive))
    };
    // The writes run as the registry's owner, with a lock on the registry.
    try_lock(own_table::REGISTRY) && try_lock(TABLE)
}

/// Corrects the leases of sessions that got connections, or that lost them unnoticed, for example by a crash.
/// `attached`: the sessions that have connections.
pub fn compare(attached: &[Uuid]) -> Result<()> {
    own_table::as_owner(|spi| {
        let arguments = [(types::UUID_ARRAY, Some(Value::uuids(attached)))];
        let is_endless = "s.lease OPERATOR(pg_catalog.=) 'infinity'";
        let is_attached = "s.uuid OPERATOR(pg_catalog.=) ANY ($1)";
        let got = format!("{is_attached} AND NOT {is_endless}");
        spi.run_with(&set_lease("'infinity'::pg_catalog.timestamptz", &got, ""), &arguments);
        let lost = format!("NOT {is_attached} AND {is_endless}");
        spi.run_with(&set_lease(GRACE_FROM_NOW, &lost, ""), &arguments);
    })
}

/// Begins the grace period of sessions whose last connection has left. Returns the sessions that are not identified,
/// and the locked ones, which are retried later.
pub fn begin_grace(left: &[Uuid]) -> Result<(Vec<Uuid>, Vec<Uuid>)> {
    let begun = own_table::as_owner(|spi| {
        let rows = spi.run_with(
            &set_lease(
                GRACE_FROM_NOW,
                "s.uuid OPERATOR(pg_catalog.=) ANY ($1)",
                " RETURNING session.uuid",
            ),
            &[(types::UUID_ARRAY, Some(Value::uuids(left)))],
        );
        identifiers(&rows)
    })?;
    let rest: Vec<Uuid> = left.iter().filter(|uuid| !begun.contains(uuid)).copied().collect();
    let known = if rest.is_empty() { vec![] } else { among(&rest)? };
    let (locked, ended) = rest.into_iter().partition(|uuid| known.contains(uuid));
    Ok((ended, locked))
}

/// Deletes and returns the sessions whose lease had expired at `now`, except those in `attached`.
pub fn expire(now: i64, attached: &[Uuid]) -> Result<Vec<Uuid>> {
    own_table::as_owner(|spi| {
        let rows = spi.run_with(
            "DELETE FROM xqueue.session WHERE uuid OPERATOR(pg_catalog.=) ANY (ARRAY(\
             SELECT s.uuid FROM xqueue.session s WHERE s.lease OPERATOR(pg_catalog.<=) $1 \
             AND NOT s.uuid OPERATOR(pg_catalog.=) ANY ($2) FOR UPDATE SKIP LOCKED)) RETURNING uuid",
            &[
                (types::TIMESTAMPTZ, Some(Value::instant(now))),
                (types::UUID_ARRAY, Some(Value::uuids(attached))),
            ],
        );
        identifiers(&rows)
    })
}

/// Returns the sessions whose lease had expired at `now`.
pub fn lapsed(now: i64) -> Result<Vec<Uuid>> {
    own_table::as_owner(|spi| {
        let rows = spi.run_with(
            "SELECT s.uuid FROM xqueue.session s WHERE s.lease OPERATOR(pg_catalog.<=) $1",
            &[(types::TIMESTAMPTZ, Some(Value::instant(now)))],
        );
        identifiers(&rows)
    })
}

/// Returns when the next lease after `now` ends. An expired lease belongs to an attached session, which is reported
/// when it is left, or to a locked one, which is retried.
pub fn next_end(now: i64) -> Result<Option<i64>> {
    own_table::as_owner(|spi| {
        let rows = spi.run_with(
            "SELECT s.lease FROM xqueue.session s WHERE s.lease OPERATOR(pg_catalog.>) $1 \
             AND s.lease OPERATOR(pg_catalog.<) 'infinity' ORDER BY s.lease LIMIT 1",
            &[(types::TIMESTAMPTZ, Some(Value::instant(now)))],
        );
        rows.value(0, 1).map(Value::to_instant)
    })
}

/// The grace period from now, or the remaining lease if that is longer.
const GRACE_FROM_NOW: &str = "GREATEST(pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) s.grace, \
    NULLIF(s.lease, 'infinity'))";

/// Returns an UPDATE that sets the lease of all unlocked sessions that satisfy a condition. Both expressions call the
/// session `s`.
fn set_lease(lease: &str, condition: &str, returning: &str) -> String {
    format!(
        "UPDATE xqueue.session SET lease = picked.lease FROM (SELECT s.uuid, {lease} AS lease \
         FROM xqueue.session s WHERE {condition} FOR UPDATE SKIP LOCKED) AS picked \
         WHERE session.uuid OPERATOR(pg_catalog.=) picked.uuid{returning}"
    )
}

fn identifiers(rows: &Rows) -> Vec<Uuid> {
    (0..rows.len()).filter_map(|row| rows.value(row, 1).map(Value::to_uuid)).collect()
}
