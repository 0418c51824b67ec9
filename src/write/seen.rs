//! A row of a queue's table as seen by a change.

use xqueue_core::change::StateAndTube;

/// A row of a queue's table, with the state and tube of its task.
pub struct Seen<'row, R> {
    pub place: StateAndTube,
    pub row: &'row R,
}
