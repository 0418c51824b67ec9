//! The tubes of a queue: hashes of labels for wake-ups, statistics and sub-queues.

use crate::queue::digest::{keyed, subqueue};
use crate::queue::handle::Queue;
use crate::server::relation::ColumnType;
use crate::server::row::Row;
use crate::server::value::Value;
use xqueue_core::change::Tube;
use xqueue_core::field::Field;
use xqueue_core::level::{self, Level};
use xqueue_core::position::{FIRST, Position};

impl Queue {
    /// Returns the tube of a row; None if the queue has no tubes.
    pub fn tube_of(&self, row: &impl Row) -> Option<Tube> {
        let column = self.tube()?;
        Some(match self.value_of(row, Field::Tube) {
            Some(value) => self.tube_named(value, column),
            None => self.without_label(column),
        })
    }

    /// Returns the tube that a value of the tube column names.
    pub fn tube_named(&self, value: Value, column: &ColumnType) -> Tube {
        let is_subqueue = self.features().has_subqueues();
        let labels = &self.counted_labels;
        let keyed = (!is_subqueue || !labels.is_empty()).then(|| keyed(value, column));
        let hash =
            keyed.filter(|_| !is_subqueue).unwrap_or_else(|| self.subqueue(Some(value), column));
        let counted = labels.iter().position(|label| label.is_some() && *label == keyed);
        Tube { hash, counted, is_subqueue, is_strict: self.features().has_strict_subqueues() }
    }

    fn without_label(&self, column: &ColumnType) -> Tube {
        let is_subqueue = self.features().has_subqueues();
        let hash = if is_subqueue { self.subqueue(None, column) } else { NO_LABEL };
        let is_strict = self.features().has_strict_subqueues();
        Tube { hash, counted: None, is_subqueue, is_strict }
    }

    fn subqueue(&self, label: Option<Value>, column: &ColumnType) -> u64 {
        subqueue(label, column.collation, self.secret)
    }

    /// Returns the position of a row in its sub-queue; the first position if the key alone does not determine the
    /// order.
    pub fn position_in_subqueue(&self, row: &impl Row) -> Position {
        let is_by_key = !self.features().has_priority();
        is_by_key.then(|| self.position_of(row)).flatten().unwrap_or(FIRST)
    }

    /// Returns whether the priorities of their first tasks order the sub-queues. Not with row security, because these
    /// tasks are not visible to all roles.
    pub fn has_levels(&self) -> bool {
        let features = self.features();
        self.is_tracked && features.has_subqueues() && features.has_priority()
    }

    /// Returns the priority level that a row gives its sub-queue.
    pub fn level_of(&self, row: &impl Row) -> Level {
        let column = if self.has_levels() { self.column_of(Field::Priority) } else { None };
        let Some(column) = column else { return level::UNKNOWN };
        row.value(column.number).map_or(level::LAST, |priority| priority.to_integer())
    }

    /// Returns the column of the tubes, if the queue has one.
    pub fn tube(&self) -> Option<&ColumnType> {
        let number = self.number_of(Field::Tube);
        self.columns().iter().find(|column| number != 0 && column.number == number)
    }
}

/// The tube of tasks that have no label.
const NO_LABEL: u64 = 1;
