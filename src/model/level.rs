//! How urgent the tasks of a sub-queue are: what decides, before their turns, which of the sub-queues goes
//! first. It is the priority of the task that is next, where the queue has priorities.

/// A priority, or a bound of one: the least number comes first.
pub type Level = i64;

/// Of a queue without priorities; or nothing is known, so it is looked at first.
pub const UNKNOWN: Level = Level::MIN;
/// Behind all others: also that of tasks without a priority.
pub const LAST: Level = Level::MAX;
