//! The SQL text of every statement that a queue runs. Pure: names and literals come in quoted by
//! the server, see [`Table`].
//!
//! * Rows are found by key, not by ctid: a row that moved since the snapshot was taken is found.
//! * FOR NO KEY UPDATE lets a foreign key's check pass; SKIP LOCKED lets consumers pass each other.
//! * coalesce() keeps a condition out of the planner's sight where only the key index may be used.
//! * The rows to change are picked first and by themselves: an InitPlan for a key of one column, a
//!   statement of its own for others. In a join the planner might pick anew for each row.

mod ddl;

pub use ddl::{Index, TRIGGERS};

use crate::model::status::Status;

/// A queue's table as the statements need it. Every name is quoted.
#[derive(Clone, Debug)]
pub struct Table {
    pub schema: String,
    pub name: String,
    pub key: Vec<KeyColumn>,
    pub status: String,
    /// The type of the status column, as written after `::`.
    pub status_type: String,
    /// Literals of the status column's values, indexed by `Status as usize`.
    pub labels: Vec<String>,
    pub owner: String,
    pub runat: Option<String>,
}

#[derive(Clone, Debug)]
pub struct KeyColumn {
    pub name: String,
    /// Equality of the key's order, as in `OPERATOR(pg_catalog.=)`.
    pub equals: String,
}

/// What a statement gives back of each task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    Json,
    Row,
}

/// Changes that pick their tasks themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Ready tasks become taken by session $1.
    Take(Form),
    /// Waiting tasks that are due at $1 become ready.
    Promote,
    /// Tasks taken by the sessions $1 (uuid[]) become ready.
    Reap,
    /// Tasks taken by no session become ready.
    ReapOwnerless,
}

impl Change {
    /// How many parameters the change itself has, before those of the pick.
    fn parameters(self) -> usize {
        match self {
            Change::Take(_) => 1,
            _ => 0,
        }
    }
}

const EQUALS: &str = "OPERATOR(pg_catalog.=)";

impl Table {
    pub fn qualified(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }

    fn label(&self, status: Status) -> &str {
        &self.labels[status as usize]
    }

    fn is(&self, status: Status) -> String {
        format!("task.{} {EQUALS} {}", self.status, self.label(status))
    }

    /// Like `is`, but never a reason to choose a partial index.
    fn is_hidden(&self, status: Status) -> String {
        format!("coalesce({}, false)", self.is(status))
    }

    fn key_list(&self, prefix: &str) -> String {
        join(self.key.iter().map(|column| format!("{prefix}{}", column.name)), ", ")
    }

    /// `task.a = $first AND task.b = $(first + 1)`
    fn has_key(&self, first: usize) -> String {
        let pairs = self.key.iter().enumerate();
        join(
            pairs.map(|(i, key)| format!("task.{} {} ${}", key.name, key.equals, first + i)),
            " AND ",
        )
    }

    fn result(&self, form: Form) -> String {
        match form {
            Form::Json => "pg_catalog.to_jsonb(task.*)".into(),
            Form::Row => format!("task.*::{}", self.qualified()),
        }
    }

    /// Picks and changes tasks in one statement, for a key of one column. The parameters are those
    /// of the change, then those of the pick.
    pub fn change(&self, change: Change) -> String {
        let given = change.parameters();
        format!(
            "UPDATE ONLY {} AS task SET {} WHERE task.{key} {} ANY (ARRAY({})){}",
            self.qualified(),
            self.assignments(change),
            self.key[0].equals,
            self.pick(change, given + 1),
            self.returning(change),
            key = self.key[0].name,
        )
    }

    /// Changes the task with key $.. that has been picked before. The parameters are those of the
    /// change, then the key.
    pub fn change_one(&self, change: Change) -> String {
        format!(
            "UPDATE ONLY {} AS task SET {} WHERE {}{}",
            self.qualified(),
            self.assignments(change),
            self.has_key(change.parameters() + 1),
            self.returning(change),
        )
    }

    /// Locks the tasks to change and gives their keys. Parameters from $first on: what `Change`
    /// says, the number of tasks, and the number to pass over.
    pub fn pick(&self, change: Change, first: usize) -> String {
        let runat = self.runat.as_deref().unwrap_or_default();
        let (condition, order, next) = match change {
            Change::Take(_) => {
                (self.is(Status::Ready), format!(" ORDER BY {}", self.key_list("task.")), first)
            }
            Change::Promote => (
                format!(
                    "{} AND task.{runat} OPERATOR(pg_catalog.<=) ${first}",
                    self.is(Status::Waiting)
                ),
                format!(" ORDER BY task.{runat}"),
                first + 1,
            ),
            Change::Reap => (
                format!(
                    "{} AND task.{} {EQUALS} ANY (${first})",
                    self.is(Status::Taken),
                    self.owner
                ),
                String::new(),
                first + 1,
            ),
            Change::ReapOwnerless => (
                format!("{} AND task.{} IS NULL", self.is(Status::Taken), self.owner),
                String::new(),
                first,
            ),
        };
        format!(
            "SELECT {} FROM ONLY {} AS task WHERE {condition}{order} LIMIT ${next} OFFSET ${} \
             FOR NO KEY UPDATE SKIP LOCKED",
            self.key_list("task."),
            self.qualified(),
            next + 1,
        )
    }

    fn assignments(&self, change: Change) -> String {
        let (status, owner) = (&self.status, &self.owner);
        match change {
            Change::Take(_) => format!("{status} = {}, {owner} = $1", self.label(Status::Taken)),
            Change::Promote => {
                let runat = self.runat.as_deref().unwrap_or_default();
                format!("{status} = {}, {runat} = NULL", self.label(Status::Ready))
            }
            Change::Reap | Change::ReapOwnerless => {
                format!("{status} = {}, {owner} = NULL", self.label(Status::Ready))
            }
        }
    }

    fn returning(&self, change: Change) -> String {
        match change {
            Change::Take(form) => format!(" RETURNING {}", self.result(form)),
            _ => String::new(),
        }
    }

    fn is_mine(&self) -> String {
        format!(
            "{} AND {} AND coalesce(task.{} {EQUALS} $1, false)",
            self.has_key(2),
            self.is_hidden(Status::Taken),
            self.owner
        )
    }

    /// Deletes task $2.. if session $1 holds it.
    pub fn ack(&self, form: Form) -> String {
        format!(
            "DELETE FROM ONLY {} AS task WHERE {} RETURNING {}",
            self.qualified(),
            self.is_mine(),
            self.result(form)
        )
    }

    /// Gives task $2.. back if session $1 holds it.
    pub fn release(&self, form: Form) -> String {
        self.give_back(form, Status::Ready, None)
    }

    /// Gives task $2.. back to wait for the interval in the last parameter.
    pub fn release_delayed(&self, form: Form) -> String {
        self.give_back(form, Status::Waiting, Some(self.key.len() + 2))
    }

    fn give_back(&self, form: Form, status: Status, delay: Option<usize>) -> String {
        let runat = match (&self.runat, delay) {
            (Some(runat), Some(parameter)) => format!(", {runat} = {}", instant(parameter)),
            _ => String::new(),
        };
        format!(
            "UPDATE ONLY {} AS task SET {} = {}, {} = NULL{runat} WHERE {} RETURNING {}",
            self.qualified(),
            self.status,
            self.label(status),
            self.owner,
            self.is_mine(),
            self.result(form)
        )
    }

    /// Task $1.. in whatever state it is.
    pub fn peek(&self, form: Form) -> String {
        let (table, key) = (self.qualified(), self.has_key(1));
        format!("SELECT {} FROM ONLY {table} AS task WHERE {key}", self.result(form))
    }

    /// Status and owner of task $1..
    pub fn holder(&self) -> String {
        format!(
            "SELECT task.{}::pg_catalog.text, task.{} FROM ONLY {} AS task WHERE {}",
            self.status,
            self.owner,
            self.qualified(),
            self.has_key(1)
        )
    }

    /// Inserts `columns` of $1: a jsonb object, a jsonb array of objects (`many`), or a row.
    /// With `delayed`, $2 is the delay.
    pub fn put(&self, form: Form, columns: &[String], source: PutSource, delayed: bool) -> String {
        let status = if delayed { Status::Waiting } else { Status::Ready };
        let mut names = vec![self.status.clone()];
        let mut values = vec![self.label(status).to_string()];
        if let (true, Some(runat)) = (delayed, &self.runat) {
            names.push(runat.clone());
            values.push(instant(2));
        }
        names.extend(columns.iter().cloned());
        values.extend(columns.iter().map(|column| format!("new.{column}")));
        let table = self.qualified();
        let rows = match source {
            PutSource::Object => {
                format!("pg_catalog.jsonb_populate_record(NULL::{table}, $1) AS new")
            }
            PutSource::Array => {
                format!("pg_catalog.jsonb_populate_recordset(NULL::{table}, $1) AS new")
            }
            PutSource::Row => "(SELECT ($1).*) AS new".to_string(),
        };
        format!(
            "INSERT INTO {table} AS task ({}) SELECT {} FROM {rows} RETURNING {}",
            names.join(", "),
            values.join(", "),
            self.result(form)
        )
    }

    /// When the next delay is over.
    pub fn next_due(&self, runat: &str) -> String {
        format!(
            "SELECT task.{runat} FROM ONLY {} AS task WHERE {} AND task.{runat} IS NOT NULL \
             ORDER BY task.{runat} LIMIT 1",
            self.qualified(),
            self.is(Status::Waiting)
        )
    }

    /// The sessions that hold tasks, and how many.
    pub fn holders(&self) -> String {
        format!(
            "SELECT task.{0}, pg_catalog.count(*) FROM ONLY {1} AS task WHERE {2} GROUP BY task.{0}",
            self.owner,
            self.qualified(),
            self.is(Status::Taken)
        )
    }

    /// Number of waiting tasks that would never be promoted.
    pub fn stranded(&self, runat: &str) -> String {
        format!(
            "SELECT pg_catalog.count(*) FROM ONLY {} AS task WHERE {} AND task.{runat} IS NULL",
            self.qualified(),
            self.is(Status::Waiting)
        )
    }

    pub fn count_in(&self, status: Status) -> String {
        format!(
            "SELECT pg_catalog.count(*) FROM ONLY {} AS task WHERE {}",
            self.qualified(),
            self.is(status)
        )
    }
}

/// What `put` inserts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PutSource {
    Object,
    Array,
    Row,
}

fn instant(parameter: usize) -> String {
    format!("pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) ${parameter}")
}

fn join(parts: impl Iterator<Item = String>, separator: &str) -> String {
    parts.collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn table() -> Table {
        let key = |name: &str| KeyColumn { name: name.into(), equals: EQUALS.into() };
        Table {
            schema: "app".into(),
            name: "\"Jobs\"".into(),
            key: vec![key("a"), key("b")],
            status: "status".into(),
            status_type: "\"char\"".into(),
            labels: Status::ALL.iter().map(|status| format!("'{}'", status.letter())).collect(),
            owner: "owner".into(),
            runat: None,
        }
    }

    #[test]
    fn composite_keys_take_consecutive_parameters() {
        let text = table().ack(Form::Json);
        assert!(
            text.contains("task.a OPERATOR(pg_catalog.=) $2 AND task.b OPERATOR(pg_catalog.=) $3")
        );
        assert!(text.starts_with("DELETE FROM ONLY app.\"Jobs\" AS task"), "{text}");
        let delayed = Table { runat: Some("runat".into()), ..table() }.release_delayed(Form::Row);
        assert!(delayed.contains("runat = pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) $4"));
    }
}
