//! Tasks whose changes on the direct path have failed.
//!
//! 1. They rest, so that the worker does not write for them repeatedly without success, and serves the tasks behind
//!    them as usual.
//! 2. After a pause one of them is tried again. If it fails, the pause doubles, up to a minute; otherwise all are
//!    tried.
//! 3. They are forgotten when their table is altered, and when the process ends.
//! 4. A task is known by the position of its row and the transaction that wrote it. A task that is changed has a new
//!    row, so it is tried immediately. So is another task in the place of a row that was removed.

use crate::queue::Queue;
use crate::server::time;
use crate::server::xact::Failure;
use pgrx::pg_sys::Oid;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::time::Duration;
use xqueue_core::pause::{Limits, Pause};
use xqueue_core::row_id::RowId;

/// A version of a row, and the transaction that wrote it.
pub type Version = (RowId, Option<u32>);

const PAUSES: Limits = (Duration::from_secs(1), Duration::from_secs(60));
/// Maximum number of tasks of a queue that are known to fail. More failing tasks are tried again with the queue.
const ROWS: usize = 10_000;

struct Resting {
    /// The description of the table when a change failed first.
    queue: Weak<Queue>,
    /// The failed rows, numbered in the order of their failures.
    rows: HashMap<Version, u64>,
    failures: u64,
    /// The row that is tried again.
    tried: Option<Version>,
    pause: Pause,
    last: Failure,
}

thread_local! {
    static RESTING: RefCell<HashMap<Oid, Resting>> = RefCell::default();
}

/// Begins a job on a queue. If the pause has ended, one task is tried again. Returns whether tasks were resting.
pub fn begin(queue: &Rc<Queue>) -> bool {
    RESTING.with_borrow_mut(|resting| {
        let Some(of_queue) = resting.get_mut(&queue.table) else { return false };
        if !std::ptr::eq(of_queue.queue.as_ptr(), Rc::as_ptr(queue)) {
            resting.remove(&queue.table);
        } else if of_queue.pause.is_over(time::now()) {
            let first = of_queue.rows.iter().min_by_key(|(_, number)| **number);
            of_queue.tried = first.map(|(row, _)| *row);
            of_queue.rows.retain(|row, _| Some(*row) != of_queue.tried);
        }
        true
    })
}

/// Returns whether a task is passed over.
pub fn is_resting(table: Oid, row: Version) -> bool {
    RESTING.with_borrow(|resting| {
        resting.get(&table).is_some_and(|of_queue| of_queue.rows.contains_key(&row))
    })
}

/// Returns whether this job tries a failed task again. Such a task is changed alone, because its failure would undo the
/// whole batch.
pub fn tries_again(table: Oid) -> bool {
    RESTING
        .with_borrow(|resting| resting.get(&table).is_some_and(|of_queue| of_queue.tried.is_some()))
}

/// Records a failure. Logs the first one of a queue.
pub fn note_failure(queue: &Rc<Queue>, row: Version, failure: &Failure) {
    RESTING.with_borrow_mut(|resting| {
        let of_queue = resting.entry(queue.table).or_insert_with(|| {
            failure.warn(&format!("change a task of queue \"{}\"", queue.name));
            let mut pause = Pause::NONE;
            pause.begin(time::now(), PAUSES);
            Resting {
                queue: Rc::downgrade(queue),
                rows: HashMap::new(),
                failures: 0,
                tried: None,
                pause,
                last: failure.clone(),
            }
        });
        if of_queue.rows.len() < ROWS {
            of_queue.failures += 1;
            of_queue.rows.insert(row, of_queue.failures);
        }
        of_queue.last = failure.clone();
    });
}

/// Ends a job on a queue. Returns the time until the resting tasks are tried again, and the last failure if tasks still
/// rest.
pub fn end(table: Oid) -> Option<(Duration, Option<Failure>)> {
    RESTING.with_borrow_mut(|resting| {
        let of_queue = resting.get_mut(&table)?;
        if let Some(tried) = of_queue.tried.take() {
            if !of_queue.rows.contains_key(&tried) {
                resting.remove(&table);
                return Some((Duration::ZERO, None));
            }
            of_queue.pause.begin(time::now(), PAUSES);
        }
        Some((of_queue.pause.left(time::now()), Some(of_queue.last.clone())))
    })
}
