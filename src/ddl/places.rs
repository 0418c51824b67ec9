//! The places that a role's queues take among those of all roles: a new queue takes one of its owner's, and so does one
//! that is given to another owner.
//!
//! The owner of a queue is compared when a transaction that has altered its table is about to commit: what it is then
//! counts, by whichever command it has become that. Of several transactions that pass the limit at once the last one,
//! at least, sees what the others are about to do. While a transaction that gives a queue to another owner is prepared,
//! the queue is counted for both: it is one's or the other's in the end.

use crate::error::{Error, Result};
use crate::parts::slot;
use crate::parts::slot_id::SlotId;
use crate::server::{catalog, user, xact};
use crate::{queue, settings, transaction};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Oid;

/// Refuses more queues of an owner than it may have. The new one is counted, and so are those that the transaction has
/// given away: it may yet take them back.
pub fn require_for_new(owner: Oid) -> Result<()> {
    if user::is_superuser(owner) {
        return Ok(());
    }
    require(owner, &transaction::dropped())
}

/// Notes whose queue a table is that a command alters, before others see what it has done, and whether the limit holds
/// for the role that does.
pub fn note_owner(slot: SlotId, table: Oid) {
    let Some(owner) = catalog::owner_of(table) else { return };
    let is_bound = !user::is_superuser(user::current());
    transaction::note(slot, |delta| {
        delta.table.owner_before = delta.table.owner_before.or(Some(owner.into()));
        delta.table.altered_by_user |= is_bound;
    });
}

/// Takes places for the queues that the open transaction has given to other owners; refuses more than a role may have.
/// Superusers may give as many as there is room for: of a table that none but such have altered, by whichever role the
/// transaction is committed.
pub fn settle() -> Result<()> {
    xact::see_own_changes();
    let moved = moved();
    for (slot, owner) in &moved {
        if let Some(mut queue) = slot::lock(*slot) {
            queue.set_next_owner((*owner).into());
        }
        transaction::note(*slot, |delta| delta.table.given_away = true);
    }
    let is_bound = |(slot, owner): &&(SlotId, Oid)| {
        transaction::is_altered_by_user(*slot) && !user::is_superuser(*owner)
    };
    let gone = |owner: Oid| {
        let given = moved.iter().filter(move |(_, to)| *to != owner).map(|(slot, _)| *slot);
        transaction::dropped().into_iter().chain(given).collect::<Vec<_>>()
    };
    moved.iter().filter(is_bound).try_for_each(|(_, owner)| require(*owner, &gone(*owner)))
}

/// The queues that the open transaction has given to another owner, and that.
fn moved() -> Vec<(SlotId, Oid)> {
    let dropped = transaction::dropped();
    let is_there = |slot: &SlotId| !dropped.contains(slot);
    let queues = transaction::owners_before().into_iter().filter(|(slot, _)| is_there(slot));
    let now = |(slot, before): (SlotId, u32)| {
        let table = slot::lock(slot)?.relation;
        let owner = catalog::owner_of(table.into())?;
        (u32::from(owner) != before).then_some((slot, owner))
    };
    queues.filter_map(now).collect()
}

/// `leaving`: queues that are the owner's no more once the transaction commits.
fn require(owner: Oid, leaving: &[SlotId]) -> Result<()> {
    let limit = settings::max_queues_per_role();
    // Those of this database may not have been looked at since the server started.
    let count = slot::count_of(owner.into(), leaving).max(queue::count_of(owner));
    if count <= limit {
        return Ok(());
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
        format!("role \"{}\" may have no more than {limit} queues", catalog::role_name(owner)),
    )
    .detail(format!("All databases of the server together have room for {}.", settings::max_queues()))
    .hint("Drop or downgrade queues that are not needed. A superuser can change the setting xqueue.max_queues_per_role."))
}
