//! `identify`: who this connection is, and sessions that outlive connections.

use super::argument;
use crate::error::{Error, Result};
use crate::pg::function::{Call, Output};
use crate::pg::{jsonb, time, transaction, types, user};
use crate::session::{self, store};
use crate::shmem::sessions::{self, Part, Uuid};
use crate::{guc, sql_functions};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::{Datum, Interval, Oid};
use serde_json::json;

sql_functions! {
    identify, pg_finfo_identify => identify_impl,
    session_connections, pg_finfo_session_connections => session_connections_impl,
}

/// identify(session uuid, grace interval, local boolean)
fn identify_impl(call: &Call) -> Result<Datum> {
    session::require_loaded()?;
    let grace = argument::interval(call, 1, "grace", true)?;
    let local: bool = call.require(2, "local")?;
    let uuid = match (call.datum(0).map(types::uuid), local) {
        (Some(uuid), _) => join(uuid, grace, local)?,
        (None, true) => open_until_end(grace)?,
        (None, false) => itself(grace)?,
    };
    Ok(types::from_uuid(uuid))
}

/// The session that this connection acts for. With a time of grace it outlives the connection.
fn itself(grace: Option<Datum>) -> Result<Uuid> {
    let uuid = session::current();
    let is_own = session::joined(Part::Own) == Some(uuid);
    let grace = grace.or_else(|| default_grace().filter(|_| is_own));
    if let Some(grace) = grace {
        sessions::identify(uuid);
        keep(uuid, user::current(), grace)?;
    }
    Ok(uuid)
}

/// A new session, which this connection acts for until the end of the transaction; that of this
/// transaction if it has one already.
fn open_until_end(grace: Option<Datum>) -> Result<Uuid> {
    if let Some(uuid) = session::joined(Part::Local) {
        return Ok(uuid);
    }
    let grace = grace.or_else(default_grace).ok_or_else(|| {
        Error::invalid("a session for one transaction needs a time of grace").hint(
            "Give it, xqueue.identify(grace => '1 min', local => true), or set xqueue.session_grace.",
        )
    })?;
    let uuid = session::new_uuid();
    keep(uuid, user::current(), grace)?;
    session::join(Part::Local, uuid);
    Ok(uuid)
}

/// Joins a session that somebody has identified, or that a connection has.
fn join(uuid: Uuid, grace: Option<Datum>, local: bool) -> Result<Uuid> {
    if !local && session::joined(Part::Own) == Some(uuid) {
        session::leave(Part::Joined);
        return itself(grace);
    }
    // First the connection, then the look: the worker, which does it the other way round, ends no
    // session that has one.
    let part = if local { Part::Local } else { Part::Joined };
    let mut attempt = Attempt { part, before: session::joined(part), admitted: false };
    session::join(part, uuid);
    admit(uuid, grace)?;
    attempt.admitted = true;
    Ok(uuid)
}

/// Undone on drop, in case of an error of the server as well, unless it was admitted.
struct Attempt {
    part: Part,
    before: Option<Uuid>,
    admitted: bool,
}

impl Drop for Attempt {
    fn drop(&mut self) {
        match self.before {
            _ if self.admitted => {}
            Some(before) => session::join(self.part, before),
            None => session::leave(self.part),
        }
    }
}

/// Refuses a session that is not there, or belongs to a role that the current one is no member of;
/// sees to it that one that is there lasts.
fn admit(uuid: Uuid, grace: Option<Datum>) -> Result<()> {
    let now = time::now();
    let Some(known) = store::find(uuid, now)? else {
        let role = sessions::identify(uuid).ok_or_else(|| unknown(uuid))?;
        require_member(Oid::from(role), uuid)?;
        let grace = grace.or_else(default_grace).unwrap_or_else(no_grace);
        return keep(uuid, Oid::from(role), grace);
    };
    require_member(known.role, uuid)?;
    if let Some(grace) = grace {
        keep(uuid, known.role, grace)?;
    } else if known.lease < now.saturating_add(known.grace) {
        store::renew(uuid)?;
    }
    // Until then there is at least the time of grace left, whatever was just renewed.
    let is_endless = known.lease == i64::MAX;
    session::set_renewal(if is_endless { i64::MIN } else { known.lease - known.grace });
    session::note_change();
    Ok(())
}

fn keep(uuid: Uuid, role: Oid, grace: Datum) -> Result<()> {
    if transaction::in_recovery() {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_READ_ONLY_SQL_TRANSACTION,
            "no session can be kept here: this server is a standby",
        )
        .hint("Connect to the primary."));
    }
    store::keep(uuid, role, grace)?;
    session::note_change();
    Ok(())
}

fn require_member(role: Oid, uuid: Uuid) -> Result<()> {
    if user::is_member_of(role) {
        return Ok(());
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        format!("permission denied for session {}", types::uuid_text(uuid)),
    )
    .hint("Only members of the role that has opened a session may join it."))
}

fn unknown(uuid: Uuid) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT,
        format!("session {} does not exist, or not any more", types::uuid_text(uuid)),
    )
    .hint("A session ends with its last connection, or its time of grace later; its tasks are ready again. xqueue.identify(grace => '1 min') opens one that lasts.")
}

/// The setting `xqueue.session_grace`, unless it is zero.
fn default_grace() -> Option<Datum> {
    let grace = guc::session_grace();
    (!grace.is_zero()).then(|| {
        let time = i64::try_from(grace.as_micros()).unwrap_or(i64::MAX);
        types::from_interval(Interval { time, day: 0, month: 0 })
    })
}

fn no_grace() -> Datum {
    types::from_interval(Interval { time: 0, day: 0, month: 0 })
}

/// session_connections(): for the view `xqueue.sessions`.
fn session_connections_impl(call: &Call) -> Result<Datum> {
    session::require_loaded()?;
    let output = Output::open(call);
    for (uuid, pid, role) in sessions::attached() {
        if user::is_member_of(Oid::from(role)) {
            output
                .push(jsonb::from_value(&json!({ "session": types::uuid_text(uuid), "pid": pid })));
        }
    }
    Ok(call.null())
}
