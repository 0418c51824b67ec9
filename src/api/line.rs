//! Wait queue entries of consumers and the refusals that concern waiting.

use crate::api::argument::Target;
use crate::api::features::tube_value;
use crate::error::{Error, Result};
use crate::parts::slot_id::SlotId;
use crate::parts::waiters::Want;
use crate::parts::waiters::wait::{self, Place};
use crate::queue;
use crate::server::catalog;
use crate::server::relation::Lock;
use crate::server::xact::{self, Verdict};
use pgrx::PgSqlErrorCode;

/// The wait queue that a consumer joins, and what it waits for.
pub struct Line {
    slot: SlotId,
    pub name: String,
    want: Want,
}

impl Line {
    /// Returns the wait queue for tasks of a tube, or for any task.
    pub fn of(target: &Target, tube: Option<&str>) -> Result<Line> {
        let mut line = Err(wait::gone(&queue::display_name(target.table)));
        xact::in_subtransaction(|| {
            line = target.open(Lock::AccessShare).and_then(|queue| {
                let want = match (tube, queue.tube()) {
                    (Some(tube), Some(column)) => {
                        let value = tube_value(tube, &queue)?;
                        Want::Tube(queue.tube_named(value, column).hash)
                    }
                    _ => Want::Any,
                };
                Ok(Line { slot: queue.slot, name: queue.name.clone(), want })
            });
            Verdict::<()>::Undo
        });
        line
    }

    pub fn join(&self) -> Result<Place> {
        Place::join(self.slot, &self.name, self.want)
    }

    /// Returns whether a feature change has altered what the tube argument stands for since the consumer joined; then the
    /// caller has to look again.
    pub fn has_changed(&self, place: &Place, target: &Target, tube: Option<&str>) -> Result<bool> {
        if tube.is_none() {
            return Ok(false);
        }
        let now = Line::of(target, tube).map_err(|error| gone_or(error, target, &self.name))?;
        place.wants(now.want, &self.name)
    }
}

/// Replaces an error of a later look by "queue is gone" if that is the cause.
pub fn gone_or(error: Error, target: &Target, name: &str) -> Error {
    let is_dropped = catalog::table_name(target.table).is_none();
    match queue::read(target.table) {
        Ok(None) => wait::gone(name),
        _ if is_dropped => wait::gone(name),
        _ => error,
    }
}

/// Refuses to wait for `what` in a transaction with a fixed snapshot.
pub fn refuse_fixed_snapshot(what: &str) -> Result<()> {
    if !xact::has_fixed_snapshot() {
        return Ok(());
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
        format!(
            "cannot wait for {what} in a transaction of isolation level repeatable read or higher"
        ),
    )
    .detail("Its snapshot stays as it is for as long as it waits.")
    .hint("Use read committed, or a timeout of zero."))
}
