//! Names and the worker's last failure in a queue's slot.

pub const NAME_LENGTH: usize = 64;
pub const ERROR_LENGTH: usize = 512;

/// Under the queue's lock.
#[repr(C)]
pub struct Shared {
    pub(super) names: [[u8; NAME_LENGTH]; 3],
    pub(super) error: [u8; ERROR_LENGTH],
    pub(super) error_at: i64,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared { names: [[0; NAME_LENGTH]; 3], error: [0; ERROR_LENGTH], error_at: 0 }
    }
}

/// A text in shared memory: copied under the lock, where nothing may be allocated, and read without it.
#[derive(Clone, Copy, Debug)]
pub struct Text<const LENGTH: usize>(pub(super) [u8; LENGTH]);

impl<const LENGTH: usize> Text<LENGTH> {
    pub fn read(&self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(LENGTH);
        String::from_utf8_lossy(&self.0[..end]).into_owned()
    }
}

pub(super) fn set_text(place: &mut [u8], text: &str) {
    let length = text.floor_char_boundary(place.len() - 1);
    place[..length].copy_from_slice(&text.as_bytes()[..length]);
    place[length] = 0;
}
