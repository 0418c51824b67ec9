//! SQL for sub-queues. A sub-queue is identified by the hash of its label.
//!
//! * The hash is keyed with a secret of the database, see `queue::digest` of the extension; it is the same function for
//!   all types, and also hashes NULL.
//! * The one-element array and the order by sub-queue leave the planner only the index that begins with the sub-queue.
//! * A subselect finds the first task, which is then locked by ctid: FOR UPDATE SKIP LOCKED in the subselect would skip
//!   a locked task and break the order.

use crate::field::Field;
use crate::level;
use crate::statement::step::hidden;
use crate::statement::{CLOCK, EQUALS, INTERNAL, Index, Parameter, Parameters, Table, Text};
use crate::status::Status;

pub(super) const IN_STRICT_ORDER: [Status; 2] = [Status::Ready, Status::Waiting];

impl Table {
    /// Returns the states of the tasks that count in the order of their sub-queue. With strict sub-queues a waiting
    /// task holds up the tasks behind it.
    pub(super) fn in_order(&self) -> &'static [Status] {
        match self.features.has_strict_subqueues() {
            true => &IN_STRICT_ORDER,
            false => &[Status::Ready],
        }
    }

    /// Returns the index of these tasks.
    pub fn order_index(&self) -> Index {
        match self.features.has_strict_subqueues() {
            true => Index::StrictSubqueue,
            false => Index::Subqueue,
        }
    }

    /// Returns the sub-queue hash of the row named by `prefix`.
    pub(super) fn subqueue(&self, prefix: &str) -> String {
        let tube = self.field(Field::Tube);
        format!("{INTERNAL}.subqueue({prefix}{tube})")
    }

    /// Selects and locks the first task of a sub-queue if it is ready and no other transaction has locked it.
    pub(super) fn picking_in_subqueue(
        &self,
        marked: bool,
        limited: bool,
        parameters: &mut Parameters,
    ) -> String {
        let subqueue = parameters.add(Parameter::Subqueue);
        let mark = marked.then(|| self.is_at_or_behind("head.", false, parameters));
        let mut is_next = self.is(Status::Ready);
        if limited {
            let (level, limit) = (self.level("task."), parameters.add(Parameter::Level));
            is_next += &format!(" AND {level} OPERATOR(pg_catalog.<=) {limit}");
        }
        format!(
            "SELECT {} FROM ONLY {} AS task WHERE task.ctid {EQUALS} ({}) AND {} FOR NO KEY UPDATE SKIP LOCKED",
            self.key_list("task."),
            self.qualified(),
            self.first_of("head.ctid", &subqueue, mark.as_deref()),
            hidden(&is_next),
        )
    }

    /// Selects the level of a sub-queue's first task, if it is takeable.
    pub fn first_level(&self) -> Text {
        let mut parameters = Parameters::default();
        let subqueue = parameters.add(Parameter::Subqueue);
        let level = self.first_of(&self.level("head."), &subqueue, None);
        parameters.text(format!("SELECT ({level}) WHERE {}", self.takeable(&subqueue)))
    }

    /// Returns a task's level among the sub-queues of a queue with priorities, see [`crate::level`].
    fn level(&self, prefix: &str) -> String {
        let priority = self.field(Field::Priority);
        format!("coalesce({prefix}{priority}::pg_catalog.int8, {})", level::LAST)
    }

    /// Selects the sub-queue of one task.
    pub fn subqueue_of_task(&self) -> Text {
        let mut parameters = Parameters::default();
        let (subqueue, key) = (self.subqueue("task."), self.has_key(&mut parameters));
        parameters
            .text(format!("SELECT {subqueue} FROM ONLY {} AS task WHERE {key}", self.qualified()))
    }

    /// Selects whether the first task of a sub-queue is takeable; NULL if the sub-queue is empty.
    pub fn is_takeable(&self) -> Text {
        let mut parameters = Parameters::default();
        let subqueue = parameters.add(Parameter::Subqueue);
        parameters.text(format!("SELECT {}", self.takeable(&subqueue)))
    }

    /// Selects sub-queues that have tasks, from a given hash on and up to a limit. Each row also says whether the first
    /// task is takeable, and its level.
    pub fn subqueues(&self) -> Text {
        let mut parameters = Parameters::default();
        let (from, limit) = (parameters.add(Parameter::Subqueue), parameters.add(Parameter::Limit));
        let level = match self.has(Field::Priority) {
            true => self.first_of(&self.level("head."), "subqueues.subqueue", None),
            false => "NULL::pg_catalog.int8".into(),
        };
        let next = |operator: &str, bound: &str| {
            let subqueue = self.subqueue("task.");
            format!(
                "(SELECT {subqueue} FROM ONLY {} AS task WHERE {subqueue} OPERATOR(pg_catalog.{operator}) {bound} \
                 AND {} ORDER BY {subqueue} LIMIT 1)",
                self.qualified(),
                self.is_one_of(self.in_order()),
            )
        };
        parameters.text(format!(
            "WITH RECURSIVE subqueues(subqueue, place) AS (SELECT {}, 1 UNION ALL SELECT {}, \
             subqueues.place OPERATOR(pg_catalog.+) 1 FROM subqueues WHERE subqueues.subqueue IS NOT NULL \
             AND subqueues.place OPERATOR(pg_catalog.<) {limit}) \
             SELECT subqueues.subqueue, {}, ({}) FROM subqueues WHERE subqueues.subqueue IS NOT NULL",
            next(">=", &from),
            next(">", "subqueues.subqueue"),
            self.takeable("subqueues.subqueue"),
            level,
        ))
    }

    fn takeable(&self, subqueue: &str) -> String {
        let is_ready = format!("head.{} {EQUALS} {}", self.status(), self.label(Status::Ready));
        format!(
            "({}) AND ({}) IS NULL",
            self.first_of(&is_ready, subqueue, None),
            self.taken_of(subqueue)
        )
    }

    /// Selects from the first task of a sub-queue. `mark`: the condition that it is not before the mark.
    fn first_of(&self, what: &str, subqueue: &str, mark: Option<&str>) -> String {
        let mut condition = format!(
            "{} AND head.{}",
            self.is_in("head.", subqueue),
            self.in_states(self.in_order())
        );
        if let Some(expires) = self.fields.get(&Field::Expires) {
            condition += &format!(
                " AND (head.{expires} IS NULL OR head.{expires} OPERATOR(pg_catalog.>) {})",
                self.last_until(Field::Expires, CLOCK)
            );
        }
        if let Some(mark) = mark {
            condition += &format!(" AND {mark}");
        }
        format!(
            "SELECT {what} FROM ONLY {} AS head WHERE {condition} ORDER BY {}, {} LIMIT 1",
            self.qualified(),
            self.subqueue("head."),
            self.take_order("head."),
        )
    }

    /// Selects true if a task of the sub-queue is taken, else NULL.
    fn taken_of(&self, subqueue: &str) -> String {
        format!(
            "SELECT true FROM ONLY {} AS other WHERE {} AND other.{} {EQUALS} {} ORDER BY {} LIMIT 1",
            self.qualified(),
            self.is_in("other.", subqueue),
            self.status(),
            self.label(Status::Taken),
            self.subqueue("other."),
        )
    }

    fn is_in(&self, prefix: &str, subqueue: &str) -> String {
        format!("{} {EQUALS} ANY (ARRAY[{subqueue}])", self.subqueue(prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::tests::table;

    #[test]
    fn the_first_task_is_found_in_the_order_of_the_subqueue() {
        let table = table(r#"{"utube": true, "priority": true, "ttl": 60}"#);
        let mut parameters = Parameters::default();
        let pick = table.picking_in_subqueue(false, false, &mut parameters);
        let subqueue = "xqueue_internal.subqueue(head.tube)";
        assert!(
            pick.contains(&format!("ORDER BY {subqueue}, head.priority, head.a, head.b LIMIT 1")),
            "{pick}"
        );
        assert!(pick.contains("head.expires IS NULL"), "{pick}");
        assert!(pick.ends_with("'R', false) FOR NO KEY UPDATE SKIP LOCKED"), "{pick}");
        assert_eq!(parameters.text(pick).parameters, [Parameter::Subqueue]);
    }

    #[test]
    fn a_first_task_that_is_not_urgent_enough_is_left() {
        let table = table(r#"{"utube": true, "priority": true}"#);
        let mut parameters = Parameters::default();
        let pick = table.picking_in_subqueue(false, true, &mut parameters);
        let limit = "AND coalesce(task.priority::pg_catalog.int8, 9223372036854775807) \
                     OPERATOR(pg_catalog.<=) $2, false)";
        assert!(pick.contains(limit), "{pick}");
        assert_eq!(parameters.text(pick).parameters, [Parameter::Subqueue, Parameter::Level]);
        let level = table.first_level().sql;
        assert!(level.starts_with("SELECT (SELECT coalesce(head.priority"), "{level}");
    }

    #[test]
    fn a_task_that_waits_stands_in_line_only_where_that_is_strict() {
        for (utube, condition, index) in [
            ("true", "head.status OPERATOR(pg_catalog.=) 'R'", Index::Subqueue),
            (
                r#"{"strict": true}"#,
                "head.status OPERATOR(pg_catalog.=) ANY (ARRAY['R', 'W']::\"char\"[])",
                Index::StrictSubqueue,
            ),
        ] {
            let table = table(&format!(r#"{{"utube": {utube}, "delayed": true}}"#));
            let pick = table.picking_in_subqueue(false, false, &mut Parameters::default());
            assert!(pick.contains(&format!("AND {condition} ORDER BY")), "{pick}");
            assert_eq!(table.order_index(), index);
            let needed =
                [Index::Subqueue, Index::StrictSubqueue].map(|index| table.needs_index(index));
            assert_eq!(needed, [index == Index::Subqueue, index == Index::StrictSubqueue]);
            assert_eq!(table.index_states(index), table.in_order());
        }
    }

    #[test]
    fn a_mark_is_where_the_look_begins() {
        let mut parameters = Parameters::default();
        let mut table = table(r#"{"utube": true}"#);
        (table.order, table.marked) = (vec!["a".into()], 1);
        let pick = table.picking_in_subqueue(true, false, &mut parameters);
        assert!(pick.contains("head.a OPERATOR(pg_catalog.>=) $2"), "{pick}");
    }
}
