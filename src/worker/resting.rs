//! Tasks whose changes have failed. They rest, so that the worker writes nothing in vain for them, and the tasks behind
//! them are served as ever. After a pause one of them is tried again: if that fails too, the pause doubles, up to a
//! minute; if not, all are. They are forgotten when their table is altered, and with the process.
//!
//! A task is known by where its row is: once somebody changes it, it is another row, which is tried at once.

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

const PAUSES: Limits = (Duration::from_secs(1), Duration::from_secs(60));
/// Maximum number of tasks of a queue that are known to fail; more are tried again with the queue.
const ROWS: usize = 10_000;

struct Resting {
    /// As its table was described.
    queue: Weak<Queue>,
    /// With their numbers in the order of their failures.
    rows: HashMap<RowId, u64>,
    failures: u64,
    /// The one that is tried again.
    tried: Option<RowId>,
    pause: Pause,
    last: Failure,
}

thread_local! {
    static RESTING: RefCell<HashMap<Oid, Resting>> = RefCell::default();
}

/// Begins a job on a queue: lets one task be tried again if it is time. Returns whether there was one that rests.
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
pub fn is_resting(table: Oid, row: RowId) -> bool {
    RESTING.with_borrow(|resting| {
        resting.get(&table).is_some_and(|of_queue| of_queue.rows.contains_key(&row))
    })
}

/// Returns whether a task is tried again that has failed: alone, because it would undo what is done with it.
pub fn tries_again(table: Oid) -> bool {
    RESTING
        .with_borrow(|resting| resting.get(&table).is_some_and(|of_queue| of_queue.tried.is_some()))
}

/// Notes a failure, and tells the log of the first.
pub fn note_failure(queue: &Rc<Queue>, row: RowId, failure: &Failure) {
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

/// Ends a job on a queue; returns when to try again what has rested until now, and the last failure if it still does.
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
