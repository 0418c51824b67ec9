//! Identity of a queue's slot in shared memory.

/// Identity of a slot. The generation tells its uses apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotId {
    pub index: u32,
    pub generation: u64,
}
