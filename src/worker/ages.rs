//! Records since when the oldest ready task of each queue has been ready. The metrics worker has no database and cannot
//! read tables, so it asks the database worker for this. Only queues whose tasks have changed since the last record are
//! scanned.

use crate::error::OrRaise;
use crate::parts::slot;
use crate::queue::{self, census};
use crate::server::relation::{self, LockMode};
use crate::server::{process, time, xact};
use pgrx::pg_sys::Oid;

/// Records in the slots of these tables since when their oldest task has been ready. A table that is locked exclusively
/// is skipped until the next request.
pub fn note(tables: impl Iterator<Item = Oid>) {
    for table in tables {
        let Some(id) = slot::find(process::database().into(), table.into()) else { continue };
        let outdated = slot::lock(id).filter(|slot| slot.is_ready_since_outdated());
        let Some(version) = outdated.map(|slot| slot.counters.version()) else { continue };
        let look = || {
            if !relation::try_lock_whole(table, LockMode::AccessShare) {
                return None;
            }
            let queue = queue::find(table).or_raise();
            Some(queue.and_then(|queue| census::oldest_ready(&queue).or_raise()))
        };
        // A failed scan counts as no ready task: other work reports the error.
        let Some(age) = xact::try_in_transaction(look).unwrap_or(Some(None)) else { continue };
        let since = age.map(|age| time::now() - age);
        slot::with(id, |slot| slot.shown.set_ready_since(since, version));
    }
}
