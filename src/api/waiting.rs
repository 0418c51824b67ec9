//! The wait of a consumer for tasks, and the refusals that concern waiting.

use crate::api::argument::Target;
use crate::api::features::tube_value;
use crate::error::{Error, Result};
use crate::parts::waiters::Want;
use crate::parts::waiters::wait::{self, Deadline, NoTask, WaitEntry};
use crate::queue;
use crate::server::catalog;
use crate::server::relation::LockMode;
use crate::server::xact::{self, Verdict};
use pgrx::PgSqlErrorCode;
use xqueue_core::slot_id::SlotId;

/// The result of one try to take tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Try {
    Taken,
    NoTask(NoTask),
}

/// The wait queue that a consumer joins, and the event that it waits for.
pub struct ConsumerWait {
    slot: SlotId,
    name: String,
    want: Want,
}

impl ConsumerWait {
    /// Returns the wait queue for tasks of a tube, or for any task.
    pub fn of(target: &Target, tube: Option<&str>) -> Result<ConsumerWait> {
        let mut found = Err(wait::gone(&queue::display_name(target.table)));
        xact::in_subtransaction(|| {
            found = target.open(LockMode::AccessShare).and_then(|queue| {
                let want = match (tube, queue.tube()) {
                    (Some(tube), Some(column)) => {
                        let value = tube_value(tube, &queue)?;
                        Want::Tube(queue.tube_named(value, column).hash)
                    }
                    _ => Want::Any,
                };
                Ok(ConsumerWait { slot: queue.slot, name: queue.name.clone(), want })
            });
            Verdict::<()>::Undo
        });
        found
    }

    /// Tries to take tasks until it succeeds or the deadline passes, asleep in the wait queue between the tries.
    /// `end_look` is called after each try without a task.
    pub fn wait(
        &self,
        target: &Target,
        tube: Option<&str>,
        deadline: Deadline,
        mut look: impl FnMut() -> Result<Try>,
        end_look: impl Fn(&WaitEntry),
    ) -> Result<()> {
        let place = WaitEntry::join(self.slot, &self.name, self.want)?;
        loop {
            let in_vain = match look() {
                Ok(Try::Taken) => {
                    place.succeed();
                    return Ok(());
                }
                Ok(Try::NoTask(look)) => look,
                Err(error) => return Err(gone_or(error, target, &self.name)),
            };
            let has_changed = self.has_changed(&place, target, tube);
            end_look(&place);
            if !has_changed? && !place.sleep(deadline, in_vain, &self.name)? {
                return Ok(());
            }
        }
    }

    /// Returns whether a feature change has altered the meaning of the tube argument since the consumer joined. The
    /// caller must then try again.
    fn has_changed(&self, place: &WaitEntry, target: &Target, tube: Option<&str>) -> Result<bool> {
        if tube.is_none() {
            return Ok(false);
        }
        let now =
            ConsumerWait::of(target, tube).map_err(|error| gone_or(error, target, &self.name))?;
        place.wants(now.want, &self.name)
    }
}

/// Replaces an error of a later try by "queue is gone" if that is the cause.
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
