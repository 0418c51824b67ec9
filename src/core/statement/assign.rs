//! The rules of [`super::rule`] as SQL: assignments, and the conditions under which they apply.

use crate::field::Field;
use crate::statement::rule::{Applies, Assigned, Assignment, Length, States};
use crate::statement::{CLOCK, EQUALS, PLUS, Parameter, Parameters, Table};
use crate::status::Status;
use crate::time::{LONGEST_TTR_DAYS, LONGEST_TTR_YEARS};

impl Table {
    /// Returns `column = value` for each assignment.
    pub(super) fn assign(
        &self,
        assignments: impl IntoIterator<Item = Assignment>,
        parameters: &mut Parameters,
    ) -> Vec<String> {
        let assign = |assignment: Assignment| {
            format!("{} = {}", self.field(assignment.field), self.value(assignment, parameters))
        };
        assignments.into_iter().map(assign).collect()
    }

    pub(super) fn value(&self, assignment: Assignment, parameters: &mut Parameters) -> String {
        let Assignment { field, value, after_last } = assignment;
        let limit = self.features.limit().filter(|_| value != after_last);
        let Some(limit) = limit else { return self.assigned(field, value, parameters) };
        let mut typed = |value| match value {
            Assigned::State(status) => self.typed_label(status),
            value => self.assigned(field, value, parameters),
        };
        let (value, after_last) = (typed(value), typed(after_last));
        format!(
            "CASE WHEN task.{0} OPERATOR(pg_catalog.>) 0 AND \
             (task.{0} OPERATOR(pg_catalog.%) {limit}) {EQUALS} 0 \
             THEN {after_last} ELSE {value} END",
            self.field(Field::Attempts)
        )
    }

    pub(super) fn assigned(
        &self,
        field: Field,
        value: Assigned,
        parameters: &mut Parameters,
    ) -> String {
        let column = self.field(field);
        match value {
            Assigned::State(status) => self.label(status).to_string(),
            Assigned::Null => self.empty(field),
            Assigned::Argument(Parameter::Session) => self.session(parameters),
            Assigned::Argument(parameter) => self.shortened(field, parameters.add(parameter)),
            Assigned::Later(length, and) => {
                let lengths = [Some(length), and].into_iter().flatten();
                let add = |sum, length| format!("{sum} {PLUS} {}", self.length(length, parameters));
                self.time_in_sql(field, &lengths.fold(CLOCK.to_string(), add))
            }
            Assigned::PutOff(length) => self.put_off(field, &self.length(length, parameters)),
            Assigned::OneMore => {
                let most = self.most_attempts - 1;
                format!("LEAST(coalesce(task.{column}, 0), {most}) {PLUS} 1")
            }
            Assigned::OneLess => {
                format!("GREATEST(coalesce(task.{column}, 0), 1) OPERATOR(pg_catalog.-) 1")
            }
            Assigned::Renewed { delay } => self.new_life(delay, parameters),
            Assigned::Burial(why, limit, error) => self.burial(why, limit, error, parameters),
        }
    }

    /// Returns the value of a field without a value: the current time for a time column that is never NULL.
    fn empty(&self, field: Field) -> String {
        match self.is_never_null(field) {
            true => self.time_in_sql(field, CLOCK),
            false => "NULL".into(),
        }
    }

    fn length(&self, length: Length, parameters: &mut Parameters) -> String {
        match length {
            Length::Argument(parameter) => parameters.add(parameter),
            Length::Microseconds(length) => interval(length),
            Length::OwnTtr(Some(default)) => {
                format!("coalesce({}, {})", self.own_ttr(), interval(default))
            }
            Length::OwnTtr(None) => self.own_ttr(),
            Length::Backoff => self.backoff(),
        }
    }

    /// Returns the task's own time to run, limited to 0 to 100 years. Users write this column, and an absurd value must
    /// not fail the take of the tasks behind it. An interval whose months and days have opposite signs can be short
    /// although an intermediate sum leaves the calendar: it counts as too long.
    fn own_ttr(&self) -> String {
        let ttr = format!("task.{}", self.field(Field::Ttr));
        let (none, longest) = (interval(0), "'100 years'::pg_catalog.interval");
        let exceeds = |part: &str, most: i32| {
            format!(
                "pg_catalog.abs(pg_catalog.date_part('{part}', {ttr})) OPERATOR(pg_catalog.>) {most}"
            )
        };
        format!(
            "CASE WHEN {ttr} OPERATOR(pg_catalog.<) {none} THEN {none} \
             WHEN {ttr} OPERATOR(pg_catalog.>) {longest} OR {} OR {} THEN {longest} ELSE {ttr} END",
            exceeds("year", LONGEST_TTR_YEARS),
            exceeds("day", LONGEST_TTR_DAYS),
        )
    }

    fn new_life(&self, delay: bool, parameters: &mut Parameters) -> String {
        let delay = delay.then(|| parameters.add(Parameter::Delay));
        let begin = delay.as_ref().map_or(CLOCK.into(), |delay| format!("{CLOCK} {PLUS} {delay}"));
        let new = match self.features.default_ttl().or(self.endless(Field::Expires)) {
            Some(ttl) => {
                let end = format!("{begin} {PLUS} {}", interval(ttl));
                self.time_in_sql(Field::Expires, &end)
            }
            None => "NULL".into(),
        };
        let expires = self.field(Field::Expires);
        let old = match delay {
            Some(delay) => self.put_off(Field::Expires, &delay),
            None => format!("task.{expires}"),
        };
        let was_over = self.is_one_of(&[Status::Zombie, Status::Done]);
        format!("CASE WHEN {was_over} THEN {new} ELSE {old} END")
    }

    /// Returns the reason of a task buried after its last attempt.
    fn burial(
        &self,
        why: &str,
        limit: u32,
        error: Option<Parameter>,
        parameters: &mut Parameters,
    ) -> String {
        let error = error.map(|error| format!(", ': ', {}", parameters.add(error)));
        let text = format!(
            "pg_catalog.concat('{why} after attempt ', task.{}, ', the limit is {limit}'{})",
            self.field(Field::Attempts),
            error.unwrap_or_default()
        );
        self.shortened(Field::Reason, text)
    }

    /// Returns a text, cut to the column's length limit if the field is the reason.
    fn shortened(&self, field: Field, text: String) -> String {
        match self.reason_length.filter(|_| field == Field::Reason) {
            Some(length) => format!("pg_catalog.left({text}, {length})"),
            None => text,
        }
    }

    /// Returns the delay before the next attempt.
    fn backoff(&self) -> String {
        let Some(backoff) = self.features.backoff() else { return interval(0) };
        let attempts = format!("task.{}", self.field(Field::Attempts));
        let earlier = format!("(GREATEST({attempts}, 1) OPERATOR(pg_catalog.-) 1)");
        // The counter never restarts, so the attempts of the current round are the remainder.
        let done = match self.features.limit() {
            Some(limit) => format!("({earlier} OPERATOR(pg_catalog.%) {limit})"),
            None => earlier,
        };
        format!(
            "pg_catalog.make_interval(secs => LEAST({longest}, {first} OPERATOR(pg_catalog.*) \
             pg_catalog.power({factor}, LEAST({done}, {steps})::pg_catalog.float8)))",
            longest = float(backoff.longest),
            first = float(backoff.first),
            factor = float(backoff.factor),
            steps = backoff.steps(),
        )
    }

    /// Returns the condition on the states that a verb applies to; None for all states.
    pub(super) fn in_states_of(&self, applies: Applies) -> Option<String> {
        match applies.states {
            States::Any => None,
            States::OneOf(states) => Some(self.is_one_of(states)),
            States::AllBut(status) => Some(format!("NOT ({})", self.is(status))),
        }
    }

    /// Returns ` AND` and the condition that a task's life has not ended. The text is empty if the verb does not demand
    /// this or tasks do not expire.
    pub(super) fn is_alive(&self, applies: Applies) -> String {
        let expires = self.fields.get(&Field::Expires).filter(|_| applies.alive);
        expires.map_or(String::new(), |expires| {
            format!(
                " AND (task.{expires} IS NULL OR task.{expires} OPERATOR(pg_catalog.>) {})",
                self.last_until(Field::Expires, CLOCK)
            )
        })
    }

    /// Returns the instant in a column plus an interval. An instant beyond the year 200,000, or more than 4,000 years
    /// ago, stays: it never comes, or has passed, and the sum could leave the calendar.
    fn put_off(&self, field: Field, by: &str) -> String {
        const NEVER: &str = "'200000-01-01 00:00:00+00'::pg_catalog.timestamptz";
        const ALWAYS: &str = "'2000-01-01 00:00:00+00 BC'::pg_catalog.timestamptz";
        let (column, kind) = (format!("task.{}", self.field(field)), self.time_kind(field));
        let sum = format!("{} {PLUS} {by}", kind.instant_in_sql(&column, &self.time_zone));
        format!(
            "CASE WHEN {column} OPERATOR(pg_catalog.>) {} OR {column} OPERATOR(pg_catalog.<) {} \
             THEN {column} ELSE {} END",
            self.last_until(field, NEVER),
            self.last_until(field, ALWAYS),
            self.time_in_sql(field, &sum)
        )
    }
}

fn float(number: f64) -> String {
    format!("'{number}'::pg_catalog.float8")
}

pub(super) fn interval(microseconds: i64) -> String {
    format!("'{microseconds} microseconds'::pg_catalog.interval")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::Form;
    use crate::statement::rule::Return;
    use crate::statement::tests::{never_null, table};
    use crate::statement::{Put, Source};

    fn returned(features: &str, back: Return) -> String {
        let table = table(features);
        table.assign(table.on_return(back), &mut Parameters::default()).join(", ")
    }

    #[test]
    fn a_time_that_is_never_null_is_the_clock_or_far_away() {
        let table = never_null(r#"{"delayed": true, "ttr": true, "ttl": true}"#);
        let set = |set: Vec<Assignment>| table.assign(set, &mut Parameters::default()).join(", ");
        let back = set(table.on_return(Return { renews: true, ..Return::default() }));
        assert!(back.contains("runat = pg_catalog.clock_timestamp(), "), "{back}");
        assert!(!back.contains("NULL END"), "{back}");
        let taken = set(table.on_take(false).collect());
        assert!(taken.contains("'3153600000000000 microseconds'"), "{taken}");
        let put = Put::new(Form::Json, Source::Values);
        let put = set(table.on_put(&put).collect());
        assert!(put.contains("runat = pg_catalog.clock_timestamp(), expires ="), "{put}");
        assert!(!table.forget(Field::Expires, None).contains("= NULL"));
    }

    #[test]
    fn a_failed_attempt_is_judged_only_where_tries_are_limited() {
        const LIMITED: &str = r#"{"retry": {"limit": 3, "backoff": 2}}"#;
        let back = Return { failed: Some("released"), ..Return::default() };
        assert_eq!(returned("{}", back), "status = 'R', owner = NULL");
        let limited = returned(LIMITED, back);
        assert!(limited.contains("'B'::\"char\" ELSE 'W'::\"char\""), "{limited}");
        assert!(limited.contains("power('2'::"), "{limited}");
        let at_once = returned(LIMITED, Return { at_once: true, ..back });
        assert!(at_once.contains("ELSE 'R'::\"char\""), "{at_once}");
        let snatched = returned(r#"{"retry": {"limit": 3}}"#, Return::default());
        assert!(snatched.starts_with("status = 'R', owner = NULL"), "{snatched}");
    }
}
