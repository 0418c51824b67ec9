//! `identify`: the session that a connection acts for, and sessions that outlive connections.
//!
//! A uuid is no credential: the owner column shows it to every reader of a queue. Access depends on membership in the
//! role that opened the session. Only code with the connection's own rights can change the session that the connection
//! acts for, just as only such code can SET ROLE.

use crate::api::argument;
use crate::error::{self, Error, Result};
use crate::parts::leases::held;
use crate::parts::leases::session::{self, OwnSession};
use crate::parts::leases::sessions::{self, Part};
use crate::parts::leases::store::{self, Known};
use crate::server::function::{Call, Output};
use crate::server::types::{self, Uuid};
use crate::server::user::{self, Rights};
use crate::server::value::Value;
use crate::server::{catalog, jsonb, process, time, xact};
use crate::{settings, sql_functions, transaction};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::{Interval, Oid};
use serde_json::json;

sql_functions! {
    "identify" as identify, pg_finfo_identify(
        session: uuid = NULL, grace: interval = NULL, local: boolean = false,
    ) -> uuid => identify_impl;
    "session_connections" as session_connections, pg_finfo_session_connections() -> [jsonb]
        => session_connections_impl;
}

fn identify_impl(call: &Call) -> Result<Option<Value<'_>>> {
    session::require_loaded()?;
    require_connection()?;
    let grace = argument::duration(call, arg::identify::grace)?;
    let grace = grace.map(|(interval, length)| Grace { interval, length });
    grace.map_or(Ok(()), Grace::require_allowed)?;
    let local = call.require(arg::identify::local)?;
    let uuid = match (call.get(arg::identify::session), local) {
        (Some(uuid), false) if session::joined(Part::Own) == Some(uuid) => own(uuid, grace)?,
        (Some(uuid), _) => join(uuid, grace, local)?,
        (None, true) => open_until_end(grace)?,
        (None, false) => itself(grace)?,
    };
    Ok(Some(Value::uuid(uuid)))
}

/// Refuses processes that serve no client, and code that must not reach the surrounding connection.
fn require_connection() -> Result<()> {
    const FUNCTION: &str = "xqueue.identify()";
    if !process::serves_client() {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            format!("{FUNCTION} works only in the connection of a client"),
        )
        .hint("A background process, such as one that runs triggers for the queue's worker, joins no session."));
    }
    session::refuse_restricted()
}

/// Refuses to change the acting session for code that runs with rights other than the connection's.
fn require_own_rights() -> Result<()> {
    if matches!(user::rights(), Rights::Own) {
        return Ok(());
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        "a security-definer function cannot change the session that the connection acts for",
    )
    .hint("Call xqueue.identify() before that function: it needs no privilege but membership of the session's role."))
}

/// A grace period and its length in microseconds.
#[derive(Clone, Copy)]
struct Grace {
    interval: Interval,
    length: i64,
}

impl Grace {
    fn of(length: i64) -> Grace {
        Grace { interval: Interval { time: length, day: 0, month: 0 }, length }
    }

    /// Returns the setting `xqueue.session_grace`, capped at the allowed maximum; None if it is zero.
    fn by_default() -> Option<Grace> {
        let length = i64::try_from(settings::session_grace().as_micros()).unwrap_or(i64::MAX);
        let length = length.min(Grace::longest());
        (length > 0).then(|| Grace::of(length))
    }

    /// Returns the longest grace period that the current role is allowed to set, in microseconds.
    fn longest() -> i64 {
        match user::is_superuser(user::current()) {
            true => i64::MAX,
            false => i64::try_from(settings::max_session_grace().as_micros()).unwrap_or(i64::MAX),
        }
    }

    fn require_allowed(self) -> Result<()> {
        if self.length <= Grace::longest() {
            return Ok(());
        }
        let longest = match settings::max_session_grace().as_secs() {
            seconds if seconds > 0 && seconds % 86_400 == 0 => format!("{} days", seconds / 86_400),
            seconds => format!("{seconds} s"),
        };
        Err(Error::invalid(format!("grace must not be longer than {longest}")).hint(
            "Give a shorter time; a superuser can change the setting xqueue.max_session_grace.",
        ))
    }
}

/// Returns the session that this connection acts for; keeps it beyond the connection if it gets a grace period.
fn itself(grace: Option<Grace>) -> Result<Uuid> {
    let session = session::acting()?;
    let is_own = session::joined(Part::Own) == Some(session.uuid);
    if let Some(grace) = grace.or_else(|| Grace::by_default().filter(|_| is_own)) {
        require_own_rights()?;
        keep_joined(session, grace)?;
    }
    Ok(session.uuid)
}

/// Returns to the connection's own session.
fn own(uuid: Uuid, grace: Option<Grace>) -> Result<Uuid> {
    require_own_rights()?;
    let session = session::own()?;
    leave(Part::Joined);
    if let Some((session, grace)) = session.zip(grace.or_else(Grace::by_default)) {
        keep_joined(session, grace)?;
    }
    Ok(uuid)
}

/// Keeps a session that this connection acts for. Its role does not change.
fn keep_joined(session: OwnSession, grace: Grace) -> Result<()> {
    if store::living(session.uuid).is_none() {
        require_place(session.role, 1)?;
    }
    let role = match session::joined(Part::Own) == Some(session.uuid) {
        true => sessions::identify(session.uuid, session.role.into()).then_some(session.role),
        false => identify_live(session.uuid)?,
    };
    keep(session.uuid, role.unwrap_or(session.role), grace)
}

/// Opens a session that this connection acts for until the end of the transaction. Returns the transaction's existing
/// session if no rollback to a savepoint has undone its opening.
fn open_until_end(grace: Option<Grace>) -> Result<Uuid> {
    require_own_rights()?;
    if let Some(uuid) = session::joined(Part::Local) {
        if store::living(uuid).is_some() {
            return itself(grace);
        }
        leave(Part::Local);
    }
    let grace = grace.or_else(Grace::by_default).ok_or_else(|| {
        Error::invalid("a session for one transaction needs a grace period").hint(
            "Give it, xqueue.identify(grace => '1 min', local => true), or set xqueue.session_grace.",
        )
    })?;
    let (uuid, role) = (session::new_uuid(), user::outer());
    keep(uuid, role, grace)?;
    session::join(Part::Local, uuid, role);
    Ok(uuid)
}

/// Joins an identified session, or another connection's own session.
fn join(uuid: Uuid, grace: Option<Grace>, local: bool) -> Result<Uuid> {
    require_own_rights()?;
    if xact::has_fixed_snapshot() {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            "cannot join a session in a transaction of isolation level repeatable read or higher",
        )
        .detail("It would not see whether the session has ended.")
        .hint("Use read committed."));
    }
    // Checked first without side effects, so that refused calls keep no session alive.
    if let Some(known) = store::await_living(uuid) {
        require_member(known.role, uuid)?;
    } else {
        let role = sessions::role_of_own(uuid).map(Oid::from).ok_or_else(|| unknown(uuid))?;
        require_member(role, uuid)?;
        require_place(role, 1)?;
    }
    // Attaches before it reads the session. The worker works in the opposite order, so it never ends a session that
    // has a connection.
    let mut proposal = Proposal::of(uuid);
    let Admission { role, renew_at } = admit(uuid, grace)?;
    proposal.admitted = true;
    if local {
        change_to(Part::Local, uuid, role);
        // At least the grace period is left until this instant, even if nothing was renewed just now.
        session::set_renewal(renew_at);
    } else {
        warn_of_tasks_left();
        change_to(Part::Joined, uuid, role);
        // Tells the worker that the session's lease has no end from now on. A session joined for a transaction keeps
        // its lease, so the worker is not notified each time.
        session::note_change();
    }
    Ok(uuid)
}

/// Joins a session as `part`, and leaves the one joined as `part` before.
fn change_to(part: Part, uuid: Uuid, role: Oid) {
    if session::joined(part) != Some(uuid) {
        leave(part);
    }
    session::join(part, uuid, role);
}

/// Leaves the session joined as `part`. It can end before the open transaction commits tasks for it, when the worker
/// does not see them yet. So the commit reports the session again.
fn leave(part: Part) {
    if let Some(left) = session::joined(part) {
        transaction::note_left(left);
    }
    session::leave(part);
}

/// Warns that tasks taken by the connection's own session stay with it. They are not released, because the client can
/// still be working on them.
fn warn_of_tasks_left() {
    let own = session::joined(Part::Own).filter(|_| session::joined(Part::Joined).is_none());
    let Some(own) = own.map(types::uuid_text) else { return };
    let tasks = held::count().map(|count| transaction::held().applied_to(count));
    let message = match tasks {
        Some(0) => return,
        Some(count) => {
            let tasks = error::tasks(i64::try_from(count).unwrap_or(i64::MAX), "taken");
            format!("this connection's own session may still hold {tasks}")
        }
        None => "this connection's own session may still hold tasks".into(),
    };
    Error::new(PgSqlErrorCode::ERRCODE_WARNING, message)
        .detail(format!("They stay taken by session {own}, and are ready again when that ends."))
        .hint(format!(
            "Ack or release them before xqueue.identify(); SELECT xqueue.identify('{own}'); goes back to them."
        ))
        .warn();
}

/// An attachment to a session not joined yet; withdrawn on drop, also after a server error.
struct Proposal {
    admitted: bool,
}

impl Proposal {
    fn of(uuid: Uuid) -> Proposal {
        session::propose(uuid);
        Proposal { admitted: false }
    }
}

impl Drop for Proposal {
    fn drop(&mut self) {
        session::withdraw(self.admitted);
    }
}

/// Admission of the caller to a session.
struct Admission {
    role: Oid,
    /// The lease need not be renewed before this instant (µs).
    renew_at: i64,
}

/// Admits the current role to a session and makes sure that the session lasts. Refuses unknown sessions, and sessions
/// of roles of which the current role is not a member.
fn admit(uuid: Uuid, grace: Option<Grace>) -> Result<Admission> {
    let Some(known) = store::await_living(uuid) else {
        let role = identify_live(uuid)?.ok_or_else(|| unknown(uuid))?;
        let grace = grace.or_else(Grace::by_default).unwrap_or(Grace::of(0));
        keep(uuid, role, grace)?;
        return Ok(Admission { role, renew_at: i64::MIN });
    };
    require_member(known.role, uuid)?;
    match grace {
        Some(grace) => keep(uuid, known.role, grace)?,
        None => renew(uuid, &known)?,
    }
    // A changed grace period can end the lease sooner, and a savepoint can undo the transaction's own renewal.
    let is_unsure = known.lease == i64::MAX || grace.is_some() || known.is_own;
    let renew_at = if is_unsure { i64::MIN } else { known.lease.saturating_sub(known.grace) };
    Ok(Admission { role: known.role, renew_at })
}

/// Notes that another connection's own session can outlive its connection, if the current role is allowed to join it.
/// Returns the session's role; None if no such session exists.
fn identify_live(uuid: Uuid) -> Result<Option<Oid>> {
    while let Some(role) = sessions::role_of_own(uuid) {
        require_member(Oid::from(role), uuid)?;
        // The session can have changed role since.
        if sessions::identify(uuid, role) {
            return Ok(Some(Oid::from(role)));
        }
    }
    Ok(None)
}

/// Stores a session with this grace period, or extends the stored one.
fn keep(uuid: Uuid, role: Oid, grace: Grace) -> Result<()> {
    if xact::in_recovery() {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_READ_ONLY_SQL_TRANSACTION,
            "no session can be kept here: this server is a standby",
        )
        .hint("Connect to the primary."));
    }
    match store::living(uuid) {
        Some(known) if known.grace == grace.length => return renew(uuid, &known),
        Some(_) => {
            if !store::set_grace(uuid, Value::interval(grace.interval))? {
                warn_of_locked(uuid);
            }
        }
        None => {
            store::keep(uuid, role, Value::interval(grace.interval))?;
            // Checked again, because other connections of the role can have opened sessions concurrently. If several
            // pass the first check simultaneously, at least the last one sees the others.
            require_place(role, 0)?;
        }
    }
    session::note_change();
    Ok(())
}

/// Warns that a session keeps its grace period, because another transaction holds the session's row.
fn warn_of_locked(uuid: Uuid) {
    let message = format!("the grace period of session {} is unchanged", types::uuid_text(uuid));
    Error::new(PgSqlErrorCode::ERRCODE_WARNING, message)
        .detail("Another transaction has changed it and is still open, or it is newer than the snapshot.")
        .hint("Call xqueue.identify() with this grace again in a later transaction.")
        .warn();
}

/// Refuses new sessions beyond the role's limit.
fn require_place(role: Oid, new: usize) -> Result<()> {
    let limit = settings::max_sessions_per_role();
    if user::is_superuser(role) || store::count_of(role, limit.saturating_add(1)) + new <= limit {
        return Ok(());
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
        format!("role \"{}\" may have no more than {limit} identified sessions", catalog::role_name(role)),
    )
    .detail("A session ends when its last connection has been gone for its grace period.")
    .hint(
        "Join sessions that are there, see xqueue.sessions, or let them end by xqueue.identify(uuid, grace => '0'). \
         A superuser can change the setting xqueue.max_sessions_per_role.",
    ))
}

fn renew(uuid: Uuid, known: &Known) -> Result<()> {
    if known.lease < time::now().saturating_add(known.grace) {
        store::renew(uuid)?;
    }
    Ok(())
}

fn require_member(role: Oid, uuid: Uuid) -> Result<()> {
    match user::may_act_as(user::current(), role) {
        true => Ok(()),
        false => Err(session::denied(uuid)
            .hint("Only members of the role that has opened a session may join it.")),
    }
}

fn unknown(uuid: Uuid) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT,
        format!("session {} does not exist, or not any more", types::uuid_text(uuid)),
    )
    .hint("A session ends with its last connection, or its grace period later; its tasks are ready again. xqueue.identify(grace => '1 min') opens one that lasts.")
}

/// Returns the rows of view `xqueue.sessions`.
fn session_connections_impl(call: &Call) -> Result<Option<Value<'_>>> {
    session::require_loaded()?;
    let output = Output::open(call);
    for (uuid, pid, role) in sessions::attached() {
        if user::may_act_as(user::current(), Oid::from(role)) {
            output
                .push(jsonb::from_value(&json!({ "session": types::uuid_text(uuid), "pid": pid })));
        }
    }
    Ok(None)
}
