//! Statements of `put`.

use crate::conflict::Conflict;
use crate::field::Field;
use crate::form::Form;
use crate::statement::{Parameter, Parameters, Table, Text, join};
use crate::status::Status;

/// A statement that puts tasks, and the values that the call adds to them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Put {
    pub form: Form,
    pub source: Source,
    /// Numbers of the columns that the tasks have values for.
    pub columns: Vec<i16>,
    pub delay: bool,
    pub ttl: bool,
    pub ttr: bool,
    pub priority: bool,
    /// The task goes before all ready tasks.
    pub front: bool,
    pub tube: bool,
    pub conflict: Conflict,
    /// Columns that ON CONFLICT DO UPDATE sets on an existing task.
    pub update: Vec<Update>,
}

/// A column that ON CONFLICT DO UPDATE sets on an existing task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Update {
    pub column: i16,
    /// The column is one of the queue's fields: it is set only while the task is ready or waiting.
    pub is_field: bool,
}

/// The source of the inserted rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// One parameter per column: one task.
    Values,
    /// A jsonb object.
    Task,
    /// A jsonb array of objects.
    Tasks,
    /// A row of the table.
    Row,
}

impl Put {
    /// Returns a put without values of the call.
    pub fn new(form: Form, source: Source) -> Put {
        Put {
            form,
            source,
            columns: vec![],
            delay: false,
            ttl: false,
            ttr: false,
            priority: false,
            front: false,
            tube: false,
            conflict: Conflict::Error,
            update: vec![],
        }
    }

    /// Returns the state of new tasks.
    pub fn status(&self) -> Status {
        if self.delay { Status::Waiting } else { Status::Ready }
    }
}

impl Table {
    pub fn put(&self, put: &Put) -> Text {
        let mut parameters = Parameters::default();
        let assigned = self.on_put(put).map(|assignment| {
            let column = self.field(assignment.field).to_string();
            (column, self.value(assignment, &mut parameters))
        });
        let mut set: Vec<_> = assigned.collect();
        let table = self.qualified();
        let rows = match put.source {
            Source::Values => String::new(),
            Source::Task => format!(
                " FROM pg_catalog.jsonb_populate_record({}, {}) AS new",
                parameters.add(Parameter::EmptyRow),
                parameters.add(Parameter::Task)
            ),
            Source::Tasks => format!(
                " FROM pg_catalog.jsonb_populate_recordset({}, {}) AS new",
                parameters.add(Parameter::EmptyRow),
                parameters.add(Parameter::Tasks)
            ),
            Source::Row => format!(" FROM (SELECT ({}).*) AS new", parameters.add(Parameter::Row)),
        };
        for number in &put.columns {
            let column = self.columns.get(number).cloned().unwrap_or_default();
            let value = match put.source {
                Source::Values => parameters.add(Parameter::Column(*number)),
                _ => format!("new.{column}"),
            };
            set.push((column, value));
        }
        let conflict = self.on_conflict(put);
        let (names, values): (Vec<String>, Vec<String>) = set.into_iter().unzip();
        let (names, values) = (names.join(", "), values.join(", "));
        let values = match put.source {
            Source::Values => format!("VALUES ({values})"),
            _ => format!("SELECT {values}{rows}"),
        };
        parameters.text(format!(
            "INSERT INTO {table} AS task ({names}) {values}{conflict} RETURNING {}",
            self.row()
        ))
    }

    /// Returns the ON CONFLICT clause for a task whose key already exists. `EXCLUDED` has the values of a new task.
    fn on_conflict(&self, put: &Put) -> String {
        let at_once = match put.conflict {
            Conflict::Error => return String::new(),
            Conflict::Nothing => false,
            Conflict::Update { at_once } => at_once,
        };
        let is_rescheduled = put.delay || at_once;
        let excluded = |column: &str| format!("EXCLUDED.{column}");
        let of_call = self.on_put(put).map(|assignment| assignment.field);
        let is_of_call = put.delay || self.is_never_null(Field::Runat);
        let runat = (at_once && self.has(Field::Runat) && !is_of_call).then_some(Field::Runat);
        let fields = of_call.chain(runat).filter(|field| match field {
            Field::Status | Field::Runat => is_rescheduled,
            Field::Expires => is_rescheduled || put.ttl,
            _ => true,
        });
        let fields = fields.map(|field| {
            let column = self.field(field);
            match field {
                // An existing end of life is not removed.
                Field::Expires => {
                    let value = format!("COALESCE(EXCLUDED.{column}, task.{column})");
                    self.unless_begun(column, &value)
                }
                _ => self.unless_begun(column, &excluded(column)),
            }
        });
        let columns = put.update.iter().map(|update| {
            let column = self.columns.get(&update.column).map_or("", String::as_str);
            match update.is_field {
                true => self.unless_begun(column, &excluded(column)),
                false => format!("{column} = {}", excluded(column)),
            }
        });
        let update = match put.conflict {
            Conflict::Update { .. } => join(fields.chain(columns), ", "),
            _ => String::new(),
        };
        let action = match update.is_empty() {
            true => "NOTHING".to_string(),
            false => format!("UPDATE SET {update}"),
        };
        format!(" ON CONFLICT ({}) DO {action}", self.key_list(""))
    }

    /// Sets a column if the task is ready or waiting; otherwise the column keeps its value.
    fn unless_begun(&self, column: &str, value: &str) -> String {
        let has_not_begun = self.is_one_of(&[Status::Ready, Status::Waiting]);
        format!("{column} = CASE WHEN {has_not_begun} THEN {value} ELSE task.{column} END")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::tests::{never_null, table};

    fn put(source: Source) -> Put {
        Put { columns: vec![7], ..Put::new(Form::Json, source) }
    }

    #[test]
    fn a_task_that_is_there_gets_what_the_new_one_gives() {
        let clause = |features, put: Put| {
            let sql = table(features).put(&put).sql;
            let begin = sql.find(" ON CONFLICT").expect("a clause");
            sql[begin..sql.find(" RETURNING").expect("RETURNING")].to_string()
        };
        let progress = Update { column: 7, is_field: false };
        let conflict = Conflict::Update { at_once: false };
        let update = Put { conflict, update: vec![progress], ..put(Source::Values) };
        assert_eq!(
            clause("{}", update.clone()),
            " ON CONFLICT (a, b) DO UPDATE SET progress = EXCLUDED.progress"
        );
        let nothing = " ON CONFLICT (a, b) DO NOTHING";
        let given = Put { conflict: Conflict::Nothing, ..update.clone() };
        assert_eq!(clause("{}", given), nothing);
        assert_eq!(clause("{}", Put { update: vec![], ..update.clone() }), nothing);
        let field = Update { is_field: true, ..progress };
        let begun = clause("{}", Put { update: vec![field], ..update.clone() });
        assert!(begun.contains("progress = CASE WHEN"), "{begun}");
        let at_once = Put { conflict: Conflict::Update { at_once: true }, ..update.clone() };
        let waiting = clause(r#"{"delayed": true}"#, at_once);
        assert!(waiting.contains("runat = CASE WHEN") && waiting.contains("status = CASE WHEN"));
        let delayed = clause(r#"{"delayed": true, "ttl": true}"#, Put { delay: true, ..update });
        assert_eq!(delayed.matches("runat = CASE").count(), 1, "{delayed}");
        let put = Put { conflict: Conflict::Update { at_once: true }, ..put(Source::Values) };
        let never_null = never_null(r#"{"delayed": true}"#).put(&put).sql;
        assert_eq!(never_null.matches("runat = CASE").count(), 1, "{never_null}");
    }

    #[test]
    fn one_task_is_put_by_its_values() {
        let text = table("{}").put(&put(Source::Values));
        assert_eq!(
            text.sql,
            "INSERT INTO app.\"Jobs\" AS task (status, progress) VALUES ('R', $1) \
             RETURNING task.*::app.\"Jobs\""
        );
        assert_eq!(text.parameters, [Parameter::Column(7)]);
    }

    #[test]
    fn members_of_json_go_into_an_empty_row() {
        for (source, json) in [(Source::Task, Parameter::Task), (Source::Tasks, Parameter::Tasks)] {
            let text = table("{}").put(&put(source));
            assert_eq!(text.parameters, [Parameter::EmptyRow, json], "{}", text.sql);
        }
    }

    #[test]
    fn a_life_begins_when_the_delay_is_over() {
        let delayed = Put { delay: true, ..put(Source::Tasks) };
        let text = table(r#"{"delayed": true, "ttl": 60}"#).put(&delayed);
        assert!(
            text.sql.contains("$1 OPERATOR(pg_catalog.+) '60000000 microseconds'"),
            "{}",
            text.sql
        );
        assert!(text.sql.contains("'W'"), "{}", text.sql);
    }
}
