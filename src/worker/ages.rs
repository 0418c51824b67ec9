//! Since when the oldest ready task of each queue has been ready, for metrics that are sent by a process without a
//! database. It asks for that where tasks have changed since.

use crate::error::OrRaise;
use crate::parts::slot;
use crate::queue::{self, census};
use crate::server::relation::{self, Lock};
use crate::server::{process, time, xact};
use pgrx::pg_sys::Oid;

/// Looks into the tables of queues with ready tasks, and notes what it finds in their slots. A table that is locked
/// exclusively is passed over, and looked into the next time.
pub fn note(tables: impl Iterator<Item = Oid>) {
    for table in tables {
        let Some(id) = slot::find(process::database().into(), table.into()) else { continue };
        let outdated = slot::lock(id).filter(|slot| slot.is_ready_since_outdated());
        let Some(version) = outdated.map(|slot| slot.version()) else { continue };
        let look = || {
            if !relation::try_lock_whole(table, Lock::AccessShare) {
                return None;
            }
            let queue = queue::find(table).or_raise();
            Some(queue.and_then(|queue| census::oldest_ready(&queue).or_raise()))
        };
        // What is wrong with the queue is reported elsewhere.
        let Some(age) = xact::try_in_transaction(look).unwrap_or(Some(None)) else { continue };
        let since = age.map(|age| time::now() - age);
        slot::with(id, |slot| slot.set_ready_since(since, version));
    }
}
