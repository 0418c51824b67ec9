//! Departed sessions, whose connections have left them: the worker gives back the tasks that they hold.

use crate::parts::locks::{DirectoryLock, directory};
use crate::server::shared_memory::{Guarded, Zeroed};
use crate::server::types::Uuid;
use xqueue_core::slot_id::SlotId;

/// Maximum number of recorded sessions; beyond it the worker compares all owners with live sessions.
const SESSIONS: usize = 4096;
/// Maximum number of queues recorded per session; beyond it the worker searches all queues that have taken tasks.
const QUEUES: usize = 4;

/// A session whose connection has left it.
#[derive(Clone, Debug)]
pub struct DepartedSession {
    pub uuid: Uuid,
    /// The session can outlive its connections.
    pub identified: bool,
    /// The queues in which it can hold tasks; None if they are not known.
    pub held: Option<HeldLeases>,
}

/// The queues in which a session can hold tasks.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HeldLeases {
    /// Invalidation epoch at session start.
    pub since: u64,
    queues: [SlotId; QUEUES],
    count: u32,
}

impl HeldLeases {
    const NONE: HeldLeases =
        HeldLeases { since: 0, queues: [SlotId { index: 0, generation: 0 }; QUEUES], count: 0 };

    /// Returns None if there are too many queues.
    pub(in crate::parts) fn of(queues: &[SlotId], since: u64) -> Option<HeldLeases> {
        let mut held = HeldLeases { since, count: queues.len() as u32, ..HeldLeases::NONE };
        held.queues.get_mut(..queues.len())?.copy_from_slice(queues);
        Some(held)
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn is_in(&self, slot: SlotId) -> bool {
        self.queues[..self.count as usize].contains(&slot)
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    uuid: Uuid,
    database: u32,
    identified: bool,
    is_known: bool,
    held: HeldLeases,
}

#[repr(C)]
pub struct DepartedSessions {
    count: u32,
    entries: [Entry; SESSIONS],
}

// SAFETY: numbers and bools.
unsafe impl Zeroed for DepartedSessions {}

pub(in crate::parts) static DEPARTED: Guarded<DepartedSessions, DirectoryLock> = Guarded::new();

impl DepartedSessions {
    /// Adds a session of a database, with its leases if they are known. Returns false if the list is full.
    pub(in crate::parts) fn push(
        &mut self,
        database: u32,
        (uuid, identified): (Uuid, bool),
        held: Option<HeldLeases>,
    ) -> bool {
        let Some(entry) = self.entries.get_mut(self.count as usize) else { return false };
        let (is_known, held) = (held.is_some(), held.unwrap_or(HeldLeases::NONE));
        *entry = Entry { uuid, database, identified, is_known, held };
        self.count += 1;
        true
    }

    /// Discards a session's recorded leases; the worker then searches all queues. Returns false if the session is not
    /// listed.
    pub(in crate::parts) fn distrust(&mut self, uuid: Uuid) -> bool {
        let mut entries = self.entries[..self.count as usize].iter_mut();
        let entry = entries.find(|entry| entry.uuid == uuid);
        entry.map(|entry| entry.is_known = false).is_some()
    }

    /// Removes the sessions of a database, up to the capacity of the result.
    fn drain(&mut self, database: u32, drained: &mut Vec<Entry>) {
        self.retain(|entry| {
            let is_drained = entry.database == database && drained.len() < drained.capacity();
            if is_drained {
                drained.push(*entry);
            }
            !is_drained
        });
    }

    /// Removes all sessions of a database.
    fn forget(&mut self, database: u32) {
        self.retain(|entry| entry.database != database);
    }

    /// Removes the sessions for which `is_kept` is false. Allocates nothing.
    fn retain(&mut self, mut is_kept: impl FnMut(&Entry) -> bool) {
        let mut kept = 0;
        for index in 0..self.count as usize {
            let entry = self.entries[index];
            if is_kept(&entry) {
                self.entries[kept] = entry;
                kept += 1;
            }
        }
        self.count = kept as u32;
    }
}

/// Removes the listed sessions of a database that has no queues any more. Must neither allocate nor fail.
pub fn forget(database: u32) {
    DEPARTED.get_mut(&mut directory())[0].forget(database);
}

/// Removes and returns the listed sessions of a database.
pub fn drain(database: u32) -> Vec<DepartedSession> {
    let count = DEPARTED.get(&directory())[0].count as usize;
    // A session that is listed after this wakes the worker again.
    let mut drained = Vec::with_capacity(count);
    if count > 0 {
        DEPARTED.get_mut(&mut directory())[0].drain(database, &mut drained);
    }
    let left = |Entry { uuid, identified, is_known, held, .. }| DepartedSession {
        uuid,
        identified,
        held: is_known.then_some(held),
    };
    drained.into_iter().map(left).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> Box<DepartedSessions> {
        let (is_known, held) = (false, HeldLeases::NONE);
        let entry = Entry { uuid: [0; 16], database: 0, identified: false, is_known, held };
        Box::new(DepartedSessions { count: 0, entries: [entry; SESSIONS] })
    }

    fn queues(count: u32) -> Vec<SlotId> {
        (0..count).map(|index| SlotId { index, generation: 1 }).collect()
    }

    /// Returns the sessions of a database by their first bytes, with the number of queues in which they hold tasks.
    fn drain(list: &mut DepartedSessions, database: u32, room: usize) -> Vec<(u8, Option<u32>)> {
        let mut drained = Vec::with_capacity(room);
        list.drain(database, &mut drained);
        let known = |entry: &Entry| entry.is_known.then_some(entry.held.count);
        drained.iter().map(|entry| (entry.uuid[0], known(entry))).collect()
    }

    #[test]
    fn each_database_gets_its_sessions_with_their_queues() {
        let mut list = list();
        for (session, database, count) in [(1, 5, 2), (2, 6, 4), (3, 5, 0), (4, 6, 1), (5, 5, 5)] {
            let held = HeldLeases::of(&queues(count), 0);
            assert!(list.push(database, ([session; 16], false), held));
        }
        assert!(list.distrust([4; 16]) && !list.distrust([6; 16]));
        assert_eq!(drain(&mut list, 5, 2), [(1, Some(2)), (3, Some(0))]);
        assert_eq!(drain(&mut list, 5, 9), [(5, None)], "too many queues");
        assert_eq!(drain(&mut list, 6, 9), [(2, Some(4)), (4, None)]);
        assert_eq!(list.count, 0);
    }

    #[test]
    fn the_sessions_of_a_dropped_database_leave_their_places() {
        let mut list = list();
        for session in 0..SESSIONS {
            let database = if session % 2 == 0 { 5 } else { 6 };
            assert!(list.push(database, ([session as u8; 16], false), None));
        }
        list.forget(5);
        assert_eq!(list.count as usize, SESSIONS / 2);
        assert!(list.push(6, ([1; 16], false), None));
        assert_eq!(drain(&mut list, 5, 9), []);
        assert_eq!(drain(&mut list, 6, 3), [(1, None), (3, None), (5, None)]);
    }

    #[test]
    fn a_full_list_says_so() {
        let mut list = list();
        (0..SESSIONS).for_each(|_| assert!(list.push(5, ([1; 16], false), None)));
        assert!(!list.push(5, ([1; 16], false), None));
    }

    #[test]
    fn a_session_holds_tasks_in_its_queues_only() {
        let known = HeldLeases::of(&queues(2), 0).unwrap();
        assert!(known.is_in(queues(2)[1]) && !known.is_in(queues(3)[2]));
        assert!(!HeldLeases::NONE.is_in(queues(1)[0]) && HeldLeases::NONE.is_empty());
    }
}
