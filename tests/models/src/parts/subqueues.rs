//! See the extension's `parts/subqueues`.

#[path = "../../../../src/parts/subqueues/change.rs"]
pub mod change;
#[allow(clippy::new_without_default, reason = "inside the extension it is no public type")]
#[path = "../../../../src/parts/subqueues/pool/mod.rs"]
pub mod pool;
