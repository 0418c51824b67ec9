//! Level of a sub-queue: decides, before turns, which sub-queue goes first. It is the priority of the sub-queue's next
//! task if the queue has priorities.

/// A priority, or a bound of priorities; the lowest goes first.
pub type Level = i64;

/// The level in a queue without priorities, or while it is unknown. It goes first.
pub const UNKNOWN: Level = Level::MIN;
/// Behind all other levels; also the level of tasks without a priority.
pub const LAST: Level = Level::MAX;
