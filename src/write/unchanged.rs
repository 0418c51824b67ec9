//! Tasks that a statement has returned without changing them, because a user's trigger or policy kept their state.

use crate::error::{Error, OrRaise, Result};
use crate::queue::{self, Queue};
use crate::server::record;
use crate::server::spi::Rows;
use crate::server::value::Value;
use crate::server::xact::Failure;
use pgrx::PgSqlErrorCode;
use xqueue_core::field::Field;
use xqueue_core::status::Status;

pub const CODE: PgSqlErrorCode = PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;

/// Returns the error for a task, given the text of its key.
pub fn error(task: &str) -> Error {
    Error::new(CODE, message(task))
        .hint("A trigger or a row security policy of the table has kept it.")
}

pub fn failure(task: &str) -> Failure {
    Failure { message: message(task), code: CODE }
}

fn message(task: &str) -> String {
    format!("task {task} was left unchanged")
}

/// Raises an error if a statement has returned a task whose state is wrong.
pub fn refuse(queue: &Queue, rows: &Rows, is_right: impl Fn(Status) -> bool) -> Result<()> {
    match find(queue, rows, is_right) {
        Some(task) => Err(error(&task).detail(format!("Queue \"{}\".", queue.name))),
        None => Ok(()),
    }
}

/// Returns the key of the first task returned by a statement whose state is wrong.
pub fn find(queue: &Queue, rows: &Rows, is_right: impl Fn(Status) -> bool) -> Option<String> {
    let tasks = (0..rows.len()).filter_map(|row| rows.value(row, 1));
    // Only user code causes that.
    let mut tasks = tasks.filter(|_| queue.may_refuse);
    tasks.find_map(|task| {
        let fields = record::fields(task).or_raise();
        let value = |number: i16| fields.get((number as usize).wrapping_sub(1)).copied().flatten();
        let status = queue.status_read(value(queue.number_of(Field::Status)));
        let key = || queue.key.iter().filter_map(|key| value(key.number)).collect::<Vec<Value>>();
        (!status.is_some_and(&is_right)).then(|| queue::key_text(&key()))
    })
}
