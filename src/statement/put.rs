//! Statements of `put`.

use crate::model::field::Field;
use crate::model::form::Form;
use crate::model::status::Status;
use crate::statement::{Parameter, Parameters, Table, Text};

/// A statement that puts tasks, and which values the call adds to them.
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
    /// Before all ready tasks.
    pub front: bool,
    pub tube: bool,
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
                " FROM pg_catalog.jsonb_populate_record(NULL::{table}, {}) AS new",
                parameters.add(Parameter::Task)
            ),
            Source::Tasks => format!(
                " FROM pg_catalog.jsonb_populate_recordset(NULL::{table}, {}) AS new",
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
        let (names, values): (Vec<String>, Vec<String>) = set.into_iter().unzip();
        let (names, values) = (names.join(", "), values.join(", "));
        let values = match put.source {
            Source::Values => format!("VALUES ({values})"),
            _ => format!("SELECT {values}{rows}"),
        };
        // The key determines the task's position in the queue.
        let key = match self.key.as_slice() {
            [key] => match self.fields.get(&Field::Priority) {
                Some(priority) => format!(", task.{}, task.{priority}::pg_catalog.int8", key.name),
                None => format!(", task.{}", key.name),
            },
            _ => String::new(),
        };
        parameters.text(format!(
            "INSERT INTO {table} AS task ({names}) {values} RETURNING {}{key}",
            self.result(put.form)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::tests::table;

    fn put(source: Source) -> Put {
        Put {
            form: Form::Json,
            source,
            columns: vec![7],
            delay: false,
            ttl: false,
            ttr: false,
            priority: false,
            front: false,
            tube: false,
        }
    }

    #[test]
    fn one_task_is_put_by_its_values() {
        let text = table("{}").put(&put(Source::Values));
        assert_eq!(
            text.sql,
            "INSERT INTO app.\"Jobs\" AS task (status, progress) VALUES ('R', $1) \
             RETURNING pg_catalog.to_jsonb(task.*)"
        );
        assert_eq!(text.parameters, [Parameter::Column(7)]);
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
