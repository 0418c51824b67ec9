//! What becomes of the tasks when features of a queue are switched.

use crate::error::{Error, Result};
use crate::model::definition::Field;
use crate::model::options::Options;
use crate::model::status::Status;
use crate::pg::{catalog, spi};
use crate::statement::Table;
use pgrx::PgSqlErrorCode;

/// The statements that bring the tasks of a queue from the options it has to those it gets.
/// Refuses what would leave tasks in a state out of which nothing leads.
pub fn settle(
    old: &Options,
    new: &Options,
    newer: &Options,
    before: &Table,
) -> Result<Vec<String>> {
    let mut ddl = Vec::new();
    for status in Status::ALL {
        let conversion = newer.convert.get(&status);
        if new.has_state(status) {
            if conversion.is_some() {
                return Err(Error::invalid(format!(
                    "tasks in state {} cannot be converted: the queue keeps that state",
                    status.letter()
                ))
                .hint("Switch its feature off in the same call, or leave it out of \"convert\"."));
            }
            continue;
        }
        if !old.has_state(status) {
            continue;
        }
        match conversion.map(|conversion| conversion.status()) {
            Some(Some(to)) if !new.has_state(to) => {
                return Err(Error::invalid(format!(
                    "tasks in state {} cannot become {}: the queue has no such state",
                    status.letter(),
                    to.letter()
                ))
                .hint("Convert them to R, or delete them."));
            }
            Some(to) => ddl.push(before.convert(status, to)),
            None => refuse_tasks_left(status, before)?,
        }
    }
    let (was, is) = (&old.features, &new.features);
    if was.expires() && !is.expires() {
        ddl.push(before.forget(Field::Expires, None));
    }
    if was.has_deadlines() && !is.has_deadlines() {
        ddl.push(before.forget(Field::Runat, Some(Status::Taken)));
    }
    Ok(ddl)
}

fn refuse_tasks_left(status: Status, before: &Table) -> Result<()> {
    let count = spi::connect(|spi| spi.run(&before.count_in(status)).number());
    if count == 0 {
        return Ok(());
    }
    let (feature, also) = match status {
        Status::Waiting => ("delayed", "wait until they are ready"),
        Status::Buried => ("buried", "call xqueue.plow()"),
        Status::Zombie => ("zombie", "wait until they are deleted"),
        _ => ("keep", "delete them"),
    };
    let letter = status.letter();
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_IN_USE,
        format!(
            "feature {feature} cannot be switched off: {count} tasks of {} are {}",
            before.qualified(),
            status.name()
        ),
    )
    .hint(format!(
        "Say what becomes of them with {}, or {also}.",
        catalog::quote_literal(&format!("{{\"convert\": {{\"{letter}\": \"R\"}}}}"))
    )))
}
