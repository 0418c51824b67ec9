//! Groups of tasks in SQL: conditions and an order that leave the planner only the matching index of
//! [`super::index`], from a mark on.

use crate::field::Field;
use crate::statement::{EQUALS, Parameter, Parameters, Table};
use crate::status::Status;

/// A group of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Within {
    /// Ready tasks, optionally of one tube or one priority.
    Ready {
        tube: bool,
        level: bool,
    },
    Buried,
}

impl Table {
    pub(super) fn is_within(&self, within: Within, parameters: &mut Parameters) -> String {
        let Within::Ready { tube, level } = within else { return self.is(Status::Buried) };
        let mut condition = self.is(Status::Ready);
        // The one-element array and the order by tube leave the planner only the index that begins with the tube.
        if tube {
            let (column, tube) = (self.field(Field::Tube), parameters.add(Parameter::Tube));
            condition += &format!(" AND task.{column} {} ANY (ARRAY[{tube}])", self.tube_equals);
        }
        if level {
            let (column, level) = (self.field(Field::Priority), parameters.add(Parameter::Level));
            condition += &format!(" AND task.{column} {EQUALS} {level}");
        }
        condition
    }

    /// Returns the condition that a task is not before the mark. Marks of buried tasks are in order of priority and
    /// column.
    pub(super) fn is_at_or_behind_mark(
        &self,
        within: Within,
        parameters: &mut Parameters,
    ) -> String {
        let by_level = within == Within::Buried && self.has(Field::Priority);
        format!(" AND {}", self.is_at_or_behind("task.", by_level, parameters))
    }

    /// Returns the order in which the tasks are taken, or dug out.
    pub(super) fn order_within(&self, within: Within) -> String {
        match within {
            Within::Buried | Within::Ready { tube: false, .. } => self.take_order("task."),
            Within::Ready { tube: true, .. } => {
                format!("task.{}, {}", self.field(Field::Tube), self.take_order("task."))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::Index;
    use crate::statement::tests::table;

    #[test]
    fn the_index_of_a_tube_leads_to_its_tasks_of_a_priority() {
        let table = table(r#"{"priority": true, "tube": true}"#);
        let (within, mut parameters) =
            (Within::Ready { tube: true, level: true }, Parameters::default());
        let condition = table.is_within(within, &mut parameters);
        assert_eq!(
            condition,
            "task.status OPERATOR(pg_catalog.=) 'R' AND task.tube OPERATOR(pg_catalog.=) ANY (ARRAY[$1]) \
             AND task.priority OPERATOR(pg_catalog.=) $2"
        );
        assert_eq!(parameters.0, [Parameter::Tube, Parameter::Level]);
        assert_eq!(table.order_within(within), "task.tube, task.priority, task.a, task.b");
    }

    #[test]
    fn an_order_goes_before_the_key() {
        let mut table = table(r#"{"priority": true, "tube": true, "buried": true}"#);
        table.order.insert(0, "created".into());
        let order = "task.priority, task.created, task.a, task.b";
        assert_eq!(table.order_within(Within::Buried), order);
        let within = Within::Ready { tube: true, level: false };
        assert_eq!(table.order_within(within), format!("task.tube, {order}"));
        let shape = table.index_shape(Index::Buried);
        assert!(shape.starts_with("(priority, created, a, b) WHERE"), "{shape}");
    }

    #[test]
    fn buried_tasks_are_dug_out_in_the_order_of_takes() {
        assert_eq!(table("{}").order_within(Within::Buried), "task.a, task.b");
        let mut table = table(r#"{"priority": true}"#);
        assert_eq!(table.order_within(Within::Buried), "task.priority, task.a, task.b");
        (table.order, table.marked) = (vec!["a".into()], 1);
        let mut parameters = Parameters::default();
        let condition = table.is_at_or_behind_mark(Within::Buried, &mut parameters);
        assert_eq!(
            condition,
            " AND ROW(task.priority, task.a) OPERATOR(pg_catalog.>=) ROW($1, $2)"
        );
        assert_eq!(parameters.0, [Parameter::Level, Parameter::Mark(0)]);
    }
}
