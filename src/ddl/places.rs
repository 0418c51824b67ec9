//! Limit on queues per role: a new queue counts for its owner, and so does a queue given to another owner.
//!
//! The owner is compared just before the commit of a transaction that altered the table, so every command that can
//! change the owner is covered. If concurrent transactions exceed the limit together, at least the last one sees the
//! others. While a transaction that changes the owner is prepared, the queue counts for both roles, because the
//! transaction can end either way.

use crate::error::{Error, Result};
use crate::parts::slot;
use crate::server::{catalog, user, xact};
use crate::{queue, settings, transaction};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Oid;
use xqueue_core::slot_id::SlotId;

/// Refuses a new queue beyond its owner's limit. Queues that the transaction has given away still count, because it can
/// take them back.
pub fn require_for_new(owner: Oid) -> Result<()> {
    if user::is_superuser(owner) {
        return Ok(());
    }
    require(owner, &transaction::dropped())
}

/// Notes the owner of an altered table before the change is visible, and whether the limit binds the altering role.
pub fn note_owner(slot: SlotId, table: Oid) {
    let Some(owner) = catalog::owner_of(table) else { return };
    let is_bound = !user::is_superuser(user::current());
    transaction::note(slot, |delta| {
        delta.table.owner_before = delta.table.owner_before.or(Some(owner.into()));
        delta.table.altered_by_user |= is_bound;
    });
}

/// Counts queues that the open transaction gave to other owners for the new owners, and refuses more than a role's
/// limit. Tables altered only by superusers are exempt; the role that commits does not matter.
pub fn settle() -> Result<()> {
    xact::see_own_changes();
    let moved = moved();
    for (slot, owner) in &moved {
        if let Some(mut queue) = slot::lock(*slot) {
            queue.table.set_next_owner((*owner).into());
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

/// Returns the queues that the open transaction gave to another owner, with that owner.
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

/// Refuses an owner beyond its limit. `leaving`: queues that the owner loses when the transaction commits.
fn require(owner: Oid, leaving: &[SlotId]) -> Result<()> {
    let limit = settings::max_queues_per_role();
    // After a server start, some queues of this database have no slots yet.
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
