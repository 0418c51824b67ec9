//! The depth of nested calls.
//!
//! A queue's function or trigger can run user code that calls another one. Without a limit, a function of
//! `on_task_change` that puts into its own queue would recurse until the stack is exhausted. The server's own limit,
//! the stack size, takes effect late: an error is reported again at each level on its way out, with all remaining
//! levels in its CONTEXT.

use crate::error::{Error, Result};
use pgrx::PgSqlErrorCode;
use std::cell::Cell;

/// Maximum nesting of functions and triggers of queues in one session; a deeper call is refused.
const LIMIT: u32 = 64;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// A function or trigger in progress.
pub struct Nested {
    outer: u32,
}

impl Nested {
    pub fn begin() -> Nested {
        let outer = DEPTH.get();
        DEPTH.set(outer + 1);
        Nested { outer }
    }

    /// Returns whether another function or trigger of a queue has caused this call.
    pub fn is_inner(&self) -> bool {
        self.outer > 0
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        DEPTH.set(self.outer);
    }
}

/// Refuses a call for a queue that is nested too deep.
pub fn refuse_too_deep(queue: impl FnOnce() -> String) -> Result<()> {
    if DEPTH.get() <= LIMIT {
        return Ok(());
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_STATEMENT_TOO_COMPLEX,
        format!("calls are nested too deep in queue \"{}\"", queue()),
    )
    .detail(format!(
        "{LIMIT} functions and triggers of queues are in progress, each in code that the one before runs."
    ))
    .hint(
        "Let on_task_change, pick and triggers not make the changes that they are called for: \
         as on_task_change look at the event, or put into another queue.",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_in_progress_counts() {
        let queue = || "jobs".to_string();
        for _ in 0..2 * LIMIT {
            let _call = Nested::begin();
            assert!(refuse_too_deep(queue).is_ok());
        }
        let calls: Vec<Nested> = (0..LIMIT).map(|_| Nested::begin()).collect();
        assert!(refuse_too_deep(queue).is_ok());
        assert!(!calls[0].is_inner() && calls[1].is_inner());
        let last = Nested::begin();
        assert!(refuse_too_deep(queue).is_err());
        drop(last);
        assert!(refuse_too_deep(queue).is_ok());
        calls.into_iter().rev().for_each(drop);
        assert_eq!(DEPTH.get(), 0);
    }

    #[test]
    fn an_error_ends_what_was_in_progress() {
        let outer = Nested::begin();
        let caught = std::panic::catch_unwind(|| {
            let _call = Nested::begin();
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(caught.is_err());
        assert_eq!(DEPTH.get(), 1);
        drop(outer);
    }
}
