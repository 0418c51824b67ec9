//! Candidates of a ring, and the answers that a ring gives to takes. See [`crate::marks::ring`].

use crate::position::Position;
use crate::row_id::RowId;

/// Maximum number of candidates, all of which can be handed out simultaneously. Otherwise takes of several tasks would
/// share a page of the table and wait for each other at each row.
pub const ROOM: usize = 192;

/// Maximum number of transactions recorded because takes skipped rows that they had locked.
pub const LOCKERS: usize = 4;

/// A task and the last known location of its row.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// The high and low half of the position. A `u128` would leave a gap before the row.
    position: [u64; 2],
    pub row: RowId,
}

/// The array of a ring's candidates. Unused entries keep their old values.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Candidates(pub [Candidate; ROOM]);

/// A ring's answer to a take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Handed {
    /// Number of the ring.
    pub(super) ring: usize,
    pub candidate: Option<Candidate>,
    /// The refill that the take has to do before anything else.
    pub refill: Option<Refill>,
    /// When one of these transactions has ended, the ring is to be discarded; 0: unused.
    pub lockers: [u32; LOCKERS],
}

/// Further candidates for a take of several tasks.
pub struct More {
    /// Allocated in advance: the ring hands out candidates under a lock, where it cannot allocate.
    pub(super) candidates: Vec<Candidate>,
    wanted: usize,
}

/// A refill in progress: the caller reads candidates and reports them by `end_refill`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Refill {
    /// First position to read; FIRST: the mark.
    pub from: Position,
    /// The mark when the refill begins. A task that becomes ready before it later is reported to the ring.
    pub mark: Position,
    /// Maximum number of tasks to read.
    pub room: usize,
    /// Number of the ring, and of the refill.
    pub(super) ring: usize,
    pub(super) number: u64,
}

/// Result of a refill.
pub struct Read {
    pub found: Vec<Candidate>,
    /// The refill skipped tasks that were being changed.
    pub has_left_out: bool,
}

impl Default for Candidates {
    fn default() -> Self {
        Candidates([Candidate::default(); ROOM])
    }
}

impl More {
    /// Allocates the further candidates for a take of `tasks` tasks.
    pub fn besides_one(tasks: usize) -> More {
        let wanted = tasks.min(ROOM).saturating_sub(1);
        More { candidates: Vec::with_capacity(wanted), wanted }
    }

    pub(super) fn has_room(&self) -> bool {
        self.candidates.len() < self.wanted
    }

    pub fn take(self) -> impl Iterator<Item = Candidate> {
        self.candidates.into_iter()
    }
}

impl Candidate {
    pub fn new(position: Position, row: RowId) -> Candidate {
        Candidate { position: [(position >> 64) as u64, position as u64], row }
    }

    pub fn position(&self) -> Position {
        let [high, low] = self.position;
        Position::from(high) << 64 | Position::from(low)
    }
}
