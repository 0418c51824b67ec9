//! The threads' record of the tasks, to be compared with the table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use xqueue_tests::*;

#[derive(Default)]
pub struct Ledger {
    /// Committed puts.
    pub put: Mutex<BTreeSet<i64>>,
    /// The number of acks of each task.
    acked: Mutex<BTreeMap<i64, u32>>,
    /// Taken tasks with their sessions.
    leases: Mutex<BTreeMap<i64, String>>,
}

impl Ledger {
    /// Records a lease, and asserts that no other session has the task.
    #[track_caller]
    pub fn lease(&self, id: i64, session: &str) {
        let before = self.leases.lock().unwrap().insert(id, session.to_owned());
        assert_eq!(before, None, "task {id} is taken by {session} under a live lease");
    }

    /// Ends a lease before the task is released: after the release another session can take it.
    pub fn end_lease(&self, id: i64) {
        self.leases.lock().unwrap().remove(&id);
    }

    pub fn ack(&self, id: i64) {
        *self.acked.lock().unwrap().entry(id).or_default() += 1;
    }

    /// Returns the number of tasks put and not yet acked.
    pub fn open(&self) -> usize {
        self.put.lock().unwrap().len().saturating_sub(self.acked.lock().unwrap().len())
    }

    /// Asserts, while no thread works, that every task is in the state that the threads expect.
    pub fn compare(&self, q: &mut Queue) {
        let name = q.name.clone();
        let (put, acked) = (self.put.lock().unwrap(), self.acked.lock().unwrap());
        let twice: Vec<_> = acked.iter().filter(|(_, count)| **count > 1).collect();
        assert!(twice.is_empty(), "acked more than once: {twice:?}");
        let leases = self.leases.lock().unwrap();
        let taken = format!("SELECT id, owner::text FROM {name} WHERE status = 'T'");
        let mut held = BTreeMap::new();
        // The worker is still releasing the tasks of connections that have just ended.
        wait_until("what ended sessions had is given back", || {
            let rows = q.admin.query(&taken, &[]).expect("the table is readable");
            held = rows.iter().map(|row| (row.get(0), row.get::<_, String>(1))).collect();
            held.keys().all(|id| leases.contains_key(id))
        });
        assert_eq!(held, *leases, "taken by the table (left) and as their owners know it (right)");

        // One snapshot for both tables, because the worker can delete tasks meanwhile.
        let everything = format!(
            "SELECT id, status::text, true FROM {name} UNION ALL SELECT id, status, false FROM {name}_gone"
        );
        let rows = q.admin.query(&everything, &[]).expect("both tables are readable");
        let mut seen = BTreeSet::new();
        for row in rows {
            let (id, status, is_there): (i64, String, bool) = (row.get(0), row.get(1), row.get(2));
            assert!(seen.insert(id), "task {id} is there twice, or has gone twice");
            let is_over = match (status.as_str(), is_there) {
                ("Z" | "D", _) | ("T", false) => true,
                ("R", false) => panic!("task {id} was ready and has vanished"),
                _ => false,
            };
            let there = if is_there { "there" } else { "gone" };
            assert_eq!(acked.contains_key(&id), is_over, "task {id}, {status}, {there}, was acked");
        }
        assert_eq!(seen, *put, "tasks there or gone in order (left), and put (right)");
    }
}
