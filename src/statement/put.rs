//! Statements of `put`.

use crate::model::conflict::Conflict;
use crate::model::field::Field;
use crate::model::form::Form;
use crate::model::status::Status;
use crate::statement::{Parameter, Parameters, Table, Text, join};

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
    pub conflict: Conflict,
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
        let conflict = self.on_conflict(put, &set);
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
            "INSERT INTO {table} AS task ({names}) {values}{conflict} RETURNING {}{key}",
            self.result(put.form)
        ))
    }

    /// Returns the clause for a task whose key is there already, which sets the columns that the new one has in `set`.
    fn on_conflict(&self, put: &Put, set: &[(String, String)]) -> String {
        let at_once = match put.conflict {
            Conflict::Error => return String::new(),
            Conflict::Nothing => false,
            Conflict::Update { at_once } => at_once,
        };
        let key = self.key_list("");
        let is_rescheduled = put.delay || at_once;
        let is_put_back = at_once && !put.delay && self.has(Field::Runat);
        let runat = is_put_back.then(|| self.field(Field::Runat));
        let columns = set.iter().map(|(column, _)| column.as_str()).chain(runat);
        let update = columns.filter_map(|column| {
            let field =
                self.fields.iter().find(|(_, name)| *name == column).map(|(field, _)| *field);
            match field {
                Some(Field::Status | Field::Runat) if !is_rescheduled => None,
                Some(Field::Expires) if !is_rescheduled && !put.ttl => None,
                // A task that has no end of life, or one of its own, does not lose that.
                Some(Field::Expires) => {
                    let new = format!("COALESCE(EXCLUDED.{column}, task.{column})");
                    Some(self.unless_begun(column, &new))
                }
                Some(_) => Some(self.unless_begun(column, &format!("EXCLUDED.{column}"))),
                None if self.key.iter().any(|key| key.name == column) => None,
                None => Some(format!("{column} = EXCLUDED.{column}")),
            }
        });
        let update = join(update, ", ");
        match put.conflict {
            Conflict::Update { .. } if !update.is_empty() => {
                format!(" ON CONFLICT ({key}) DO UPDATE SET {update}")
            }
            _ => format!(" ON CONFLICT ({key}) DO NOTHING"),
        }
    }

    /// Sets a column of a task that no consumer has, or has had, or else leaves it.
    fn unless_begun(&self, column: &str, value: &str) -> String {
        let has_not_begun = self.is_one_of(&[Status::Ready, Status::Waiting]);
        format!("{column} = CASE WHEN {has_not_begun} THEN {value} ELSE task.{column} END")
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
            conflict: Conflict::Error,
        }
    }

    #[test]
    fn a_task_that_is_there_gets_what_the_new_one_gives() {
        let clause = |features, put: Put| {
            let sql = table(features).put(&put).sql;
            let begin = sql.find(" ON CONFLICT").expect("a clause");
            sql[begin..sql.find(" RETURNING").expect("RETURNING")].to_string()
        };
        let update = Put { conflict: Conflict::Update { at_once: false }, ..put(Source::Values) };
        assert_eq!(
            clause("{}", update.clone()),
            " ON CONFLICT (id) DO UPDATE SET progress = EXCLUDED.progress"
        );
        let nothing = " ON CONFLICT (id) DO NOTHING";
        let given = Put { conflict: Conflict::Nothing, ..update.clone() };
        assert_eq!(clause("{}", given), nothing);
        assert_eq!(clause("{}", Put { columns: vec![], ..update.clone() }), nothing);
        let at_once = Put { conflict: Conflict::Update { at_once: true }, ..update.clone() };
        let waiting = clause(r#"{"delayed": true}"#, at_once);
        assert!(waiting.contains("runat = CASE WHEN") && waiting.contains("status = CASE WHEN"));
        let delayed = clause(r#"{"delayed": true, "ttl": true}"#, Put { delay: true, ..update });
        assert_eq!(delayed.matches("runat = CASE").count(), 1, "{delayed}");
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
