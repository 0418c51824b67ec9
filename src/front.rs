//! The priority of tasks that are put ahead of all others.

use crate::error::{Error, Result};
use crate::marks;
use crate::model::position::Group;
use crate::pg::spi;
use crate::pg::value::Value;
use crate::registry::{Arguments, Queue, Statement};
use crate::statement::Parameter;
use pgrx::PgSqlErrorCode;

/// One less than the least of the ready tasks, and less than that of a task that says nothing.
pub fn priority(queue: &Queue) -> Result<i64> {
    let groups = marks::groups(queue, &Arguments::default());
    let least = groups.first().and_then(|group| least(queue, *group));
    least.unwrap_or(0).min(0).checked_sub(1).ok_or_else(|| {
        Error::new(
            PgSqlErrorCode::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
            format!("no priority is less than the least of queue \"{}\"", queue.name),
        )
        .hint(hint(queue))
    })
}

/// The next step where there is no such number.
pub fn hint(queue: &Queue) -> String {
    format!(
        "In front of the least priority of {} there may be no number left: raise the priorities of \
         its tasks.",
        queue.name
    )
}

/// The least priority of the ready tasks, of which none stands before the marks of `first`.
fn least(queue: &Queue, first: Group) -> Option<i64> {
    let mut arguments = Arguments::default();
    let mut marked = false;
    if let Group::Ready { priority: Some(priority), .. } = first {
        arguments.set(Parameter::Level, Value::int8(priority));
        marked = marks::start(queue, first, &mut arguments, 1);
    }
    let statement = Statement::Least { marked };
    spi::connect(|spi| {
        let rows = queue.run(spi, &statement, &arguments);
        rows.value(0, 1).map(|priority| priority.to_integer())
    })
}
