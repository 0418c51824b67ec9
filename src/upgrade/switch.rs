//! Converts the tasks of a queue when its features are switched.

use crate::error::{Error, Result, tasks};
use crate::server::catalog;
use crate::upgrade::FIRE_DEFERRED;
use crate::upgrade::census::Tasks;
use pgrx::PgSqlErrorCode;
use xqueue_core::definition::Made;
use xqueue_core::field::Field;
use xqueue_core::options::Options;
use xqueue_core::statement::Table;
use xqueue_core::status::Status;

/// A switch from one set of options to another.
pub struct Switch<'a> {
    /// The present tasks; None if the status column is gone.
    pub tasks: Option<Tasks<'a>>,
    pub old: &'a Options,
    pub new: &'a Options,
    /// The part of the new options that this call gives.
    pub newer: &'a Options,
    /// The queue's previous names.
    pub before: &'a Table,
    pub made: &'a Made,
}

impl Switch<'_> {
    /// Returns the statements that convert the tasks to the new options. Refuses to leave tasks in a state that nothing
    /// leads out of.
    pub fn settle(&self) -> Result<Vec<String>> {
        let mut ddl = Vec::new();
        for status in Status::ALL {
            ddl.extend(self.give_up(status)?);
        }
        let (was, is) = (&self.old.features, &self.new.features);
        if was.expires() && !is.expires() {
            ddl.extend(self.forget(Field::Expires, None));
        }
        // The column can be the user's own; it or the status column can be gone.
        let has_starts = self.tasks.is_some() && self.before.fields.contains_key(&Field::Runat);
        if was.has_deadlines() && !is.has_deadlines() && has_starts {
            ddl.push(self.before.forget(Field::Runat, Some(Status::Taken)));
        }
        if was.tries().is_some() && is.tries().is_none() {
            ddl.extend(self.forget(Field::Reason, None));
        }
        if !ddl.is_empty() {
            ddl.push(FIRE_DEFERRED.into());
        }
        Ok(ddl)
    }

    /// Returns the conversion of tasks in a state that the new options do not have.
    fn give_up(&self, status: Status) -> Result<Option<String>> {
        let conversion = self.newer.convert.get(&status);
        if self.new.has_state(status) {
            return match conversion {
                None => Ok(None),
                Some(_) => Err(Error::invalid(format!(
                    "tasks in state {} cannot be converted: the queue keeps that state",
                    status.letter()
                ))
                .hint("Switch its feature off in the same call, or leave it out of \"convert\".")),
            };
        }
        if !self.old.has_state(status) {
            return Ok(None);
        }
        match conversion.map(|conversion| conversion.status()) {
            Some(Some(to)) if !self.new.has_state(to) => Err(Error::invalid(format!(
                "tasks in state {} cannot become {}: the queue has no such state",
                status.letter(),
                to.letter()
            ))
            .hint("Convert them to R, or delete them.")),
            Some(to) => Ok(self.tasks.as_ref().map(|_| self.before.convert(status, to))),
            None => self.refuse_tasks_left(status).map(|()| None),
        }
    }

    fn refuse_tasks_left(&self, status: Status) -> Result<()> {
        let count = self.tasks.as_ref().map_or(0, |tasks| tasks.count_in(status));
        if count == 0 {
            return Ok(());
        }
        let features = &self.old.features;
        let (feature, to, also) = match status {
            Status::Waiting if features.delays() && !self.new.features.delays() => {
                ("delayed", "R", "wait until they are ready")
            }
            Status::Waiting => ("retry", "R", "wait until they are ready, or switch delayed on"),
            Status::Buried if features.buried == Some(true) => {
                ("buried", "R", "call xqueue.plow()")
            }
            Status::Buried => ("retry", "R", "call xqueue.plow(), or switch buried on"),
            Status::Zombie => ("zombie", "delete", "wait until they are deleted"),
            Status::Done => ("keep", "delete", "delete them yourself"),
            // Every queue has these states.
            Status::Ready | Status::Taken => return Ok(()),
        };
        let letter = status.letter();
        Err(Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_IN_USE,
            format!(
                "feature {feature} cannot be switched off: queue {} has {}",
                self.before.qualified(),
                tasks(count, status.name())
            ),
        )
        .hint(format!(
            "Convert them with {}, or {also}.",
            catalog::quote_literal(&format!("{{\"convert\": {{\"{letter}\": \"{to}\"}}}}"))
        )))
    }

    /// Clears a field if its column was made by the extension; a user's own column is left alone.
    fn forget(&self, field: Field, of: Option<Status>) -> Option<String> {
        self.has_made(field).then(|| self.before.forget(field, of))
    }

    fn has_made(&self, field: Field) -> bool {
        let column = self.before.fields.get(&field);
        self.made.columns.iter().any(|made| column == Some(&catalog::quote(&made.name)))
    }
}
