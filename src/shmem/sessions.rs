//! The sessions that take tasks: which are alive, and which have ended and left tasks behind.

use super::databases;
use crate::pg::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many ended sessions are remembered; when there are more, the worker looks at all tasks.
const ENDED_LIMIT: usize = 4096;

/// A session's entry, at the index of its process.
#[repr(C)]
pub struct Session {
    live: bool,
    uuid: [u8; 16],
    database: u32,
    /// The transaction that has begun to commit changes of queues and has not told the counters
    /// yet; 0 if there is none.
    committing: AtomicU32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Ended {
    uuid: [u8; 16],
    database: u32,
}

#[repr(C)]
pub struct EndedList {
    count: u32,
    entries: [Ended; ENDED_LIMIT],
}

/// Makes `uuid` the live session of this process.
pub fn open(uuid: [u8; 16]) {
    let directory = super::directory();
    if let Some(session) = directory.sessions.get_mut(process::index() as usize) {
        session.live = true;
        session.uuid = uuid;
        session.database = u32::from(process::database());
    }
}

/// Ends this process's session; what it had taken in `database` is to be given back.
pub fn close(database: u32) {
    let mut directory = super::directory();
    let Some(session) = directory.sessions.get_mut(process::index() as usize) else { return };
    if !std::mem::replace(&mut session.live, false) {
        return;
    }
    let uuid = session.uuid;
    let ended = &mut directory.header.ended;
    match ended.entries.get_mut(ended.count as usize) {
        Some(entry) => {
            *entry = Ended { uuid, database };
            ended.count += 1;
        }
        None => databases::request_sweep(&mut directory, database),
    }
    databases::wake_worker(&directory, database);
}

/// Says that this process's transaction begins to commit changes of queues, or, with 0, that the
/// counters know of them.
pub fn set_committing(xid: u32) {
    committing(process::index() as usize).store(xid, Ordering::SeqCst);
}

/// Whether a transaction that `is_seen` has not told the counters yet.
pub fn any_committing(is_seen: impl Fn(u32) -> bool) -> bool {
    (0..super::segment().process_count)
        .map(|process| committing(process).load(Ordering::SeqCst))
        .any(|xid| xid != 0 && is_seen(xid))
}

fn committing(process: usize) -> &'static AtomicU32 {
    let segment = super::segment();
    // SAFETY: the index is kept inside the array; the field is atomic and read without a lock.
    unsafe { &(*segment.sessions.add(process % segment.process_count)).committing }
}

/// Takes the ended sessions of `database` off the list.
pub fn drain_ended(database: u32) -> Vec<[u8; 16]> {
    let mut drained = Vec::with_capacity(ENDED_LIMIT);
    let directory = super::directory();
    let ended = &mut directory.header.ended;
    let mut kept = 0;
    for index in 0..ended.count as usize {
        let entry = ended.entries[index];
        if entry.database == database {
            drained.push(entry.uuid);
        } else {
            ended.entries[kept] = entry;
            kept += 1;
        }
    }
    ended.count = kept as u32;
    drained
}

/// Those of `uuids` that belong to no live session of this database. A dump restored into another
/// one brings tasks of sessions that live elsewhere.
pub fn not_live(uuids: Vec<[u8; 16]>) -> Vec<[u8; 16]> {
    let database = u32::from(process::database());
    let directory = super::directory();
    let is_live = |uuid: &[u8; 16]| {
        let mut here = directory.sessions.iter().filter(|session| session.database == database);
        here.any(|session| session.live && session.uuid == *uuid)
    };
    uuids.into_iter().filter(|uuid| !is_live(uuid)).collect()
}
