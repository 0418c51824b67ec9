//! Sessions in shared memory: which processes are attached to which sessions, and which sessions were left.
//!
//! Everything is guarded by the directory's lock, except [`Flags`]. The races:
//!
//! 1. A connection's own session is identified while the connection commits takes without a flush. Each side sets its
//!    flag and then reads the other's: either the commit is flushed, or [`identify`] waits until it has ended.
//! 2. A recount sees a transaction whose callback has not updated the counters yet. [`set_committing`] publishes the
//!    transaction before it is visible, and [`committing`] lets the recount wait for it.
//! 3. A session is given a task by hand after it has ended. [`look_after`], called after the commit, lists it for the
//!    worker again unless a connection is attached to it.

use crate::parts::leases::departed::{DEPARTED, HeldLeases};
use crate::parts::leases::epoch;
use crate::parts::locks::{Directory, DirectoryLock, directory};
use crate::parts::schedule::requests;
use crate::server::shared_memory::{Guarded, Shared, Zeroed};
use crate::server::types::Uuid;
use crate::server::{latch, process};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use xqueue_core::slot_id::SlotId;

/// How a connection came to a session; it has at most one session of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The connection's own.
    Own,
    /// Joined.
    Joined,
    /// Joined until the end of the transaction.
    Local,
    /// Checked for permission before it is joined.
    Candidate,
}

const PARTS: usize = 4;

/// A process's entry, at the index of the process.
#[repr(C)]
pub struct Session {
    attached: [Attached; PARTS],
    database: u32,
    pid: i32,
    /// The connection's own session can hold unrecorded tasks.
    own_is_distrusted: bool,
    /// Invalidation epoch at session start.
    epoch: u64,
}

/// State of a process that is accessed without the lock, at the index of the process.
#[repr(C)]
pub struct Flags {
    /// Transaction that is committing changes of queues and has not updated the counters yet; otherwise 0.
    committing: AtomicU32,
    /// The connection's own session has been identified.
    own_is_identified: AtomicBool,
    /// A commit in progress relies on the session not being identified.
    is_passing: AtomicBool,
}

// SAFETY: numbers and bools.
unsafe impl Zeroed for Session {}
// SAFETY: as above.
unsafe impl Zeroed for Flags {}

pub(in crate::parts) static SESSIONS: Guarded<Session, DirectoryLock> = Guarded::new();
pub(in crate::parts) static FLAGS: Shared<Flags> = Shared::new();

#[repr(C)]
#[derive(Clone, Copy)]
struct Attached {
    live: bool,
    /// The session can outlive the connection: it is in the table `xqueue.session`.
    identified: bool,
    /// The worker waits until the connection has left: the session's lease has expired.
    is_awaited: bool,
    uuid: Uuid,
    /// Role that the connection's own session belongs to, or the role that joined another session.
    role: u32,
}

/// Attaches this process to a session.
pub fn attach(part: Part, uuid: Uuid, role: u32, identified: bool) {
    let mut directory = directory();
    let (epoch, _) = epoch::now(&directory);
    if let Some(session) = SESSIONS.get_mut(&mut directory).get_mut(process::index() as usize) {
        session.database = u32::from(process::database());
        session.pid = process::pid();
        session.attached[part as usize] =
            Attached { live: true, identified, is_awaited: false, uuid, role };
        if part == Part::Own {
            session.own_is_distrusted = false;
            session.epoch = epoch;
            let flags = flags(process::index() as usize);
            flags.own_is_identified.store(identified, Ordering::SeqCst);
            flags.is_passing.store(false, Ordering::SeqCst);
        }
    }
}

/// Leaves a session. If it was joined until the end of the transaction, or not joined after all, the worker checks its
/// lease only with `renews`, or if the worker awaits the end. `queues`: the queues in which the own
/// session can hold tasks, if they are known.
pub fn detach(part: Part, renews: bool, queues: Option<&[SlotId]>) {
    let mut directory = directory();
    let (epoch, has_untracked) = epoch::now(&directory);
    let mut sessions = SESSIONS.get_mut(&mut directory).iter_mut();
    let Some(session) = sessions.nth(process::index() as usize) else { return };
    let (attached, database) = (&mut session.attached[part as usize], session.database);
    let renews = renews || attached.is_awaited;
    if !std::mem::replace(&mut attached.live, false) || !renews {
        return;
    }
    let Attached { uuid, identified, .. } = *attached;
    let since = session.epoch;
    // Other connections that joined the session might have taken more tasks.
    let is_known = !identified && !session.own_is_distrusted;
    let held = queues.filter(|_| is_known).and_then(|queues| HeldLeases::of(queues, since));
    let is_sure = since == epoch && !has_untracked;
    if is_sure && held.is_some_and(|held| held.is_empty()) {
        return;
    }
    let is_kept = DEPARTED.get_mut(&mut directory)[0].push(database, (uuid, identified), held);
    requests::look_for_departed(&mut directory, database, is_kept);
}

/// Records that a connection's own session can hold unrecorded tasks. Returns false if the session does not exist, or
/// has ended and is no longer listed.
pub fn distrust(uuid: Uuid) -> bool {
    let mut directory = directory();
    match find_own(&mut directory, uuid) {
        Some((_, session)) => {
            session.own_is_distrusted = true;
            true
        }
        None => DEPARTED.get_mut(&mut directory)[0].distrust(uuid),
    }
}

/// Reports a session that was given tasks to the worker, unless a connection is attached to it. Must neither allocate
/// nor fail.
pub fn look_after(uuid: Uuid) {
    let (mut directory, database) = (directory(), u32::from(process::database()));
    let is_attached = |session: &Session| {
        let mut attached = session.attached.iter();
        attached.any(|attached| attached.live && attached.uuid == uuid)
    };
    let mut sessions =
        SESSIONS.get(&directory).iter().filter(|session| session.database == database);
    if sessions.any(is_attached) {
        return;
    }
    // The session might have been identified before its end.
    let is_kept = DEPARTED.get_mut(&mut directory)[0].push(database, (uuid, true), None);
    requests::look_for_departed(&mut directory, database, is_kept);
}

/// Returns the invalidation epoch since which this connection's own session knows its leases. Returns None if it does
/// not know them, or outlives the connection.
pub fn own_is_sure_since() -> Option<u64> {
    let directory = directory();
    let session = SESSIONS.get(&directory).get(process::index() as usize)?;
    let own = &session.attached[Part::Own as usize];
    let is_sure = own.live && !own.identified && !session.own_is_distrusted;
    is_sure.then_some(session.epoch)
}

/// Returns the role that a connection's own session belongs to; None if there is no such session in this database.
pub fn role_of_own(uuid: Uuid) -> Option<u32> {
    let mut directory = directory();
    find_own(&mut directory, uuid).map(|(_, session)| session.attached[Part::Own as usize].role)
}

/// Hands this connection's own session to another role. Returns false, and changes nothing, if the session can outlive
/// the connection.
pub fn give_own_to(role: u32) -> bool {
    let mut directory = directory();
    let mut sessions = SESSIONS.get_mut(&mut directory).iter_mut();
    let Some(session) = sessions.nth(process::index() as usize) else { return false };
    let own = &mut session.attached[Part::Own as usize];
    if !own.identified {
        own.role = role;
    }
    !own.identified
}

/// Records that a connection's own session, which belongs to `role`, can outlive it. Returns false if the session does
/// not exist, or has ended.
pub fn identify(uuid: Uuid, role: u32) -> bool {
    let Some(process) = note_identified(uuid, role) else { return false };
    // The session's later commits are flushed. A commit without a flush that is in progress precedes the commit of the
    // identifying transaction in the WAL, and is flushed with it.
    while flags(process).is_passing.load(Ordering::SeqCst) {
        latch::wait(latch::Reason::Other, Some(Duration::from_millis(1)), false);
    }
    true
}

/// Marks the session as identified and returns the index of the connection's process.
fn note_identified(uuid: Uuid, role: u32) -> Option<usize> {
    let mut directory = directory();
    let (process, session) = find_own(&mut directory, uuid)?;
    let own = &mut session.attached[Part::Own as usize];
    if own.role != role {
        return None;
    }
    own.identified = true;
    flags(process).own_is_identified.store(true, Ordering::SeqCst);
    Some(process)
}

/// Returns the connection to this database that owns the session.
fn find_own(directory: &mut Directory, uuid: Uuid) -> Option<(usize, &mut Session)> {
    let database = u32::from(process::database());
    SESSIONS.get_mut(directory).iter_mut().enumerate().find(|(_, session)| {
        let own = &session.attached[Part::Own as usize];
        session.database == database && own.live && own.uuid == uuid
    })
}

/// Records that this process's transaction begins to commit changes of queues. With 0 it records that the counters
/// include them.
pub fn set_committing(xid: u32) {
    flags(process::index() as usize).committing.store(xid, Ordering::SeqCst);
}

/// Returns the processes with a transaction for which `is_seen` holds and that has not updated the counters yet.
pub fn committing(is_seen: impl Fn(u32) -> bool) -> impl Iterator<Item = usize> {
    let is_committing = move |flags: &Flags| {
        let xid = flags.committing.load(Ordering::SeqCst);
        xid != 0 && is_seen(xid)
    };
    let all = FLAGS.get().iter().enumerate();
    all.filter(move |(_, flags)| is_committing(flags)).map(|(process, _)| process)
}

/// Returns whether this connection's own session can outlive it; any session might have identified it.
pub fn own_is_identified() -> bool {
    flags(process::index() as usize).own_is_identified.load(Ordering::SeqCst)
}

/// Makes attempts to identify this connection's own session wait until `end_passing`. Returns false if it is identified
/// already.
pub fn begin_passing() -> bool {
    let flags = flags(process::index() as usize);
    flags.is_passing.store(true, Ordering::SeqCst);
    let is_passing = !flags.own_is_identified.load(Ordering::SeqCst);
    flags.is_passing.store(is_passing, Ordering::SeqCst);
    is_passing
}

/// Ends a commit begun by `begin_passing`. Must neither allocate nor fail.
pub fn end_passing() {
    flags(process::index() as usize).is_passing.store(false, Ordering::SeqCst);
}

fn flags(process: usize) -> &'static Flags {
    let flags = FLAGS.get();
    &flags[process % flags.len()]
}

/// Calls `see` for each session of this database with a connection, and its process, under the lock.
fn for_each_here(mut see: impl FnMut(Part, &Attached, i32)) {
    let database = u32::from(process::database());
    let directory = directory();
    for session in SESSIONS.get(&directory).iter().filter(|session| session.database == database) {
        for part in [Part::Own, Part::Joined, Part::Local, Part::Candidate] {
            let attached = &session.attached[part as usize];
            if attached.live {
                see(part, attached, session.pid);
            }
        }
    }
}

/// Returns the uuids to which no connection to this database is attached. A restored dump contains tasks of sessions of
/// other databases.
pub fn not_attached(mut uuids: Vec<Uuid>) -> Vec<Uuid> {
    for_each_here(|_, attached, _| uuids.retain(|uuid| *uuid != attached.uuid));
    uuids
}

/// Makes the connections that are attached to sessions report it when they leave. Returns the sessions to which no
/// connection is attached.
pub fn await_end(uuids: Vec<Uuid>) -> Vec<Uuid> {
    if uuids.is_empty() {
        return uuids;
    }
    let (mut directory, database) = (directory(), u32::from(process::database()));
    let sessions = SESSIONS.get_mut(&mut directory).iter_mut();
    for session in sessions.filter(|session| session.database == database) {
        for attached in &mut session.attached {
            attached.is_awaited |= attached.live && uuids.contains(&attached.uuid);
        }
    }
    drop(directory);
    not_attached(uuids)
}

/// Returns whether a connection to this database was admitted to a session and is still attached to it.
pub fn is_attended(uuid: Uuid) -> bool {
    let mut is_attended = false;
    // Two candidates must not admit each other: the worker can be deleting the session.
    for_each_here(|part, attached, _| {
        is_attended |= part != Part::Candidate && attached.uuid == uuid;
    });
    is_attended
}

/// Returns the identified sessions of this database that have connections: the permanently joined ones, and the ones
/// joined until the end of a transaction.
pub fn identified() -> (Vec<Uuid>, Vec<Uuid>) {
    let room = SESSIONS.len();
    let (mut lasting, mut passing) = (Vec::with_capacity(2 * room), Vec::with_capacity(2 * room));
    for_each_here(|part, attached, _| match part {
        _ if !attached.identified => {}
        Part::Local | Part::Candidate => passing.push(attached.uuid),
        Part::Own | Part::Joined => lasting.push(attached.uuid),
    });
    (lasting, passing)
}

/// Returns all sessions of this database that have connections: identifier, process, and the role that attached it.
pub fn attached() -> Vec<(Uuid, i32, u32)> {
    let mut found = Vec::with_capacity(PARTS * SESSIONS.len());
    for_each_here(|_, attached, pid| found.push((attached.uuid, pid, attached.role)));
    found
}

/// Returns a process that is attached to a session.
pub fn pid_of(uuid: Uuid) -> Option<i32> {
    let mut found = None;
    for_each_here(|_, attached, pid| {
        if attached.uuid == uuid {
            found = Some(pid);
        }
    });
    found
}
