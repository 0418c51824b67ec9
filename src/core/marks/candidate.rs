//! Tasks that are to be taken next, as a ring has them, and what it hands out to a take, see
//! [`crate::marks::ring`].

use crate::position::Position;
use crate::row_id::RowId;

/// Maximum number of candidates, which may all be handed out at once: takes of several tasks that shared a page of the
/// table would wait for each other at each row.
pub const ROOM: usize = 192;

/// Maximum number of transactions noted whose locks were in the way.
pub const LOCKERS: usize = 4;

/// A task, and where its row was.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// The halves of its position, which as one number would leave a gap before the row.
    position: [u64; 2],
    pub row: RowId,
}

/// Room for the candidates of a ring. What it had may still be there.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Candidates(pub [Candidate; ROOM]);

/// What a take is to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Handed {
    /// Number of the ring.
    pub(super) ring: usize,
    pub candidate: Option<Candidate>,
    /// First of all, to read ahead.
    pub refill: Option<Refill>,
    /// Another take is reading ahead.
    pub is_being_read: bool,
    /// Once one of these transactions has ended, the ring is to be put aside; 0: none.
    pub lockers: [u32; LOCKERS],
}

/// What a take of several tasks is handed out besides the first candidate.
pub struct More {
    /// With room for as many as are wanted: there is no memory to be had where they are handed out.
    pub(super) candidates: Vec<Candidate>,
    wanted: usize,
}

/// To read ahead, and report that by `end_refill`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Refill {
    /// From here on; FIRST: from the mark on.
    pub from: Position,
    /// The mark as the refill begins: what becomes ready before it from then on is told to the ring.
    pub mark: Position,
    /// Maximum number of tasks.
    pub room: usize,
    /// Number of the ring, and of the refill.
    pub(super) ring: usize,
    pub(super) number: u64,
}

/// What a refill has read.
pub struct Read {
    pub found: Vec<Candidate>,
    /// Besides them there were tasks that were being changed.
    pub has_left_out: bool,
}

impl Default for Candidates {
    fn default() -> Self {
        Candidates([Candidate::default(); ROOM])
    }
}

impl More {
    /// For a take of this many tasks.
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
