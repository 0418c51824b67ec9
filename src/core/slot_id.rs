//! Identity of a queue's slot in shared memory.

/// Identity of a slot. The generation distinguishes successive uses of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotId {
    pub index: u32,
    pub generation: u64,
}
