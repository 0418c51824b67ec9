//! What a queue's slot says of its name and of its problems.

use crate::model::options::TUBES_COUNTED;

pub const NAME_LENGTH: usize = 64;
pub const ERROR_LENGTH: usize = 512;

/// What has failed, or is missing, and when that was found.
#[repr(C)]
pub(super) struct Problem {
    pub(super) text: [u8; ERROR_LENGTH],
    pub(super) at: i64,
}

impl Problem {
    const NONE: Problem = Problem { text: [0; ERROR_LENGTH], at: 0 };
}

/// Under the queue's lock.
#[repr(C)]
pub struct Shared {
    pub(super) names: [[u8; NAME_LENGTH]; 3],
    /// Names of the tubes with statistics of their own; empty ones behind the last.
    pub(super) tubes: [[u8; NAME_LENGTH]; TUBES_COUNTED],
    /// Since when the oldest task was ready as the metrics were last asked for; 0 if none was.
    pub(super) ready_since: i64,
    /// The worker's last failure.
    pub(super) error: Problem,
    /// What the table has lost of what `upgrade` has made.
    pub(super) lack: Problem,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared {
            names: [[0; NAME_LENGTH]; 3],
            tubes: [[0; NAME_LENGTH]; TUBES_COUNTED],
            ready_since: 0,
            error: Problem::NONE,
            lack: Problem::NONE,
        }
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

    /// Returns whether this is what is left of a text in this place.
    pub(super) fn is(&self, text: &str) -> bool {
        let mut place = [0; LENGTH];
        set_text(&mut place, text);
        let end = place.iter().position(|byte| *byte == 0).unwrap_or(LENGTH - 1);
        self.0[..=end] == place[..=end]
    }
}

pub(super) fn set_text(place: &mut [u8], text: &str) {
    let length = text.floor_char_boundary(place.len() - 1);
    place[..length].copy_from_slice(&text.as_bytes()[..length]);
    place[length] = 0;
}
