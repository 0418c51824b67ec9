//! Tasks in the form that callers get: rows, or jsonb, which cannot hold every value that a row can.

use crate::error::{Error, OrRaise};
use crate::queue::Queue;
use crate::server::function::Output;
use crate::server::json_cast::{self, Calls};
use crate::server::relation::ColumnType;
use crate::server::spi::Rows;
use crate::server::value::Value;
use crate::server::xact::{self, Failure};
use crate::server::{callbacks, injection, jsonb, operators, record, types};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Oid;
use xqueue_core::form::Form;

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

    /// Returns a task as jsonb; a value that jsonb cannot hold becomes null.
    pub fn shown<'to>(&self, task: Value<'to>) -> Value<'to> {
        if task.type_oid() == types::JSONB {
            return task;
        }
        self.converted(task).unwrap_or_else(|_| self.shown_in_part(task))
    }

    /// Returns a task as jsonb, or the reason why jsonb cannot hold it.
    pub fn converted<'to>(&self, task: Value) -> Result<Value<'to>, Failure> {
        self.attempt(|| self.shows.calls(), |calls| self.convert(task, calls))
    }

    /// Returns a task as jsonb. A column whose conversion would call another role's code is shown as text.
    pub fn to_jsonb<'to>(&self, task: Value) -> Value<'to> {
        self.convert(task, self.shows.calls())
    }

    /// Returns new tasks in the form that the caller asked for.
    pub fn in_form<'m>(&self, tasks: impl Iterator<Item = Value<'m>>, form: Form) -> Rows<'m> {
        Rows::of(match form {
            Form::Row => tasks.collect(),
            Form::Json => tasks.map(|task| self.to_jsonb(task)).collect(),
        })
    }

    fn convert<'to>(&self, task: Value, calls: Calls) -> Value<'to> {
        match calls {
            Calls::Nothing | Calls::Trusted => jsonb::of(task),
            Calls::Foreign => self.object(task, |column, value| {
                Some(convert_column(value, self.shows.calls_of(column)))
            }),
        }
    }

    /// Returns the result of a conversion, or the reason why jsonb cannot hold it. `calls`: the code that it calls.
    ///
    /// Conversions of the server's types only read. A user's cast can run any code, also one that is created while the
    /// conversion runs: its error is raised, because nothing else would undo what it has done.
    fn attempt<'to>(
        &self,
        calls: impl FnOnce() -> Calls,
        convert: impl FnOnce(Calls) -> Value<'to>,
    ) -> Result<Value<'to>, Failure> {
        let before = callbacks::changed_casts();
        let calls = calls();
        if calls != Calls::Nothing || !self.shows.has_plain_types {
            return xact::in_subtransaction_unless_of_task(|| Ok(convert(calls)));
        }
        injection::point(c"xqueue-task-is-to-be-shown");
        let converted = xact::unless_of_task_holding(|| convert(calls));
        if let Err(failure) = &converted
            && callbacks::changed_casts() != before
        {
            let code = PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
            let message =
                format!("a cast changed while a task of queue \"{}\" was read", self.name);
            Error::new(code, message)
                .detail(failure.message.clone())
                .hint("Repeat the call.")
                .raise()
        }
        converted
    }

    fn shown_in_part<'to>(&self, task: Value) -> Value<'to> {
        let show = |column: &ColumnType, value: Value| {
            let calls = || self.shows.calls_of(column);
            self.attempt(calls, |calls| convert_column(value, calls)).ok()
        };
        // All values together can exceed the maximum length, too.
        let whole = xact::unless_of_task(|| self.object(task, show));
        whole.unwrap_or_else(|_| {
            let is_key = |column: &ColumnType| self.is_key_column(column.number);
            self.object(task, |column, value| is_key(column).then(|| show(column, value))?)
        })
    }

    /// Returns a task as a JSON object of its columns; a column for which `show` returns None is null.
    fn object<'to, 'column>(
        &self,
        task: Value,
        show: impl Fn(&ColumnType, Value) -> Option<Value<'column>>,
    ) -> Value<'to> {
        let fields = record::fields(task).or_raise();
        let member = |column: &ColumnType| {
            let value = fields.get(column.number as usize - 1).copied().flatten();
            let value = value.and_then(|value| show(column, value));
            let value = value.map_or("null".into(), jsonb::text);
            format!("{}: {value}", serde_json::Value::from(column.name.as_str()))
        };
        let members = self.columns().iter().map(member).collect::<Vec<_>>();
        let text = format!("{{{}}}", members.join(", "));
        operators::parse_value(&text, types::JSONB).or_raise()
    }
}

fn convert_column<'to>(value: Value, calls: Calls) -> Value<'to> {
    match calls {
        Calls::Nothing | Calls::Trusted => jsonb::of(value),
        Calls::Foreign => jsonb::of(Value::text(&value.shown())),
    }
}

/// How the types of a table's columns are converted to jsonb.
pub struct Shows {
    /// Conversions call no user function, except casts of enums, which users can create at any time.
    has_plain_types: bool,
    /// The columns of user-defined types, with these types stripped of domains and arrays.
    of_users: Vec<(i16, Oid)>,
    /// jsonb can be unable to hold a task for a reason other than its length.
    pub has_doubtful_types: bool,
}

impl Shows {
    pub(super) fn of(columns: &[ColumnType]) -> Shows {
        let elements = columns.iter().map(|column| (column.number, json_cast::element(column.oid)));
        let elements: Vec<(i16, Oid)> = elements.collect();
        let has_plain_types = !elements.iter().any(|(_, oid)| types::is_made_by_users(*oid));
        let has_json = elements.iter().any(|(_, oid)| *oid == types::JSON);
        let of_users = |(_, oid): &(i16, Oid)| json_cast::is_of_users(*oid);
        Shows {
            has_plain_types,
            has_doubtful_types: !has_plain_types || has_json,
            of_users: elements.into_iter().filter(of_users).collect(),
        }
    }

    pub fn calls_no_cast(&self) -> bool {
        self.has_plain_types && self.calls() == Calls::Nothing
    }

    /// Returns which kind of code the conversion of a task calls.
    fn calls(&self) -> Calls {
        let calls = self.of_users.iter().map(|(_, oid)| json_cast::calls(*oid));
        calls.max().unwrap_or(Calls::Nothing)
    }

    fn calls_of(&self, column: &ColumnType) -> Calls {
        let of_users = self.of_users.iter().find(|(number, _)| *number == column.number);
        of_users.map_or(Calls::Nothing, |(_, oid)| json_cast::calls(*oid))
    }
}
