//! The SQL text of every statement that a queue runs. Pure: names and literals come in quoted by
//! the server, see [`Table`].
//!
//! * Rows are found by key, not by ctid: a row that moved since the snapshot was taken is found.
//! * FOR NO KEY UPDATE lets a foreign key's check pass; SKIP LOCKED lets consumers pass each other.
//! * coalesce() keeps a condition out of the planner's sight where only the key index may be used.
//! * The rows to change are picked first and by themselves: an InitPlan for a key of one column, a
//!   statement of its own for others. In a join the planner might pick anew for each row.

use crate::model::definition::Field;
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

    /// Values of the status column that stand for no state, a few of them.
    pub fn foreign_values(&self) -> String {
        format!(
            "SELECT DISTINCT task.{0}::pg_catalog.text FROM ONLY {1} AS task \
             WHERE NOT (task.{0} {EQUALS} ANY (ARRAY[{2}]::{3}[])) LIMIT 5",
            self.status,
            self.qualified(),
            self.labels.join(", "),
            self.status_type
        )
    }

    pub fn without_status(&self) -> String {
        format!(
            "SELECT FROM ONLY {} AS task WHERE task.{} IS NULL LIMIT 1",
            self.qualified(),
            self.status
        )
    }

    /// Gives rows that have no status one.
    pub fn fill_status(&self, status: Status) -> String {
        let (table, column, label) = (self.qualified(), &self.status, self.label(status));
        format!("UPDATE ONLY {table} SET {column} = {label} WHERE {column} IS NULL")
    }

    pub fn add_column(&self, field: Field, existing: Status) -> Vec<String> {
        let table = self.qualified();
        match field {
            Field::Status => {
                let (column, ready) = (&self.status, self.label(Status::Ready));
                let add = format!(
                    "ALTER TABLE {table} ADD COLUMN {column} {} NOT NULL DEFAULT {}",
                    self.status_type,
                    self.label(existing)
                );
                match existing {
                    Status::Ready => vec![add],
                    _ => vec![
                        add,
                        format!("ALTER TABLE {table} ALTER COLUMN {column} SET DEFAULT {ready}"),
                    ],
                }
            }
            Field::Owner => {
                vec![format!("ALTER TABLE {table} ADD COLUMN {} pg_catalog.uuid", self.owner)]
            }
            Field::Runat => {
                let runat = self.runat.iter();
                let add = |runat| {
                    format!("ALTER TABLE {table} ADD COLUMN {runat} pg_catalog.timestamptz")
                };
                runat.map(add).collect()
            }
        }
    }

    pub fn set_status_default(&self) -> String {
        format!(
            "ALTER TABLE {} ALTER COLUMN {} SET DEFAULT {}",
            self.qualified(),
            self.status,
            self.label(Status::Ready)
        )
    }

    pub fn create_index(&self, index: Index, name: &str) -> String {
        format!(
            "CREATE INDEX {name} ON {} ({}) WHERE {}",
            self.qualified(),
            self.index_columns(index).join(", "),
            self.index_predicate(index)
        )
    }

    pub fn index_columns(&self, index: Index) -> Vec<&str> {
        match index {
            Index::Ready => self.key.iter().map(|column| column.name.as_str()).collect(),
            Index::Taken => vec![&self.owner],
            Index::Due => self.runat.iter().map(String::as_str).collect(),
        }
    }

    fn index_predicate(&self, index: Index) -> String {
        let is = |status| format!("{} {EQUALS} {}", self.status, self.label(status));
        match index {
            Index::Ready => is(Status::Ready),
            Index::Taken => is(Status::Taken),
            Index::Due => join(self.runat.iter().map(|runat| format!("{runat} IS NOT NULL")), ""),
        }
    }

    /// The predicate of an index as the server shows it, for each way in which it names the type.
    pub fn deparsed_predicates(&self, index: Index, short_type: &str) -> Vec<String> {
        let (status, label) = match index {
            Index::Ready => (&self.status, self.label(Status::Ready)),
            Index::Taken => (&self.status, self.label(Status::Taken)),
            Index::Due => {
                return self.runat.iter().map(|runat| format!("({runat} IS NOT NULL)")).collect();
            }
        };
        match short_type {
            "character varying" => vec![format!("(({status})::text = {label}::text)")],
            "character" => vec![format!("({status} = {label}::bpchar)")],
            short => vec![
                format!("({status} = {label}::{short})"),
                format!("({status} = {label}::{})", self.status_type),
            ],
        }
    }

    /// The triggers that a queue needs, with the statements that make each of them.
    pub fn triggers(&self) -> Vec<(&'static str, Vec<String>)> {
        let table = self.qualified();
        let mut wanted = vec![
            ("xqueue_insert", "AFTER INSERT", "FOR EACH ROW", String::new(), "row_changed"),
            ("xqueue_delete", "AFTER DELETE", "FOR EACH ROW", String::new(), "row_changed"),
            ("xqueue_truncate", "AFTER TRUNCATE", "FOR EACH STATEMENT", String::new(), "truncated"),
        ];
        let status = &self.status;
        let mut changed = format!("OLD.{status} IS DISTINCT FROM NEW.{status}");
        if let Some(runat) = &self.runat {
            changed += &format!(" OR OLD.{runat} IS DISTINCT FROM NEW.{runat}");
            let future = format!("WHEN (NEW.{runat} IS NOT NULL) ");
            wanted.push(("xqueue_delay", "BEFORE INSERT", "FOR EACH ROW", future, "row_delayed"));
        }
        let changed = format!("WHEN ({changed}) ");
        wanted.push(("xqueue_update", "AFTER UPDATE", "FOR EACH ROW", changed, "row_changed"));
        let make = |(name, event, each, when, function)| {
            let create = format!(
                "CREATE TRIGGER {name} {event} ON {table} {each} {when}EXECUTE FUNCTION xqueue.{function}()"
            );
            let enable = format!("ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}");
            (name, vec![create, enable])
        };
        wanted.into_iter().map(make).collect()
    }

    pub fn drop_trigger(&self, name: &str) -> String {
        format!("DROP TRIGGER IF EXISTS {name} ON {}", self.qualified())
    }
}

/// Names of all triggers that a queue may have.
pub const TRIGGERS: [&str; 5] =
    ["xqueue_delay", "xqueue_delete", "xqueue_insert", "xqueue_truncate", "xqueue_update"];

/// The indexes that a queue needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// Ready tasks in the order in which they are taken.
    Ready,
    /// Taken tasks by session.
    Taken,
    /// Tasks that wait, by the instant at which they are due.
    Due,
}

impl Index {
    pub const ALL: [Index; 3] = [Index::Ready, Index::Taken, Index::Due];

    /// The ending of the index's name.
    pub fn suffix(self) -> &'static str {
        ["ready_idx", "taken_idx", "due_idx"][self as usize]
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

    fn table() -> Table {
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

    #[test]
    fn every_trigger_has_a_known_name_and_fires_always() {
        let delayed = Table { runat: Some("runat".into()), ..table() };
        let names: Vec<_> = delayed.triggers().into_iter().map(|(name, _)| name).collect();
        assert!(TRIGGERS.iter().all(|name| names.contains(name)));
        for (name, statements) in table().triggers() {
            assert!(TRIGGERS.contains(&name));
            assert!(statements[1].contains("ENABLE ALWAYS TRIGGER"), "{statements:?}");
        }
    }

    #[test]
    fn rows_that_were_there_get_their_state_and_later_ones_are_ready() {
        let statements = table().add_column(Field::Status, Status::Done);
        assert!(statements[0].ends_with("NOT NULL DEFAULT 'D'"));
        assert!(statements[1].ends_with("SET DEFAULT 'R'"));
    }
}
