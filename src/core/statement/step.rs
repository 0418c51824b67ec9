//! Statements about tasks named by key, for consumers and administrators.

use crate::field::Field;
use crate::statement::{EQUALS, Parameter, Parameters, Table, Text, join};
use crate::status::Status;

/// A verb for named tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    Ack,
    Release,
    Bury,
    Touch,
    /// From buried.
    Dig,
    /// To any state, by any session; not for taken tasks.
    Switch(Status),
    /// Takes the task away from its session.
    Snatch,
    /// From waiting, zombie or done.
    Restart,
    Delete,
}

/// A statement about named tasks, and the values that the call gives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    pub verb: Verb,
    pub delay: bool,
    pub ttl: bool,
    pub attempt: bool,
    /// A release without the delay between attempts.
    pub at_once: bool,
    /// A release that does not count as an attempt.
    pub unused: bool,
    /// The error of an attempt.
    pub error: bool,
    /// Several tasks in one statement, for a key of one column.
    pub many: bool,
    /// Numbers of the columns to set.
    pub update: Vec<i16>,
    /// Each value is a parameter; otherwise one jsonb object holds all values.
    pub plain: bool,
}

impl Step {
    pub fn new(verb: Verb) -> Step {
        Step {
            verb,
            delay: false,
            ttl: false,
            attempt: false,
            at_once: false,
            unused: false,
            error: false,
            many: false,
            update: vec![],
            plain: true,
        }
    }
}

impl Table {
    /// Applies a step to the named tasks that are in the required state. Returns the changed tasks; for several tasks
    /// also their keys.
    pub fn step(&self, step: &Step) -> Text {
        let mut parameters = Parameters::default();
        let set = self.on_step(step).map(|set| self.assign(set, &mut parameters));
        let condition = self.is_fit(step, &mut parameters);
        let (table, mut result) = (self.qualified(), self.row());
        if step.many {
            result += &format!(", {}", self.key_list("task."));
        }
        let sql = match set {
            None => {
                format!("DELETE FROM ONLY {table} AS task WHERE {condition} RETURNING {result}")
            }
            Some(mut set) => {
                set.extend(self.updated(step, &mut parameters));
                let set = set.join(", ");
                format!(
                    "UPDATE ONLY {table} AS task SET {set} WHERE {condition} RETURNING {result}"
                )
            }
        };
        parameters.text(sql)
    }

    /// Returns the assignments of the caller's update.
    fn updated(&self, step: &Step, parameters: &mut Parameters) -> Vec<String> {
        let columns = step.update.iter();
        let columns = columns.filter_map(|number| Some((*number, self.columns.get(number)?)));
        if step.plain {
            let set = |(number, column): (i16, &String)| {
                format!("{column} = {}", parameters.add(Parameter::Column(number)))
            };
            return columns.map(set).collect();
        }
        let columns: Vec<&str> = columns.map(|(_, column)| column.as_str()).collect();
        let values = join(columns.iter().map(|column| format!("new.{column}")), ", ");
        vec![format!(
            "({}) = (SELECT {values} FROM pg_catalog.jsonb_populate_record({}, {}) AS new)",
            columns.join(", "),
            parameters.add(Parameter::EmptyRow),
            parameters.add(Parameter::Task)
        )]
    }

    /// Returns the conditions under which the step applies.
    fn is_fit(&self, step: &Step, parameters: &mut Parameters) -> String {
        let mut conditions = vec![match step.many {
            true => self.is_among_keys(parameters),
            false => self.has_key(parameters),
        }];
        let applies = step.verb.applies();
        conditions.extend(self.in_states_of(applies).map(|state| hidden(&state)));
        if applies.own {
            let session = self.session(parameters);
            let is_owner = format!("task.{} {EQUALS} {session}", self.field(Field::Owner));
            conditions.push(hidden(&is_owner));
        }
        if step.attempt {
            let attempt = parameters.add(Parameter::Attempt);
            conditions.push(format!("task.{} {EQUALS} {attempt}", self.field(Field::Attempts)));
        }
        join(conditions.into_iter(), " AND ")
    }
}

/// Hides a condition from the planner, so that it never leads to a partial index.
pub(super) fn hidden(condition: &str) -> String {
    format!("coalesce({condition}, false)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::tests::table;

    fn step(verb: Verb) -> Step {
        Step::new(verb)
    }

    #[test]
    fn an_ack_deletes_keeps_or_lets_linger() {
        let ack = step(Verb::Ack);
        let delayed = Step { delay: true, ..ack.clone() };
        assert!(table("{}").step(&ack).sql.starts_with("DELETE"));
        assert!(table(r#"{"keep": true}"#).step(&ack).sql.contains("status = 'D'"));
        let zombie = table(r#"{"zombie": true}"#);
        assert!(zombie.step(&ack).sql.starts_with("DELETE"));
        assert!(zombie.step(&delayed).sql.contains("status = 'Z'"));
        let default = table(r#"{"zombie": 60}"#).step(&ack).sql;
        assert!(default.contains("'60000000 microseconds'"), "{default}");
    }

    #[test]
    fn an_update_takes_a_parameter_for_each_column() {
        let step = Step { update: vec![7], attempt: false, ..step(Verb::Release) };
        let text = table("{}").step(&step);
        assert!(text.sql.contains("progress = $"), "{}", text.sql);
        assert!(text.parameters.contains(&Parameter::Column(7)));
        let text = table("{}").step(&Step { plain: false, ..step });
        assert!(text.parameters.ends_with(&[Parameter::EmptyRow, Parameter::Task]), "{}", text.sql);
    }

    #[test]
    fn a_delay_puts_off_the_end_of_life() {
        let table = table(r#"{"ttl": true, "delayed": true}"#);
        let delayed = Step { delay: true, ..step(Verb::Release) };
        assert!(
            table.step(&delayed).sql.contains("ELSE task.expires OPERATOR(pg_catalog.+) $1 END")
        );
        let both = Step { ttl: true, ..delayed };
        assert!(table.step(&both).sql.contains("$1 OPERATOR(pg_catalog.+) $2"));
    }

    #[test]
    fn only_the_owner_acks_and_anybody_snatches() {
        for verb in [Verb::Ack, Verb::Release, Verb::Bury, Verb::Touch] {
            let text = table(r#"{"ttr": true}"#).step(&step(verb));
            assert!(text.parameters.contains(&Parameter::Session), "{verb:?}");
        }
        for verb in [Verb::Snatch, Verb::Dig, Verb::Restart, Verb::Delete] {
            let text = table("{}").step(&step(verb));
            assert!(!text.parameters.contains(&Parameter::Session), "{verb:?}");
        }
    }
}
