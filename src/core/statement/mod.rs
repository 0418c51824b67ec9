//! The SQL text of every statement that a queue runs. Names and literals are quoted by the caller, see [`Table`].
//!
//! * Rows are found by key, not by ctid, so a row that moved since the snapshot is still found.
//! * FOR NO KEY UPDATE does not block foreign key checks. Rows to be deleted are locked FOR UPDATE, so that the DELETE
//!   does not wait for such a check. SKIP LOCKED lets consumers pass each other.
//! * coalesce() hides a condition from the planner in statements that must use the key index.
//! * The keys of the rows to change are selected separately: by an InitPlan for a key of one column, by a statement of
//!   its own for other keys. In a join the planner could repeat the selection for each row.

mod assign;
mod change;
mod ddl;
mod index;
mod look;
mod put;
pub mod rule;
mod step;
mod subqueue;
#[cfg(test)]
mod tests;
mod within;

pub use change::{Change, MORTAL};
pub use ddl::{ARRIVAL, TRACKING_TRIGGERS, TRIGGERS, UPDATE_TRIGGER};
pub use index::Index;
pub use put::{Put, Source, Update};
pub use step::{Step, Verb};
pub use within::Within;

use crate::features::Features;
use crate::field::Field;
use crate::status::Status;
use crate::time_column::{TimeColumn, TimeKind};
use std::collections::BTreeMap;

/// A queue's table as it appears in statements. All names are quoted.
#[derive(Clone, Debug)]
pub struct Table {
    pub schema: String,
    pub name: String,
    pub key: Vec<KeyColumn>,
    /// The columns by which tasks of equal priority are taken: those of option `order`, then the rest of the key.
    pub order: Vec<String>,
    /// Number of columns of `order` that marks name.
    pub marked: usize,
    /// The columns of the fields in use.
    pub fields: BTreeMap<Field, String>,
    /// The columns of `runat` and `expires`.
    pub times: BTreeMap<Field, TimeColumn>,
    /// Literal of the zone of times in columns without a time zone.
    pub time_zone: String,
    /// All columns by number, for tasks and updates that name columns.
    pub columns: BTreeMap<i16, String>,
    /// The type to which values of the status column are cast, in the form used after `::`.
    pub status_type: String,
    /// The owner's column holds the text of a session.
    pub owner_is_text: bool,
    /// Equality operator of the tube column's type.
    pub tube_equals: String,
    /// Maximum of the attempts column's type; the count stops there.
    pub most_attempts: i64,
    /// Length limit of the reason column, if it has one.
    pub reason_length: Option<i32>,
    /// Literals of the status column's values, indexed by `Status as usize`.
    pub labels: Vec<String>,
    pub features: Features,
}

#[derive(Clone, Debug)]
pub struct KeyColumn {
    pub name: String,
    /// Equality operator of the key's order, as in `OPERATOR(pg_catalog.=)`.
    pub equals: String,
}

/// A statement parameter, by meaning. Its value is set under this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parameter {
    /// The caller's session.
    Session,
    /// An array of sessions.
    Sessions,
    /// The key column at this index.
    Key(usize),
    /// An array of keys of one column.
    Keys,
    /// The current time.
    Now,
    /// Value of the column of `order` at this index at which the scan begins.
    Mark(usize),
    /// A priority.
    Level,
    /// Lower bound of due instants.
    Since,
    /// Maximum number of tasks.
    Limit,
    /// Number of tasks to skip.
    Skip,
    Delay,
    Ttl,
    Ttr,
    Increment,
    Attempt,
    Priority,
    Tube,
    /// The error of an attempt.
    Error,
    /// A sub-queue hash.
    Subqueue,
    /// The value for the column with this number.
    Column(i16),
    /// A jsonb object: a task, or columns to set.
    Task,
    /// A jsonb array of tasks.
    Tasks,
    /// A row of the table.
    Row,
    /// A row of the table whose columns are all NULL. Members of a jsonb object go into it. The server then leaves the
    /// other columns alone; for a missing row it would check the NULLs of columns whose types are domains.
    EmptyRow,
}

/// A statement, and its parameters in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    pub sql: String,
    pub parameters: Vec<Parameter>,
}

/// Collects and numbers the parameters while a statement is written.
#[derive(Default)]
struct Parameters(Vec<Parameter>);

impl Parameters {
    fn add(&mut self, parameter: Parameter) -> String {
        let known = self.0.iter().position(|known| *known == parameter);
        let index = known.unwrap_or_else(|| {
            self.0.push(parameter);
            self.0.len() - 1
        });
        format!("${}", index + 1)
    }

    fn text(self, sql: String) -> Text {
        Text { sql, parameters: self.0 }
    }
}

/// The schema of functions that users do not call.
const INTERNAL: &str = "xqueue_internal";
const EQUALS: &str = "OPERATOR(pg_catalog.=)";
const AT_LEAST: &str = "OPERATOR(pg_catalog.>=)";
const PLUS: &str = "OPERATOR(pg_catalog.+)";
const CLOCK: &str = "pg_catalog.clock_timestamp()";

impl Table {
    pub fn qualified(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }

    /// Returns the quoted column of a field; NULL if the queue does not have the field.
    fn field(&self, field: Field) -> &str {
        self.fields.get(&field).map_or("NULL", String::as_str)
    }

    /// Returns how the column of a time holds instants.
    fn time_kind(&self, field: Field) -> TimeKind {
        self.times.get(&field).map_or(TimeKind::Zoned { decimals: 6 }, |column| column.kind)
    }

    /// Returns whether a time column holds the times of a zone's clocks.
    pub fn has_local_times(&self) -> bool {
        self.times.values().any(|column| matches!(column.kind, TimeKind::Unzoned { .. }))
    }

    /// Returns the value of a time column for an instant.
    fn time_in_sql(&self, field: Field, instant: &str) -> String {
        self.time_kind(field).in_sql(instant, &self.time_zone)
    }

    /// Returns the last value of a time column that is not after an instant.
    fn last_until(&self, field: Field, instant: &str) -> String {
        self.time_kind(field).last_until_in_sql(instant, &self.time_zone)
    }

    /// Returns the caller's session as a value of the owner's column.
    fn session(&self, parameters: &mut Parameters) -> String {
        let session = parameters.add(Parameter::Session);
        if self.owner_is_text { session + "::pg_catalog.text" } else { session }
    }

    fn has(&self, field: Field) -> bool {
        self.fields.contains_key(&field)
    }

    fn status(&self) -> &str {
        self.field(Field::Status)
    }

    fn label(&self, status: Status) -> &str {
        &self.labels[status as usize]
    }

    /// Returns the label with a cast, for expressions in which the server cannot infer its type.
    fn typed_label(&self, status: Status) -> String {
        format!("{}::{}", self.label(status), self.status_type)
    }

    fn is(&self, status: Status) -> String {
        format!("task.{} {EQUALS} {}", self.status(), self.label(status))
    }

    fn is_one_of(&self, statuses: &[Status]) -> String {
        format!("task.{}", self.in_states(statuses))
    }

    fn in_states(&self, statuses: &[Status]) -> String {
        if let [status] = statuses {
            return format!("{} {EQUALS} {}", self.status(), self.label(*status));
        }
        let labels = join(statuses.iter().map(|status| self.label(*status).to_string()), ", ");
        format!("{} {EQUALS} ANY (ARRAY[{labels}]::{}[])", self.status(), self.status_type)
    }

    pub fn key_list(&self, prefix: &str) -> String {
        join(self.key.iter().map(|column| format!("{prefix}{}", column.name)), ", ")
    }

    /// Returns the columns of the order that marks name.
    fn marked_list(&self, prefix: &str) -> String {
        let columns = self.order.iter().take(self.marked);
        join(columns.map(|column| format!("{prefix}{column}")), ", ")
    }

    /// Returns the condition that a task is not before the mark; with `level`, not before that priority and mark.
    fn is_at_or_behind(&self, prefix: &str, level: bool, parameters: &mut Parameters) -> String {
        let mut columns = self.marked_list(prefix);
        let level = level.then(|| parameters.add(Parameter::Level));
        let marks = (0..self.marked).map(|index| parameters.add(Parameter::Mark(index)));
        let values: Vec<String> = level.clone().into_iter().chain(marks).collect();
        if level.is_some() {
            columns = format!("{prefix}{}, {columns}", self.field(Field::Priority));
        }
        match values.as_slice() {
            [value] => format!("{columns} {AT_LEAST} {value}"),
            values => format!("ROW({columns}) {AT_LEAST} ROW({})", values.join(", ")),
        }
    }

    /// Returns the columns of the take order.
    fn take_order(&self, prefix: &str) -> String {
        let columns = self.fields.get(&Field::Priority).into_iter().chain(&self.order);
        join(columns.map(|column| format!("{prefix}{column}")), ", ")
    }

    /// Returns whether tasks are taken in the order of their keys.
    fn goes_by_key(&self) -> bool {
        !self.has(Field::Priority)
            && self.order.iter().eq(self.key.iter().map(|column| &column.name))
    }

    /// Returns the condition `task.a = $1 AND task.b = $2`.
    fn has_key(&self, parameters: &mut Parameters) -> String {
        let pairs = self.key.iter().enumerate().map(|(index, key)| {
            let value = parameters.add(Parameter::Key(index));
            format!("task.{} {} {value}", key.name, key.equals)
        });
        join(pairs.collect::<Vec<_>>().into_iter(), " AND ")
    }

    /// Returns the condition that the key, of one column, is among the given ones.
    fn is_among_keys(&self, parameters: &mut Parameters) -> String {
        let keys = parameters.add(Parameter::Keys);
        let columns = self.key.iter().take(1);
        join(columns.map(|key| format!("task.{} {} ANY ({keys})", key.name, key.equals)), "")
    }

    /// Returns a task as a row, from which the caller can make jsonb. A value that jsonb cannot represent then does not
    /// fail the statement.
    fn row(&self) -> String {
        format!("task.*::{}", self.qualified())
    }
}

fn join(parts: impl Iterator<Item = String>, separator: &str) -> String {
    parts.collect::<Vec<_>>().join(separator)
}
