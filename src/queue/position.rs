//! Positions of tasks in a queue, for low-water marks.

use crate::queue::handle::Queue;
use crate::queue::order::Order;
use crate::server::row::Row;
use crate::server::value::Value;
use pgrx::pg_sys::Oid;
use xqueue_core::change::StateAndTube;
use xqueue_core::field::Field;
use xqueue_core::position::{self, Group, Position};

impl Queue {
    /// Returns the position at a value of the order's column; None if the queue has no marks.
    pub fn position(&self, value: Value) -> Option<Position> {
        Some(number(self.order?, value))
    }

    /// Returns the position of a row; None if the queue has no marks.
    pub fn position_of(&self, row: &impl Row) -> Option<Position> {
        self.order.and_then(|_| self.position(row.value(self.ordered_by.first()?.number)?))
    }

    /// Returns a key of one column as a number; None if no number stands for the key alone.
    pub fn key_number(&self, key: Value) -> Option<u128> {
        Some(number(self.key_order?, key)).filter(|number| *number < position::of_bytes([0xff; 16]))
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

    /// Returns the position of a buried task whose column of the order is at `key`.
    pub fn position_by_priority(&self, key: Position, priority: Option<i64>) -> Option<Position> {
        if !self.by_priority {
            return Some(key);
        }
        // Half of a uuid gives a position that is not after the task's.
        let half = if self.order? == Order::Uuid { (key >> 64) as u64 } else { key as u64 };
        Some(position::of_pair(priority?, half))
    }

    /// Returns the key, and the priority if marks go by priority, of a buried task at or before this position.
    pub fn buried_at<'to>(&self, position: Position) -> Option<(Option<i64>, Value<'to>)> {
        if !self.by_priority {
            return Some((None, self.key_at(position)?));
        }
        let (priority, half) = position::to_pair(position);
        let key = Position::from(half);
        let key = if self.order? == Order::Uuid { key << 64 } else { key };
        Some((Some(priority), self.key_at(key)?))
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

    /// Returns the key at a position.
    pub fn key_at<'to>(&self, position: Position) -> Option<Value<'to>> {
        match self.order? {
            Order::Uuid => Some(Value::uuid(position::to_bytes(position))),
            Order::Integer(least, greatest) => {
                let key = position::to_integer(position, (least, greatest));
                Value::integer_or_instant(key, self.key_base())
            }
        }
    }

    fn key_base(&self) -> Oid {
        self.ordered_by.first().map_or(Oid::INVALID, |column| column.base)
    }
}

fn number(order: Order, value: Value) -> u128 {
    match order {
        Order::Uuid => position::of_bytes(value.to_uuid()),
        Order::Integer(..) => position::of_integer(value.to_integer_or_instant()),
    }
}
