//! Takes tasks named by the caller or by the queue's `pick` function.

use crate::api::argument::{self, Key};
use crate::error::Result;
use crate::queue::{Arguments, Queue};
use crate::server::memory::Memory;
use crate::server::spi::{self, Rows};
use crate::server::value::Value;
use crate::server::{catalog, context, types};
use crate::transaction;
use crate::write::passed::Passed;
use crate::write::subqueues;
use xqueue_core::statement::Change;

/// Maximum number of calls of the pick function per take while none of the tasks that it names can be taken. Other
/// consumers can have taken these tasks, or they are not ready. Beyond the limit the take returns nothing.
const ROUNDS: usize = 10;

/// Takes up to `count` of the tasks with these keys, in this order; skips tasks that cannot be taken now.
pub fn take(
    queue: &Queue,
    change: Change,
    arguments: &Arguments,
    keys: Vec<Key>,
    count: usize,
    passed: &mut Passed,
    deliver: &mut impl FnMut(&Rows, &Queue) -> Result<()>,
) -> Result<usize> {
    let mut arguments = arguments.clone();
    let mut taken = 0;
    for key in keys {
        if taken == count {
            break;
        }
        arguments.set_key(&key);
        let mut run = || passed.take(change, &arguments, deliver);
        taken += match queue.features().has_subqueues() {
            true => subqueues::take_named(queue, &arguments, run)?,
            false => run()?,
        };
    }
    Ok(taken)
}

/// Takes up to `count` of the tasks named by the queue's pick function.
pub fn take_picked(
    queue: &Queue,
    picker: &str,
    change: Change,
    arguments: &Arguments,
    (count, tube): (i32, Option<&str>),
    passed: &mut Passed,
    deliver: &mut impl FnMut(&Rows, &Queue) -> Result<()>,
) -> Result<usize> {
    for _ in 0..ROUNDS {
        let keys = ask(queue, picker, count, tube)?;
        if keys.is_empty() {
            break;
        }
        let taken = take(queue, change, arguments, keys, count.max(0) as usize, passed, deliver)?;
        if taken > 0 {
            return Ok(taken);
        }
    }
    Ok(0)
}

/// Calls the pick function for the keys of tasks to take.
fn ask<'to>(queue: &Queue, picker: &str, count: i32, tube: Option<&str>) -> Result<Vec<Key<'to>>> {
    let quoted = catalog::quote_literal(&queue.name);
    let hint = || {
        format!(
            "It is what picks the tasks of queue {} and names their keys. SELECT xqueue.upgrade({quoted}, \
             '{{\"features\": {{\"pick\": false}}}}'); switches that off.",
            queue.name
        )
    };
    let (sql, takes_tube) = queue.sql.ask(picker);
    let mut arguments = vec![(types::INT4, Some(Value::int4(count)))];
    if takes_tube {
        arguments.push((types::TEXT, tube.map(Value::text)));
    }
    let memory = Memory::current();
    let ask = || {
        transaction::aside(|| {
            spi::connect(|spi| keys(&spi.run_with(&sql, &arguments), &memory, queue))
        })
    };
    context::hinted_if_undefined(&sql, hint, || context::hinted(hint, ask))
}

/// Returns the keys in the function's result, without NULLs.
fn keys<'to>(rows: &Rows, memory: &Memory, queue: &Queue) -> Result<Vec<Key<'to>>> {
    let part = |row: usize, index: usize| {
        let value = rows.value(row, index as i32 + 1)?;
        Some(memory.run(|| argument::converted(value.copied(), queue.key[index].oid)))
    };
    let key = |row| (0..queue.key.len()).map(|index| part(row, index)).collect::<Option<_>>();
    (0..rows.len()).filter_map(key).map(|key: Vec<_>| key.into_iter().collect()).collect()
}
