//! The events: noted as rows change, numbered and logged as transactions end.

use crate::server::callbacks::{SubtransactionEvent, TransactionEvent};
use crate::server::{allocator, types, xact};
use crate::trace::shared;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::OnceLock;

/// In the server's environment: whether to trace.
const VARIABLE: &str = "XQUEUE_TRACE";

/// Set in the postmaster, and so in all that it forks.
static IS_ON: OnceLock<bool> = OnceLock::new();

thread_local! {
    /// What the open transaction has done, and at which depth of subtransactions.
    static NOTED: RefCell<Vec<(i32, Value)>> = const { RefCell::new(Vec::new()) };
    /// The number that it has drawn.
    static NUMBER: Cell<u64> = const { Cell::new(0) };
    /// What it has done to shared memory, each with its number: nothing is logged under a lock.
    static SHARED: RefCell<VecDeque<(u64, Value)>> = const { RefCell::new(VecDeque::new()) };
}

/// To be called while the server loads its libraries.
pub fn init() {
    IS_ON.get_or_init(|| std::env::var_os(VARIABLE).is_some());
}

pub fn is_on() -> bool {
    IS_ON.get().is_some_and(|is_on| *is_on)
}

/// Notes what the open transaction has done; it is logged when that commits.
pub fn note(event: impl FnOnce() -> Option<Value>) {
    if is_on() {
        let noted = event().map(|event| (xact::depth(), event));
        NOTED.with_borrow_mut(|events| events.extend(noted));
    }
}

/// The connection's own session has been opened, and has done nothing yet.
pub fn session_began(uuid: [u8; 16]) {
    log_session("Begin", uuid);
}

/// Its last transaction is over, and its end has not been reported yet.
pub fn session_ends(uuid: [u8; 16]) {
    log_session("End", uuid);
}

fn log_session(what: &str, uuid: [u8; 16]) {
    if is_on() {
        log(shared::next(), &json!({ "do": what, "by": types::uuid_text(uuid) }));
    }
}

/// Notes a step of a part of shared memory, with a number drawn now: to be called under the lock that the step needs,
/// so that the numbers of a queue's steps are their order. It has happened whatever becomes of the transaction, and
/// is logged when that ends, or by [`flush`].
#[inline]
pub fn step(part: &str, step: impl FnOnce() -> Value) {
    if is_on() {
        let number = shared::next();
        allocator::apart(|| {
            let mut event = step();
            event["part"] = part.into();
            SHARED.with_borrow_mut(|steps| steps.push_back((number, event)));
        });
    }
}

/// The number that the open transaction has drawn; 0 if it has done nothing to tasks.
pub fn number() -> u64 {
    NUMBER.get()
}

/// Logs the steps that have been noted. To be called where no lock of shared memory is held.
pub fn flush() {
    // One by one: writing to the log serves interrupts, which leave the rest for the end of the transaction.
    while let Some((number, event)) = SHARED.with_borrow_mut(VecDeque::pop_front) {
        log(number, &event);
    }
}

pub fn transaction_ended(event: TransactionEvent) {
    if !is_on() {
        return;
    }
    match event {
        TransactionEvent::PreCommit | TransactionEvent::PrePrepare => {
            let has_noted = NOTED.with_borrow(|events| !events.is_empty());
            NUMBER.set(if has_noted { shared::next() } else { 0 });
        }
        TransactionEvent::Commit => {
            let events = NOTED.take();
            events.iter().for_each(|(_, event)| log(NUMBER.get(), event));
        }
        TransactionEvent::Prepare => {
            for (_, mut event) in NOTED.take() {
                event["part"] = "prepared".into();
                log(NUMBER.get(), &event);
            }
        }
        TransactionEvent::Abort => drop(NOTED.take()),
    }
}

/// What an aborted subtransaction has done has not happened; what one that ends has done, its parent has.
pub fn subtransaction_ended(event: SubtransactionEvent, depth: i32) {
    if !is_on() {
        return;
    }
    NOTED.with_borrow_mut(|events| match event {
        SubtransactionEvent::Commit => {
            let own = events.iter_mut().filter(|(of, _)| *of >= depth);
            own.for_each(|(of, _)| *of = depth - 1);
        }
        SubtransactionEvent::Abort => events.retain(|(of, _)| *of < depth),
    });
}

fn log(number: u64, event: &Value) {
    pgrx::log!("xqueue trace {number} {event}");
}
