//! Location of a row version in its table.

/// Block and item numbers of the server.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RowId(u64);

impl RowId {
    pub fn new(block: u32, item: u16) -> RowId {
        RowId(u64::from(block) << 16 | u64::from(item))
    }

    pub fn block(self) -> u32 {
        (self.0 >> 16) as u32
    }

    pub fn item(self) -> u16 {
        self.0 as u16
    }
}
