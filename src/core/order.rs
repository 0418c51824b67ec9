//! Positions of tasks by the first one or two columns of the take order.
//!
//! A position keeps the order of the tasks. Several tasks can share one. A mark there hides none of them, because a
//! scan begins at the least values of the position.

use crate::position::{self, LAST, Position};

/// A value of a column that has a part in positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Number {
    /// An integer or an instant.
    Integer(i64),
    /// The position of a value of another type, by its first bytes or digits.
    Wide(Position),
}

/// A kind of column that has a part in positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Integers or instants, with the least and the greatest value of the type.
    Integer(i64, i64),
    Uuid,
    /// Values of any length: numeric, and strings in bytewise order.
    Prefix,
}

/// How many tasks share a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ties {
    /// Each task has its own.
    None,
    /// Tasks share an instant and half of a uuid, or the first bytes or digits of a value.
    Rare,
    Many,
}

/// How the first columns of a take order become positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    first: Part,
    second: Option<Part>,
    pub ties: Ties,
}

impl Order {
    /// Returns the order of columns of these kinds; None for a column that has no part in positions.
    pub fn of(columns: &[Option<Part>]) -> Option<Order> {
        let (first, others) = columns.split_first()?;
        let order = |second, ties| first.map(|first| Order { first, second, ties });
        match (first, others) {
            (Some(Part::Prefix), []) => order(None, Ties::Rare),
            (_, []) => order(None, Ties::None),
            (Some(Part::Integer(..)), [second @ Some(Part::Integer(..))]) => {
                order(*second, Ties::None)
            }
            (Some(Part::Integer(..)), [second @ Some(_)]) => order(*second, Ties::Rare),
            (Some(Part::Integer(..)), [second, ..]) => order(*second, Ties::Many),
            _ => order(None, Ties::Many),
        }
    }

    /// Returns the number of columns that have a part in positions.
    pub fn columns(&self) -> usize {
        1 + usize::from(self.second.is_some())
    }

    /// Returns the position of a task; None if it lacks a value.
    pub fn position(&self, value: impl Fn(usize) -> Option<Number>) -> Option<Position> {
        let first = value(0)?;
        Some(match (self.second, first) {
            (Some(_), Number::Integer(first)) => position::of_pair(first, half_of(value(1)?)),
            (_, Number::Integer(first)) => position::of_integer(first),
            (_, Number::Wide(first)) => first.min(LAST - 1),
        })
    }

    /// Returns the least values of the columns at a position, or behind it if no values are there.
    pub fn start(&self, position: Position) -> (Number, Option<Number>) {
        match (self.first, self.second) {
            (Part::Integer(least, greatest), Some(second)) => {
                let (first, half) = position::to_pair(position);
                let half = match first {
                    _ if first < least => 0,
                    _ if first > greatest => u64::MAX,
                    _ => half,
                };
                (Number::Integer(first.clamp(least, greatest)), Some(second.least_of(half)))
            }
            (Part::Integer(least, greatest), None) => {
                (Number::Integer(position::to_integer(position, (least, greatest))), None)
            }
            (Part::Uuid | Part::Prefix, _) => (Number::Wide(position), None),
        }
    }

    /// Returns the significant half of a position, to be combined with a priority.
    pub fn half(&self, position: Position) -> u64 {
        if self.is_in_low_half() { position as u64 } else { (position >> 64) as u64 }
    }

    /// Returns the first position with this half.
    pub fn first_of_half(&self, half: u64) -> Position {
        let half = Position::from(half);
        if self.is_in_low_half() { half } else { half << 64 }
    }

    fn is_in_low_half(&self) -> bool {
        self.second.is_none() && matches!(self.first, Part::Integer(..))
    }

    /// Returns whether a task at this position is the only one.
    pub fn names(&self, position: Position) -> bool {
        self.ties == Ties::None && position < LAST - 1
    }
}

/// Returns the significant half of a value.
fn half_of(number: Number) -> u64 {
    match number {
        Number::Integer(number) => position::of_integer(number) as u64,
        Number::Wide(wide) => (wide.min(LAST - 1) >> 64) as u64,
    }
}

impl Part {
    /// Returns the least value with this half.
    fn least_of(self, half: u64) -> Number {
        match self {
            Part::Integer(least, greatest) => {
                Number::Integer(position::to_integer(half.into(), (least, greatest)))
            }
            Part::Uuid | Part::Prefix => Number::Wide(Position::from(half) << 64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::select;

    const SMALL: Part = Part::Integer(i16::MIN as i64, i16::MAX as i64);
    const LARGE: Part = Part::Integer(i64::MIN, i64::MAX);

    /// The kinds of the columns of an order; None has no part in positions.
    fn orders() -> impl Strategy<Value = (Vec<Option<Part>>, Order)> {
        let part =
            || select(vec![Some(SMALL), Some(LARGE), Some(Part::Uuid), Some(Part::Prefix), None]);
        prop::collection::vec(part(), 1..4)
            .prop_filter_map("no positions", |parts| Some((parts.clone(), Order::of(&parts)?)))
    }

    /// Values near the limits, and others; columns without a part in positions have integers, too.
    fn values(parts: &[Option<Part>]) -> impl Strategy<Value = Vec<Number>> + use<> {
        let near = |at: i64| select(vec![at, at.saturating_add(1), at.saturating_sub(1)]);
        let value = |part: &Option<Part>| match part.unwrap_or(LARGE) {
            Part::Integer(least, greatest) => {
                let any = prop_oneof![near(least), near(0), near(greatest), any::<i64>()];
                any.prop_map(move |number| Number::Integer(number.clamp(least, greatest))).boxed()
            }
            Part::Uuid | Part::Prefix => {
                let bytes = || select(vec![0, 1, 0xff]);
                let near = prop::array::uniform16(bytes());
                let bytes = prop_oneof![near, any::<[u8; 16]>()];
                bytes.prop_map(|bytes| Number::Wide(Position::from_be_bytes(bytes))).boxed()
            }
        };
        parts.iter().map(value).collect::<Vec<_>>()
    }

    fn position(order: &Order, task: &[Number]) -> Position {
        order.position(|column| task.get(column).copied()).expect("a position")
    }

    /// Returns whether a task is at the start of a position or behind it.
    fn follows(order: &Order, task: &[Number], start: Position) -> bool {
        let (first, second) = order.start(start);
        let start: Vec<Number> = [Some(first), second].into_iter().flatten().collect();
        task[..order.columns()] >= start[..]
    }

    proptest! {
        #[test]
        fn positions_keep_the_order_and_hide_nothing(
            (order, tasks, further) in orders().prop_flat_map(|(parts, order)| {
                let tasks = prop::collection::vec(values(&parts), 2);
                (Just(order), tasks, select(vec![0, 1, u128::from(u64::MAX), 1 << 64]))
            })
        ) {
            let [one, other] = [&tasks[0], &tasks[1]];
            let [at, of_other] = [one, other].map(|task| position(&order, task));
            prop_assert!(at < LAST);
            if one < other {
                prop_assert!(at <= of_other);
            }
            if one != other && order.names(at) {
                prop_assert_ne!(at, of_other);
            }
            // A scan from the position of a task, or from a later one, misses no task there or behind it.
            for start in [at, at.saturating_add(further), order.first_of_half(order.half(at))] {
                prop_assert!(start > of_other || follows(&order, other, start));
            }
            // It begins at the task itself, except where tasks share a position.
            let (first, second) = order.start(at);
            prop_assert_eq!(order.position(|column| [Some(first), second][column]), Some(at));
        }
    }

    #[test]
    fn the_first_columns_make_the_position() {
        let columns =
            |parts: &[Option<Part>]| Order::of(parts).map(|order| (order.columns(), order.ties));
        assert_eq!(columns(&[Some(LARGE)]), Some((1, Ties::None)));
        assert_eq!(columns(&[Some(Part::Uuid)]), Some((1, Ties::None)));
        assert_eq!(columns(&[Some(SMALL), Some(LARGE)]), Some((2, Ties::None)));
        assert_eq!(columns(&[Some(LARGE), Some(Part::Uuid)]), Some((2, Ties::Rare)));
        assert_eq!(columns(&[Some(LARGE), None]), Some((1, Ties::Many)));
        assert_eq!(columns(&[Some(Part::Prefix)]), Some((1, Ties::Rare)));
        assert_eq!(columns(&[Some(SMALL), Some(Part::Prefix)]), Some((2, Ties::Rare)));
        assert_eq!(columns(&[Some(Part::Prefix), Some(LARGE)]), Some((1, Ties::Many)));
        assert_eq!(columns(&[Some(LARGE), Some(LARGE), None]), Some((2, Ties::Many)));
        assert_eq!(columns(&[Some(Part::Uuid), Some(LARGE)]), Some((1, Ties::Many)));
        assert_eq!(columns(&[None, Some(LARGE)]), None);
    }
}
