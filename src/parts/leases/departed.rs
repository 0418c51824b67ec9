//! Sessions whose connections have left them: the worker gives back what they hold.

use crate::model::position::Position;
use crate::parts::locks::{DirectoryLock, directory};
use crate::parts::slot_id::SlotId;
use crate::server::shared_memory::{Guarded, Zeroed};
use crate::server::types::Uuid;

/// Maximum number of recorded sessions; beyond it the worker compares all owners with live sessions.
const SESSIONS: usize = 4096;
/// Maximum number of their recorded leases; the worker finds further ones by an index scan for the session.
const TASKS: usize = 8192;

/// A session's lease on a task.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLease {
    pub slot: SlotId,
    pub position: Position,
}

/// A session whose connection has left it.
#[derive(Clone, Debug)]
pub struct DepartedSession {
    pub uuid: Uuid,
    /// It may outlive its connections.
    pub identified: bool,
    /// None if they are not known.
    pub tasks: Option<HeldLeases>,
}

/// The leases of a session.
#[derive(Clone, Debug)]
pub struct HeldLeases {
    /// Invalidation epoch at session start.
    pub since: u64,
    pub tasks: Vec<HeldLease>,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    uuid: Uuid,
    database: u32,
    identified: bool,
    /// Its leases are known: the next `tasks` of the list, in the order of the sessions.
    is_known: bool,
    tasks: u32,
    /// Invalidation epoch at session start.
    since: u64,
}

#[repr(C)]
pub struct DepartedSessions {
    sessions: u32,
    tasks: u32,
    entries: [Entry; SESSIONS],
    held: [HeldLease; TASKS],
}

// SAFETY: numbers and bools.
unsafe impl Zeroed for DepartedSessions {}

pub(in crate::parts) static DEPARTED: Guarded<DepartedSessions, DirectoryLock> = Guarded::new();

impl DepartedSessions {
    /// Adds a session of a database, with its leases and the invalidation epoch at its start, if they are known.
    /// False if the list is full.
    pub(in crate::parts) fn push(
        &mut self,
        database: u32,
        (uuid, identified): (Uuid, bool),
        tasks: Option<(&[HeldLease], u64)>,
    ) -> bool {
        let Some(entry) = self.entries.get_mut(self.sessions as usize) else { return false };
        let begin = self.tasks as usize;
        let noted = tasks.and_then(|(tasks, since)| {
            self.held.get_mut(begin..begin + tasks.len())?.copy_from_slice(tasks);
            Some((tasks.len() as u32, since))
        });
        let (tasks, since) = noted.unwrap_or_default();
        *entry = Entry { uuid, database, identified, is_known: noted.is_some(), tasks, since };
        self.sessions += 1;
        self.tasks += tasks;
        true
    }

    /// Discards a session's recorded leases; the worker falls back to an index scan. False if the session is not
    /// listed.
    pub(in crate::parts) fn distrust(&mut self, uuid: Uuid) -> bool {
        let mut entries = self.entries[..self.sessions as usize].iter_mut();
        let entry = entries.find(|entry| entry.uuid == uuid);
        entry.map(|entry| entry.is_known = false).is_some()
    }

    /// Removes the sessions of a database, with their leases, up to the capacity of the results.
    fn drain(&mut self, database: u32, drained: &mut Vec<Entry>, tasks: &mut Vec<HeldLease>) {
        let (mut sessions_kept, mut tasks_kept, mut begin) = (0, 0, 0);
        for index in 0..self.sessions as usize {
            let entry = self.entries[index];
            let held = begin..begin + entry.tasks as usize;
            begin = held.end;
            let has_room =
                drained.len() < drained.capacity() && tasks.len() + held.len() <= tasks.capacity();
            if entry.database == database && has_room {
                drained.push(entry);
                tasks.extend_from_slice(&self.held[held]);
            } else {
                self.entries[sessions_kept] = entry;
                sessions_kept += 1;
                self.held.copy_within(held, tasks_kept);
                tasks_kept += entry.tasks as usize;
            }
        }
        (self.sessions, self.tasks) = (sessions_kept as u32, tasks_kept as u32);
    }
}

/// Removes and returns the listed sessions of a database.
pub fn drain(database: u32) -> Vec<DepartedSession> {
    let (sessions, tasks) = {
        let directory = directory();
        let left = &DEPARTED.get(&directory)[0];
        (left.sessions as usize, left.tasks as usize)
    };
    // A session listed from here on wakes the worker once more.
    let (mut drained, mut held) = (Vec::with_capacity(sessions), Vec::with_capacity(tasks));
    if sessions > 0 {
        DEPARTED.get_mut(&mut directory())[0].drain(database, &mut drained, &mut held);
    }
    let mut held = held.into_iter();
    let left = |entry: Entry| {
        let tasks = held.by_ref().take(entry.tasks as usize).collect();
        let tasks = entry.is_known.then_some(HeldLeases { since: entry.since, tasks });
        DepartedSession { uuid: entry.uuid, identified: entry.identified, tasks }
    };
    drained.into_iter().map(left).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> Box<DepartedSessions> {
        let entry = Entry {
            uuid: [0; 16],
            database: 0,
            identified: false,
            is_known: false,
            tasks: 0,
            since: 0,
        };
        let held = [task(0); TASKS];
        Box::new(DepartedSessions { sessions: 0, tasks: 0, entries: [entry; SESSIONS], held })
    }

    fn task(position: Position) -> HeldLease {
        HeldLease { slot: SlotId { index: 1, generation: 1 }, position }
    }

    /// Returns the sessions of a database by their first bytes, with the positions of their tasks.
    fn drain(
        list: &mut DepartedSessions,
        database: u32,
        room: usize,
    ) -> Vec<(u8, u32, Vec<Position>)> {
        let (mut drained, mut held) = (Vec::with_capacity(room), Vec::with_capacity(TASKS));
        list.drain(database, &mut drained, &mut held);
        let mut held = held.into_iter().map(|task| task.position);
        let left = |entry: Entry| {
            let held = held.by_ref().take(entry.tasks as usize).collect();
            (entry.uuid[0], u32::from(entry.is_known), held)
        };
        drained.into_iter().map(left).collect()
    }

    #[test]
    fn each_database_gets_its_sessions_with_their_tasks() {
        let mut list = list();
        for (session, database, tasks) in [(1, 5, 2), (2, 6, 3), (3, 5, 0), (4, 6, 1), (5, 5, 1)] {
            let tasks: Vec<_> =
                (0..tasks).map(|task| Position::from(10 * session + task)).collect();
            let tasks: Vec<_> = tasks.into_iter().map(task).collect();
            assert!(list.push(database, ([session; 16], false), Some((&tasks, 0))));
        }
        assert!(list.distrust([4; 16]) && !list.distrust([6; 16]));
        assert_eq!(drain(&mut list, 5, 2), [(1, 1, vec![10, 11]), (3, 1, vec![])]);
        assert_eq!(drain(&mut list, 5, 9), [(5, 1, vec![50])]);
        assert_eq!(drain(&mut list, 6, 9), [(2, 1, vec![20, 21, 22]), (4, 0, vec![40])]);
        assert_eq!((list.sessions, list.tasks), (0, 0));
    }

    #[test]
    fn without_room_for_its_tasks_a_session_is_found_by_its_name() {
        let mut list = list();
        let most = vec![task(7); TASKS];
        assert!(list.push(5, ([1; 16], false), Some((&most, 0))));
        assert!(list.push(5, ([2; 16], false), Some((&most[..1], 0))));
        assert!(list.push(5, ([3; 16], false), Some((&[], 0))));
        assert!(list.push(5, ([4; 16], true), None));
        let known: Vec<_> = drain(&mut list, 5, 9).into_iter().map(|left| left.1).collect();
        assert_eq!(known, [1, 0, 1, 0]);
        (0..SESSIONS).for_each(|_| assert!(list.push(5, ([1; 16], false), None)));
        assert!(!list.push(5, ([1; 16], false), None));
    }
}
