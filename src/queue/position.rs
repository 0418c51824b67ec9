//! Positions of tasks in a queue, for low-water marks.

use crate::queue::handle::Queue;
use crate::queue::order::{number, value};
use crate::queue::start::Start;
use crate::server::row::Row;
use crate::server::value::Value;
use pgrx::pg_sys::Oid;
use xqueue_core::change::StateAndTube;
use xqueue_core::field::Field;
use xqueue_core::position::{self, Group, Position};

impl Queue {
    /// Returns the position at values of the columns that have a part in positions; None if the queue has no marks.
    pub fn position<'v>(&self, value: impl Fn(usize) -> Option<Value<'v>>) -> Option<Position> {
        self.order?.position(|column| value(column).map(number))
    }

    /// Returns the position of a row; None if the queue has no marks.
    pub fn position_of(&self, row: &impl Row) -> Option<Position> {
        self.position(|column| row.value(self.ordered_by.get(column)?.number))
    }

    /// Returns a key of one column as a number; None if no number stands for the key alone.
    pub fn key_number(&self, key: Value) -> Option<u128> {
        let order = self.key_order?;
        order.position(|_| Some(number(key))).filter(|number| order.names(*number))
    }

    /// Returns the key of a row as a number, see [`Self::key_number`].
    pub fn key_number_of(&self, row: &impl Row) -> Option<u128> {
        self.key_number(row.value(self.key.first()?.number)?)
    }

    /// Returns the position of a buried task, which includes its priority if marks go by priority.
    pub fn position_of_buried(&self, row: &impl Row) -> Option<Position> {
        let priority = self.priority(self.value_of(row, Field::Priority));
        self.position_by_priority(self.position_of(row)?, priority)
    }

    /// Returns the position of a buried task that would be at `position` without priorities.
    pub fn position_by_priority(
        &self,
        position: Position,
        priority: Option<i64>,
    ) -> Option<Position> {
        if !self.by_priority {
            return Some(position);
        }
        // With half of a position, the result is not behind the task.
        Some(position::of_pair(priority?, self.order?.half(position)))
    }

    /// Returns where a scan of buried tasks begins that misses none at this position or behind it. With a priority if
    /// marks go by priority.
    pub fn buried_at<'to>(&self, position: Position) -> Option<(Option<i64>, Start<'to>)> {
        if !self.by_priority {
            return Some((None, self.start_at(position)?));
        }
        let (priority, half) = position::to_pair(position);
        Some((Some(priority), self.start_at(self.order?.first_of_half(half))?))
    }

    /// Returns where a scan begins that misses no task at this position or behind it.
    pub fn start_at<'to>(&self, position: Position) -> Option<Start<'to>> {
        let (first, second) = self.order?.start(position);
        let column = |at: usize| self.ordered_by.get(at).map_or(Oid::INVALID, |column| column.base);
        let second = match second {
            Some(second) => Some(value(second, column(1))?),
            None => None,
        };
        Some(Start { first: value(first, column(0))?, second })
    }

    /// Returns the group of a ready task for marks.
    pub fn group_of(&self, row: &impl Row, place: &StateAndTube) -> Group {
        let priority = self.priority(self.value_of(row, Field::Priority));
        Group::Ready { tube: place.tube.map(|tube| tube.hash), priority }
    }

    /// Returns the priority that a column value stands for, if marks go by priority.
    pub fn priority(&self, value: Option<Value>) -> Option<i64> {
        self.priority_base()?;
        value?.try_integer()
    }

    /// Returns the column value that stands for a priority.
    pub fn priority_value<'to>(&self, priority: i64) -> Option<Value<'to>> {
        Value::integer(priority, self.priority_base()?)
    }

    fn priority_base(&self) -> Option<Oid> {
        let number = self.number_of(Field::Priority);
        let column =
            self.columns().iter().find(|column| self.by_priority && column.number == number);
        column.map(|column| column.base)
    }
}
