//! The session that this connection acts for: it holds the tasks that the connection takes.
//!
//! Each connection has a session of its own, which ends with it. An identified session outlives its connections by a
//! grace period, see [`store`](crate::parts::leases::store). A connection joins an identified session permanently, or
//! until the end of its transaction.

use crate::error::{Error, Result};
use crate::parts::leases::sessions::{self, Part};
use crate::parts::leases::{held, keepalive};
use crate::parts::schedule::requests;
use crate::server::types::{self, Uuid};
use crate::server::user::{self, Rights};
use crate::server::{callbacks, process, shared_memory, time, worker};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Oid;
use std::cell::Cell;

thread_local! {
    static OWN: Cell<Option<OwnSession>> = const { Cell::new(None) };
    static JOINED: Cell<Option<OwnSession>> = const { Cell::new(None) };
    static LOCAL: Cell<Option<Local>> = const { Cell::new(None) };
    /// A session was opened or joined. The worker is woken at the end of the transaction, when it can see the change.
    static CHANGED: Cell<bool> = const { Cell::new(false) };
    static IS_PREPARED: Cell<bool> = const { Cell::new(false) };
}

/// A session that this connection is allowed to act for.
#[derive(Clone, Copy)]
pub struct OwnSession {
    pub uuid: Uuid,
    /// Role that it belongs to.
    pub role: Oid,
    /// Role for which the right to use the session was last checked.
    checked: Oid,
}

/// A session that was joined until the end of the transaction.
#[derive(Clone, Copy)]
struct Local {
    session: OwnSession,
    /// From this instant on the lease has to be renewed.
    renew_at: i64,
}

/// Raises an error if the library was not loaded at server start.
pub fn require_loaded() -> Result<()> {
    if shared_memory::is_available() { Ok(()) } else { Err(Error::not_loaded()) }
}

/// In order of precedence.
const ACTS_FOR: [Part; 3] = [Part::Local, Part::Joined, Part::Own];

/// Returns the session that this connection acts for, and registers it. When the session ends, the tasks that it takes
/// from now on are given back.
pub fn current() -> Result<Uuid> {
    Ok(acting()?.uuid)
}

/// Returns the session that this connection acts for, with the role that it belongs to.
pub fn acting() -> Result<OwnSession> {
    refuse_restricted()?;
    let known = ACTS_FOR.into_iter().find_map(|part| Some((part, session(part)?)));
    let role = user::outer();
    match known {
        Some((_, session)) if session.checked == role => Ok(session),
        Some((part, session)) => check(part, session, role),
        None => open_own(role),
    }
}

/// Refuses code that must not reach the session of the connection that runs it, such as an index expression. The tasks
/// that such code takes would stay with that connection, and it could give back tasks that are in progress there. A
/// worker of xqueue has no such connection.
pub fn refuse_restricted() -> Result<()> {
    if !matches!(user::rights(), Rights::Restricted) || worker::is_own() {
        return Ok(());
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        "cannot use the session of the connection within a security-restricted operation",
    )
    .hint("Call it as a statement of its own, not in REFRESH MATERIALIZED VIEW, ANALYZE or an index expression."))
}

/// Returns the session that this connection acts for, if it has acted for one already.
pub fn current_if_any() -> Option<Uuid> {
    ACTS_FOR.into_iter().find_map(joined)
}

/// Returns the session that the connection joined as `part`, if there is one.
pub fn joined(part: Part) -> Option<Uuid> {
    session(part).map(|session| session.uuid)
}

fn session(part: Part) -> Option<OwnSession> {
    match part {
        Part::Own => OWN.get(),
        Part::Joined => JOINED.get(),
        Part::Local => LOCAL.get().map(|local| local.session),
        Part::Candidate => None,
    }
}

/// Returns the connection's own session, if there is one, after checking that the current role is allowed to use it.
pub fn own() -> Result<Option<OwnSession>> {
    OWN.get().map(|session| check(Part::Own, session, user::outer())).transpose()
}

/// Checks whether the connection, whose role has changed, is allowed to act for a session.
fn check(part: Part, session: OwnSession, role: Oid) -> Result<OwnSession> {
    let mut session = OwnSession { checked: role, ..session };
    let login = user::authenticated();
    let is_own = part == Part::Own;
    // If several roles use a session, none of them can join it.
    if is_own
        && role != session.role
        && session.role != login
        && sessions::give_own_to(login.into())
    {
        session.role = login;
    }
    if !(is_own && session.role == login || user::may_act_as(role, session.role)) {
        return Err(denied(session.uuid).hint(
            "The connection has come to this session as another role: RESET ROLE, or DISCARD ALL, which leaves it.",
        ));
    }
    match part {
        Part::Own => OWN.set(Some(session)),
        Part::Joined => JOINED.set(Some(session)),
        Part::Local => LOCAL.set(LOCAL.get().map(|local| Local { session, ..local })),
        Part::Candidate => {}
    }
    Ok(session)
}

/// Returns the error for a role that is not allowed to act for a session.
pub fn denied(uuid: Uuid) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        format!("permission denied for session {}", types::uuid_text(uuid)),
    )
}

/// Returns whether a session is the connection's own or one that it has joined.
pub fn is_joined_to(uuid: Uuid) -> bool {
    ACTS_FOR.into_iter().any(|part| joined(part) == Some(uuid))
}

/// Returns whether the session that this connection acts for can outlive it, with its leases.
pub fn outlives_connection() -> bool {
    is_joined() || sessions::own_is_identified()
}

/// Returns whether this connection acts for a session that it has joined.
pub fn is_joined() -> bool {
    [Part::Local, Part::Joined].into_iter().any(|part| joined(part).is_some())
}

/// Opens the connection's own session for the current role.
fn open_own(role: Oid) -> Result<OwnSession> {
    if worker::is_own() {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            "a background worker of xqueue has no session that could take tasks",
        )
        .hint("Triggers that it runs may put tasks; take, ack and release them on a connection."));
    }
    let session = OwnSession { uuid: new_uuid(), role, checked: role };
    prepare();
    sessions::attach(Part::Own, session.uuid, role.into(), false);
    OWN.set(Some(session));
    Ok(session)
}

/// Joins an identified session of a role that the current role can act as, permanently or until the end of the
/// transaction. The session joined before as the same `part` is left.
pub fn join(part: Part, uuid: Uuid, role: Oid) {
    prepare();
    if joined(part) == Some(uuid) {
        return;
    }
    leave(part);
    let checked = user::outer();
    sessions::attach(part, uuid, checked.into(), true);
    let session = OwnSession { uuid, role, checked };
    match part {
        Part::Local => LOCAL.set(Some(Local { session, renew_at: i64::MIN })),
        _ => JOINED.set(Some(session)),
    }
}

/// Sets the instant before which the lease of the session joined for this transaction needs no renewal.
pub fn set_renewal(instant: i64) {
    LOCAL.set(LOCAL.get().map(|local| Local { renew_at: instant, ..local }));
}

/// Attaches this connection to a session before checking whether the connection is allowed to join it, so that the
/// session does not end in between.
pub fn propose(uuid: Uuid) {
    prepare();
    sessions::attach(Part::Candidate, uuid, user::outer().into(), true);
}

/// Ends the attachment that `propose` began. If the session must not be joined, the worker is asked to check its lease.
/// The session is reported, too, because the worker forgets an ended session to which a connection is attached.
pub fn withdraw(may_join: bool) {
    sessions::detach(Part::Candidate, !may_join, None);
    if !may_join {
        note_change();
    }
}

/// Leaves the session that the connection joined as `part`.
pub fn leave(part: Part) {
    let left = match part {
        Part::Own => OWN.take().is_some(),
        Part::Joined => JOINED.take().is_some(),
        Part::Local => LOCAL.take().is_some(),
        Part::Candidate => false,
    };
    if left && part == Part::Own {
        sessions::detach(part, true, held::queues().as_deref());
        held::clear();
    } else if left {
        sessions::detach(part, true, None);
    }
}

/// Records that an identified session was opened or joined.
pub fn note_change() {
    CHANGED.set(true);
}

/// Leaves the session joined for the transaction. Must neither allocate nor fail.
pub fn transaction_ended() {
    if CHANGED.take() {
        requests::request(process::database().into(), |requests| requests.sessions = true);
    }
    held::transaction_ended();
    if let Some(local) = LOCAL.take() {
        sessions::detach(Part::Local, time::now() >= local.renew_at, None);
    }
}

/// Leaves all sessions. The leases of the connection's own session are given back, unless it is identified. The next
/// use opens a new session.
pub fn end() {
    [Part::Local, Part::Joined, Part::Own].into_iter().for_each(leave);
    // A process that is terminated while it is admitted to a session reports it here, instead of in `withdraw`.
    sessions::detach(Part::Candidate, true, None);
}

/// Returns the process that made a session's identifier.
pub fn pid(uuid: Uuid) -> i32 {
    i32::from_be_bytes([uuid[0], uuid[1], uuid[2], uuid[3]])
}

/// Returns a new identifier that contains this process's pid.
pub fn new_uuid() -> Uuid {
    uuid_of(process::pid(), process::random())
}

/// Makes a uuid of version 8: the pid in the first four bytes, random bits in the others.
fn uuid_of(pid: i32, random: [u8; 16]) -> Uuid {
    let mut uuid = random;
    uuid[..4].copy_from_slice(&pid.to_be_bytes());
    uuid[6] = 0x80 | (uuid[6] & 0x0f);
    uuid[8] = 0x80 | (uuid[8] & 0x3f);
    uuid
}

/// Prepares this process, once, for acting for a session.
fn prepare() {
    if !IS_PREPARED.replace(true) {
        callbacks::at_exit(ended, 0);
        keepalive::begin();
    }
}

/// Runs at every end of the process except a crash. The transaction has ended, so the rows are unlocked. The worker
/// gives the tasks back, because a wait in this callback could not be cancelled.
fn ended(_argument: u32) {
    end();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pid_can_be_read_from_the_uuid() {
        for number in [1, 4242, i32::MAX] {
            let uuid = uuid_of(number, [0xff; 16]);
            assert_eq!(pid(uuid), number);
            assert_eq!(uuid[6] >> 4, 8);
            assert_eq!(uuid[8] >> 6, 2);
        }
    }
}
