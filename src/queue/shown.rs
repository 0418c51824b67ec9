//! Tasks as callers get them: as rows, or as jsonb, which cannot hold every value that a row can.

use crate::error::OrRaise;
use crate::model::form::Form;
use crate::queue::Queue;
use crate::server::function::Output;
use crate::server::relation::ColumnType;
use crate::server::spi::Rows;
use crate::server::value::Value;
use crate::server::xact::{self, Failure};
use crate::server::{jsonb, operators, record, types};
use pgrx::pg_sys::Oid;

impl Queue {
    /// Adds the tasks to the result of a call.
    pub fn show(&self, output: &Output, rows: &Rows, form: Form) {
        for task in (0..rows.len()).filter_map(|row| rows.value(row, 1)) {
            match form {
                Form::Json => output.push(self.shown(task)),
                Form::Row => output.push_row(task),
            }
        }
    }

    /// Returns a task as jsonb; a value that jsonb cannot hold is null there.
    pub fn shown<'to>(&self, task: Value<'to>) -> Value<'to> {
        if task.type_oid() == types::JSONB {
            return task;
        }
        self.converted(task).unwrap_or_else(|_| self.shown_in_part(task))
    }

    /// Returns a task, or the value of one of its columns, as jsonb, or why jsonb cannot hold it.
    ///
    /// The conversion of the server's types fails before it holds anything that a subtransaction would have to give back.
    /// A cast of a user's may do anything.
    pub fn converted<'to>(&self, value: Value) -> Result<Value<'to>, Failure> {
        match self.shows.calls_no_cast() {
            true => xact::unless_of_task(|| jsonb::of(value)),
            false => xact::in_subtransaction_unless_of_task(|| Ok(jsonb::of(value))),
        }
    }

    fn shown_in_part<'to>(&self, task: Value) -> Value<'to> {
        let fields = record::fields(task).or_raise();
        let value = |column: &ColumnType| *fields.get(column.number as usize - 1)?;
        let member = |column: &ColumnType, value: Option<Value>| {
            let value = value.and_then(|value| self.converted(value).ok());
            let value = value.map_or("null".into(), jsonb::text);
            format!("{}: {value}", serde_json::Value::from(column.name.as_str()))
        };
        let object = |is_shown: &dyn Fn(&ColumnType) -> bool| {
            let shown = |column: &ColumnType| value(column).filter(|_| is_shown(column));
            let members = self.columns().iter().map(|column| member(column, shown(column)));
            let text = format!("{{{}}}", members.collect::<Vec<_>>().join(", "));
            operators::parse_value(&text, types::JSONB).or_raise()
        };
        // All values together may be too long, too.
        let whole = xact::unless_of_task(|| object(&|_| true));
        whole.unwrap_or_else(|_| object(&|column| self.is_key_column(column.number)))
    }
}

/// How the types of a table's columns become jsonb.
pub struct Shows {
    /// Conversions call no function of a user's, but for casts of enums, which may be made at any time.
    has_plain_types: bool,
    enums: Vec<Oid>,
    /// jsonb may be unable to hold a task, other than for its length.
    pub has_doubtful_types: bool,
}

impl Shows {
    pub(super) fn of(columns: &[ColumnType]) -> Shows {
        let elements: Vec<Oid> = columns.iter().map(element).collect();
        let has_plain_types = !elements.iter().any(|oid| types::is_made_by_users(*oid));
        Shows {
            has_plain_types,
            has_doubtful_types: !has_plain_types || elements.contains(&types::JSON),
            enums: elements.into_iter().filter(|oid| types::is_enum(*oid)).collect(),
        }
    }

    pub fn calls_no_cast(&self) -> bool {
        self.has_plain_types && !self.enums.iter().any(|oid| types::has_cast_to_json(*oid))
    }
}

fn element(column: &ColumnType) -> Oid {
    types::element_type(column.base).unwrap_or(column.base)
}
