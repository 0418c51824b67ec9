//! Counting the tasks of a queue while others go on working, see [`crate::shmem::recount`].

use crate::model::status::Tasks;
use crate::pg::relation::{Lock, Relation};
use crate::registry::Queue;
use crate::shmem::queues::{self, QueueGuard};
use crate::shmem::recount::Area;

/// How many rows are counted between two looks at who waits.
const ROWS_BETWEEN_LOOKS: usize = 4096;

/// Counts the tasks of a queue, on whose table the caller holds AccessShareLock. Gives the count
/// together with the locked slot, so that nothing can come in between. None if the queue is gone,
/// or if `give_way` says so: it is asked while someone waits for a lock on the table.
pub fn count(queue: &Queue, give_way: impl Fn() -> bool) -> Option<(Tasks, QueueGuard)> {
    let relation = Relation::open(queue.table, Lock::AccessShare)?;
    let area = Area::claim()?;
    let (recount, snapshot) = queues::lock(queue.slot)?.begin_recount(area);
    let mut tasks = Tasks::default();
    let mut rows = 0;
    let complete = relation.scan(&snapshot, |row| {
        // A value that stands for no state is counted as none.
        if let Ok(status) = queue.status_of(row) {
            tasks[status as usize] += 1;
        }
        rows += 1;
        let looks = rows % ROWS_BETWEEN_LOOKS == 0;
        !(looks && relation.has_waiters(Lock::AccessShare) && give_way())
    });
    let mut slot = queues::lock(queue.slot)?;
    let tasks = slot.end_recount(recount, tasks);
    complete.then_some((tasks, slot))
}
