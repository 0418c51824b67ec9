//! The priority of tasks that are put in front of all others.

use crate::error::{Error, Result};
use crate::queue::{Arguments, Queue, Statement};
use crate::server::spi;
use crate::server::value::Value;
use crate::write::start;
use pgrx::PgSqlErrorCode;
use xqueue_core::position::Group;
use xqueue_core::statement::Parameter;

/// Returns a priority one less than the least of the ready tasks, but at most -1, so that it precedes tasks put without
/// a priority.
pub fn priority(queue: &Queue) -> Result<i64> {
    let groups = start::groups(queue, &Arguments::default());
    let least = groups.first().and_then(|group| least(queue, *group));
    least.unwrap_or(0).min(0).checked_sub(1).ok_or_else(|| {
        Error::new(
            PgSqlErrorCode::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
            format!("no priority is less than the least of queue \"{}\"", queue.name),
        )
        .hint(hint(queue))
    })
}

/// Returns the hint for the error that no lesser priority exists.
pub fn hint(queue: &Queue) -> String {
    format!(
        "In front of the least priority of {} there may be no number left: raise the priorities of \
         its tasks.",
        queue.name
    )
}

/// Returns the least priority of the ready tasks. No ready task stands before the mark of `first`.
fn least(queue: &Queue, first: Group) -> Option<i64> {
    let mut arguments = Arguments::default();
    let mut marked = false;
    if let Group::Ready { priority: Some(priority), .. } = first {
        arguments.set(Parameter::Level, Value::int8(priority));
        marked = start::start(queue, first, &mut arguments, 1);
    }
    let statement = Statement::Least { marked };
    spi::connect(|spi| {
        let rows = queue.run(spi, &statement, &arguments);
        rows.value(0, 1).map(|priority| priority.to_integer())
    })
}
