//! A row of a queue's table as a change has seen it.

use xqueue_core::change::Place;

/// A row of a queue's table, and where its task is.
pub struct Seen<'row, R> {
    pub place: Place,
    pub row: &'row R,
}
