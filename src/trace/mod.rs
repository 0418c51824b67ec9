//! The trace: changes of leases, and steps of parts of shared memory, written to the server's log in builds for tests
//! that ask for it. The models of tests/models are compared with it. In other builds there is nothing. Steps in
//! shared memory are numbered under the lock that guards it.
//!
//! Each event has a number from one sequence in shared memory, drawn so that the numbers are an order in which all
//! could have happened one after the other:
//! - A transaction draws its number in PRE_COMMIT, after all its changes and before it is visible: between the two it
//!   has the rows of all its changes locked. The next change of one of them waits for that lock, sees the result of the
//!   first, and draws later. So for each task the order of the numbers is that of its row's versions (two-phase
//!   locking), unlike the order of the COMMIT callbacks: a commit is visible before its callback runs, and the next
//!   change of the row may run its own first. The COMMIT callback logs the events, so rolled back ones are not logged.
//!   Those of a prepared transaction are logged when it is prepared, as a part of their own: its end is not reported.
//! - A session draws the number of its beginning before it can change anything, and that of its end after its last
//!   transaction and before the worker can know of it: what the worker gives back for it comes later.
//! - A step in shared memory ([`step`]) draws its number under the lock that it needs. Those of sub-queues contain
//!   the state before and after.

#[cfg(feature = "injection_points")]
mod events;
#[cfg(feature = "injection_points")]
#[allow(unsafe_code, reason = "shared memory")]
mod shared;
pub mod shortcuts;

#[cfg(feature = "injection_points")]
pub use crate::server::allocator::apart;
#[cfg(feature = "injection_points")]
pub use events::*;
#[cfg(feature = "injection_points")]
pub use shared::TRACED;
pub use shortcuts::Shortcut;

#[cfg(not(feature = "injection_points"))]
pub use off::*;

#[cfg(not(feature = "injection_points"))]
mod off {
    use crate::server::callbacks::{SubtransactionEvent, TransactionEvent};

    pub fn init() {}

    pub const fn is_on() -> bool {
        false
    }

    #[inline(always)]
    pub fn apart<T>(work: impl FnOnce() -> T) -> T {
        work()
    }

    #[inline(always)]
    pub fn note(_event: impl FnOnce() -> Option<serde_json::Value>) {}

    #[inline(always)]
    pub fn step(_part: &str, _step: impl FnOnce() -> serde_json::Value) {}

    pub const fn number() -> u64 {
        0
    }

    pub fn flush() {}

    pub fn session_began(_uuid: [u8; 16]) {}

    pub fn session_ends(_uuid: [u8; 16]) {}

    #[inline(always)]
    pub fn transaction_ended(_event: TransactionEvent) {}

    #[inline(always)]
    pub fn subtransaction_ended(_event: SubtransactionEvent, _depth: i32) {}
}
