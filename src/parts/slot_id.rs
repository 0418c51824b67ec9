//! The name of a queue's slot in shared memory.

/// Names a queue's slot in shared memory. The generation tells a slot from its reuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotId {
    pub index: u32,
    pub generation: u64,
}
