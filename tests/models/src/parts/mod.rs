//! The pure files of the extension's parts, under the names that they have there.

#[path = "../../../../src/parts/slot_id.rs"]
pub mod slot_id;

pub mod marks;
pub mod subqueues;
