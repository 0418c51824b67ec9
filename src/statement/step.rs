//! Statements about tasks named by key, for consumers and administrators.

use crate::model::field::Field;
use crate::model::form::Form;
use crate::model::status::Status;
use crate::statement::{
    CLOCK, EQUALS, PLUS, Parameter, Parameters, Return, Table, Text, interval, join,
};

/// A step with a task.
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

impl Verb {
    /// Returns whether only the session that holds the task may do it.
    pub fn is_owners(self) -> bool {
        matches!(self, Verb::Ack | Verb::Release | Verb::Bury | Verb::Touch)
    }
}

/// A statement about named tasks, and which values the call gives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    pub verb: Verb,
    pub form: Form,
    pub delay: bool,
    pub ttl: bool,
    pub attempt: bool,
    /// A release without the delay between attempts.
    pub at_once: bool,
    /// Several tasks at once, for a key of one column.
    pub many: bool,
    /// Numbers of the columns to set.
    pub update: Vec<i16>,
    /// Each value is a parameter; else one jsonb object holds them all.
    pub plain: bool,
}

impl Step {
    pub fn new(verb: Verb, form: Form) -> Step {
        Step {
            verb,
            form,
            delay: false,
            ttl: false,
            attempt: false,
            at_once: false,
            many: false,
            update: vec![],
            plain: true,
        }
    }
}

impl Table {
    /// Applies a step to one task, or to those of several, in the required state. Returns the changed tasks; for several
    /// also their keys.
    pub fn step(&self, step: &Step) -> Text {
        let mut parameters = Parameters::default();
        let set = self.outcome(step, &mut parameters);
        let condition = self.is_fit(step, &mut parameters);
        let (table, mut result) = (self.qualified(), self.result(step.form));
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
            "({}) = (SELECT {values} FROM pg_catalog.jsonb_populate_record(NULL::{}, {}) AS new)",
            columns.join(", "),
            self.qualified(),
            parameters.add(Parameter::Task)
        )]
    }

    /// Returns whether an ack deletes the task.
    pub fn ack_deletes(&self, has_delay: bool) -> bool {
        let features = &self.features;
        let stays = has_delay || features.default_zombie().is_some();
        !(features.keeps() || features.zombies() && stays)
    }

    /// Returns the assignments of a step; None if it deletes the task.
    fn outcome(&self, step: &Step, parameters: &mut Parameters) -> Option<Vec<String>> {
        let delay = step.delay.then(|| parameters.add(Parameter::Delay));
        let ttl = step.ttl.then(|| parameters.add(Parameter::Ttl));
        let renews = matches!(step.verb, Verb::Restart | Verb::Switch(_));
        let back = |failed| {
            let (delay, ttl) = (delay.clone(), ttl.clone());
            self.returned(&Return { delay, ttl, failed, renews, at_once: step.at_once })
        };
        match step.verb {
            Verb::Ack if self.ack_deletes(step.delay) => None,
            Verb::Ack if self.features.keeps() => Some(self.put_away(Status::Done, None)),
            Verb::Ack => Some(self.put_away(Status::Zombie, self.zombie_time(delay))),
            Verb::Release => Some(back(Some("released"))),
            Verb::Bury => {
                let mut set = self.put_away(Status::Buried, None);
                set.extend(self.prolonged(None, ttl.as_deref()));
                Some(set)
            }
            Verb::Touch => Some(self.touched(&parameters.add(Parameter::Increment))),
            Verb::Dig | Verb::Snatch | Verb::Restart => Some(back(None)),
            Verb::Switch(Status::Ready | Status::Waiting) => Some(back(None)),
            Verb::Switch(Status::Zombie) => {
                Some(self.put_away(Status::Zombie, self.zombie_time(delay)))
            }
            Verb::Switch(status) => {
                let mut set = self.put_away(status, None);
                set.extend(self.renewed(None).filter(|_| status == Status::Buried));
                Some(set)
            }
            Verb::Delete => None,
        }
    }

    /// Returns the assignments by which a task comes to a state that takes ignore.
    fn put_away(&self, status: Status, runat: Option<String>) -> Vec<String> {
        let mut set = vec![
            format!("{} = {}", self.status(), self.label(status)),
            format!("{} = NULL", self.field(Field::Owner)),
        ];
        if self.has(Field::Runat) {
            let runat = runat.unwrap_or("NULL".into());
            set.push(format!("{} = {runat}", self.field(Field::Runat)));
        }
        // The reason of an earlier burial is cleared, unless the task stays buried.
        let reason = self.fields.get(&Field::Reason).filter(|_| status != Status::Buried);
        set.extend(reason.map(|reason| format!("{reason} = NULL")));
        set
    }

    /// Returns the instant at which a task acked now is deleted; None if it stays.
    fn zombie_time(&self, delay: Option<String>) -> Option<String> {
        let length = delay.or(self.features.default_zombie().map(interval))?;
        Some(format!("{CLOCK} {PLUS} {length}"))
    }

    fn touched(&self, increment: &str) -> Vec<String> {
        let deadline = self.features.has_deadlines().then_some(Field::Runat);
        let life = self.features.expires().then_some(Field::Expires);
        let columns = deadline.into_iter().chain(life).map(|field| self.field(field));
        columns.map(|column| format!("{column} = task.{column} {PLUS} {increment}")).collect()
    }

    /// Returns the conditions under which the step applies.
    fn is_fit(&self, step: &Step, parameters: &mut Parameters) -> String {
        let mut conditions = vec![match step.many {
            true => self.is_among_keys(parameters),
            false => self.has_key(parameters),
        }];
        let state = match step.verb {
            verb if verb.is_owners() => Some(self.is(Status::Taken)),
            Verb::Dig => Some(self.is(Status::Buried)),
            Verb::Snatch => Some(self.is(Status::Taken)),
            Verb::Switch(_) => Some(format!("NOT ({})", self.is(Status::Taken))),
            Verb::Restart => Some(self.is_one_of(&[Status::Waiting, Status::Zombie, Status::Done])),
            _ => None,
        };
        conditions.extend(state.map(|state| hidden(&state)));
        if step.verb.is_owners() {
            let session = parameters.add(Parameter::Session);
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
        Step::new(verb, Form::Json)
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
    }

    #[test]
    fn a_delay_puts_off_the_end_of_life() {
        let table = table(r#"{"ttl": true, "delayed": true}"#);
        let delayed = Step { delay: true, ..step(Verb::Release) };
        assert!(
            table.step(&delayed).sql.contains("expires = task.expires OPERATOR(pg_catalog.+) $1")
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
