//! Where tasks stand in a queue, as low-water marks know it.

use crate::model::change::Place;
use crate::model::field::Field;
use crate::model::position::{self, Group, Position};
use crate::queue::handle::Queue;
use crate::queue::order::Order;
use crate::server::row::Row;
use crate::server::value::Value;
use pgrx::pg_sys::Oid;

impl Queue {
    /// Where a key stands in the queue; None if it has no marks.
    pub fn position(&self, key: Value) -> Option<Position> {
        Some(match self.order? {
            Order::Uuid => position::of_bytes(key.to_uuid()),
            Order::Integer(..) => position::of_integer(key.to_integer_or_instant()),
        })
    }

    /// The same of a row.
    pub fn position_of(&self, row: &impl Row) -> Option<Position> {
        self.order.and_then(|_| self.position(row.value(self.key.first()?.number)?))
    }

    /// The same, if the place tells the task from all others.
    pub fn named_position_of(&self, row: &impl Row) -> Option<Position> {
        self.position_of(row).filter(|position| *position < position::of_bytes([0xff; 16]))
    }

    /// Where a buried task stands: by its priority, too, if marks go by that.
    pub fn position_of_buried(&self, row: &impl Row) -> Option<Position> {
        let priority = self.priority(self.value_of(row, Field::Priority));
        self.position_by_priority(self.position_of(row)?, priority)
    }

    /// The place of a buried task whose key stands at `key`.
    pub fn position_by_priority(&self, key: Position, priority: Option<i64>) -> Option<Position> {
        if !self.by_priority {
            return Some(key);
        }
        // Of a uuid half tells where it stands: not behind it.
        let half = if self.order? == Order::Uuid { (key >> 64) as u64 } else { key as u64 };
        Some(position::by_priority(priority?, half))
    }

    /// The priority, if marks go by that, and the key at the place of a buried task, or before it.
    pub fn buried_at<'to>(&self, position: Position) -> Option<(Option<i64>, Value<'to>)> {
        if !self.by_priority {
            return Some((None, self.key_at(position)?));
        }
        let (priority, half) = position::parts(position);
        let key = Position::from(half);
        let key = if self.order? == Order::Uuid { key << 64 } else { key };
        Some((Some(priority), self.key_at(key)?))
    }

    /// The group of a ready task by which marks know it.
    pub fn group_of(&self, row: &impl Row, place: &Place) -> Group {
        let priority = self.priority(self.value_of(row, Field::Priority));
        Group::Ready { tube: place.tube.map(|tube| tube.hash), priority }
    }

    /// The priority that a value of its column means, if marks go by priority.
    pub fn priority(&self, value: Option<Value>) -> Option<i64> {
        self.priority_base()?;
        value?.try_integer()
    }

    /// The value of its column that means a priority.
    pub fn priority_value<'to>(&self, priority: i64) -> Option<Value<'to>> {
        Value::integer(priority, self.priority_base()?)
    }

    fn priority_base(&self) -> Option<Oid> {
        let number = self.number_of(Field::Priority);
        let column =
            self.columns().iter().find(|column| self.by_priority && column.number == number);
        column.map(|column| column.base)
    }

    /// The key that stands in a place.
    pub fn key_at<'to>(&self, position: Position) -> Option<Value<'to>> {
        match self.order? {
            Order::Uuid => Some(Value::uuid(position::to_bytes(position))),
            Order::Integer(least, greatest) => {
                let key = position::to_integer(position, (least, greatest));
                Value::integer_or_instant(key, self.key_base())
            }
        }
    }

    /// An array of the keys that stand in some places; None if the queue has no marks.
    pub fn keys_at<'to>(&self, positions: &[Position]) -> Option<Value<'to>> {
        let keys = positions.iter().map(|position| self.key_at(*position));
        let keys = keys.collect::<Option<Vec<_>>>()?;
        Some(Value::array(keys.into_iter(), self.key_base()))
    }

    fn key_base(&self) -> Oid {
        self.key.first().map_or(Oid::INVALID, |key| key.base)
    }
}
