//! Waiters: consumers that wait for tasks and producers that wait for room. A process registers in the wait queue,
//! rechecks, sleeps, and passes on a wake token that it does not use.

#[allow(unsafe_code, reason = "shared memory")]
mod shared;
pub mod token;
pub mod wait;
pub mod wait_queue;
mod wake;

pub use shared::*;
pub use wait_queue::Want;
pub use wake::Offer;
