//! The indexes that `upgrade` creates: when a queue needs them, their columns and predicates.

use crate::field::Field;
use crate::listed::listed;
use crate::statement::change::MORTAL;
use crate::statement::subqueue::IN_STRICT_ORDER;
use crate::statement::{Table, join};
use crate::status::Status;

listed! {
    /// The indexes that a queue can need.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Index {
        /// Ready tasks in take order.
        Ready,
        /// Ready tasks by tube, in take order.
        Tube,
        /// Taken tasks by session.
        Taken,
        /// Tasks by the instant at which the worker must act.
        Due,
        /// Buried tasks in the order in which they are dug out.
        Buried,
        /// Tasks by end of life.
        Expiry,
        /// Ready tasks by sub-queue, in take order.
        Subqueue,
        /// Taken tasks by sub-queue.
        InFlight,
        /// Ready and waiting tasks by sub-queue, in take order.
        StrictSubqueue,
    }
}

impl Index {
    /// Returns whether the index begins with the sub-queue hash.
    pub fn is_by_subqueue(self) -> bool {
        matches!(self, Index::Subqueue | Index::StrictSubqueue | Index::InFlight)
    }

    /// Returns the suffix of the index's name.
    pub fn suffix(self) -> &'static str {
        match self {
            Index::Ready => "ready_idx",
            Index::Tube => "tube_idx",
            Index::Taken => "taken_idx",
            Index::Due => "due_idx",
            Index::Buried => "buried_idx",
            Index::Expiry => "expiry_idx",
            Index::Subqueue => "subqueue_idx",
            Index::InFlight => "in_flight_idx",
            Index::StrictSubqueue => "strict_subqueue_idx",
        }
    }
}

impl Table {
    pub fn create_index(&self, index: Index, name: &str) -> String {
        format!("CREATE INDEX {name} ON {} {}", self.qualified(), self.index_shape(index))
    }

    /// Returns an index's columns and predicate.
    pub fn index_shape(&self, index: Index) -> String {
        let columns = self
            .index_expression(index)
            .into_iter()
            .chain(self.index_columns(index).map(String::from));
        format!("({}) WHERE {}", join(columns, ", "), self.index_predicate(index))
    }

    /// Returns the expression that an index begins with, if it does not begin with a column.
    pub fn index_expression(&self, index: Index) -> Option<String> {
        index.is_by_subqueue().then(|| self.subqueue(""))
    }

    /// Returns whether the features need an index.
    pub fn needs_index(&self, index: Index) -> bool {
        match index {
            Index::Taken => true,
            // Takes from sub-queues use another index.
            Index::Ready => !self.features.has_subqueues(),
            Index::Due => self.has(Field::Runat),
            Index::Tube => self.has(Field::Tube) && !self.features.has_subqueues(),
            Index::Subqueue | Index::StrictSubqueue => {
                self.features.has_subqueues() && index == self.order_index()
            }
            Index::InFlight => self.features.has_subqueues(),
            Index::Buried => self.features.buries(),
            Index::Expiry => self.has(Field::Expires),
        }
    }

    fn index_columns(&self, index: Index) -> impl Iterator<Item = &str> {
        let fields = self.index_fields(index).into_iter().map(|field| self.field(field));
        fields.chain(self.index_order(index).iter().map(String::as_str))
    }

    /// Returns the states of the tasks in an index.
    pub fn index_states(&self, index: Index) -> Vec<Status> {
        match index {
            Index::Ready | Index::Tube | Index::Subqueue => vec![Status::Ready],
            Index::Taken | Index::InFlight => vec![Status::Taken],
            Index::Buried => vec![Status::Buried],
            Index::StrictSubqueue => IN_STRICT_ORDER.to_vec(),
            Index::Due | Index::Expiry => self.timed(index).0.to_vec(),
        }
    }

    /// Returns the fields that an index begins with, after the sub-queue hash if it has one.
    pub fn index_fields(&self, index: Index) -> Vec<Field> {
        let priority = self.has(Field::Priority).then_some(Field::Priority);
        match index {
            Index::Ready | Index::Subqueue | Index::StrictSubqueue | Index::Buried => {
                priority.into_iter().collect()
            }
            Index::Tube => [Field::Tube].into_iter().chain(priority).collect(),
            Index::Taken => vec![Field::Owner],
            Index::Due => vec![Field::Runat],
            Index::Expiry => vec![Field::Expires],
            Index::InFlight => vec![],
        }
    }

    /// Returns the columns of the take order that an index ends with.
    pub fn index_order(&self, index: Index) -> &[String] {
        match index {
            Index::Ready | Index::Tube | Index::Buried => &self.order,
            Index::Subqueue | Index::StrictSubqueue => &self.order,
            Index::Taken | Index::Due | Index::Expiry | Index::InFlight => &[],
        }
    }

    /// Returns the condition on the tasks in an index.
    pub fn index_predicate(&self, index: Index) -> String {
        let states = self.in_states(&self.index_states(index));
        match index {
            Index::Due | Index::Expiry => {
                format!("{states} AND {} IS NOT NULL", self.timed(index).1)
            }
            _ => states,
        }
    }

    /// Returns the states in which a time column applies, and that column.
    fn timed(&self, index: Index) -> ([Status; 3], &str) {
        match index {
            Index::Expiry => (MORTAL, self.field(Field::Expires)),
            _ => ([Status::Taken, Status::Waiting, Status::Zombie], self.field(Field::Runat)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::tests::table;

    const ALL: &str = r#"{"delayed": true, "ttl": 60, "priority": true, "tube": true}"#;

    #[test]
    fn indexes_follow_the_order_of_take() {
        let columns = |index| table(ALL).index_columns(index).collect::<Vec<_>>().join(",");
        assert_eq!(columns(Index::Ready), "priority,a,b");
        assert_eq!(columns(Index::Tube), "tube,priority,a,b");
        assert_eq!(columns(Index::Buried), "priority,a,b");
        assert!(!table("{}").needs_index(Index::Tube));
    }
}
