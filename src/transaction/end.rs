//! The transaction callback: publishes a transaction's changes to shared memory at its end, and wakes the processes
//! concerned.
//!
//! Its order prevents these races:
//!
//! 1. A recount must not count a transaction twice: PRE_COMMIT publishes its xid before it is visible, until the
//!    counters include it.
//! 2. A woken consumer must find the task: COMMIT runs after the rows have become visible. It still holds the row
//!    locks, so changes of one row are applied in order.
//! 3. The worker must find the tasks that were given to another session: it is notified after the counters have
//!    changed.
//! 4. The worker must not miss a transaction that is being prepared: its queues are marked before PREPARE, and again
//!    after the prepared transaction has got the locks.

use crate::error::Error;
use crate::parts::clock;
use crate::parts::leases::{departed, held, session, sessions};
use crate::parts::marks::claim;
use crate::parts::schedule::requests;
use crate::parts::slot;
use crate::parts::waiters::{Offer, wait};
use crate::server::allocator::{allow, forbid, staying};
use crate::server::callbacks::{SubtransactionEvent, TransactionEvent};
use crate::server::{durability, injection, process, time, xact};
use crate::transaction::{CHANGES, NOTED, Noted, ONLY_TAKEN, begun, has_only_taken, note_beyond};
use pgrx::PgSqlErrorCode;
use xqueue_core::slot_id::SlotId;
use xqueue_core::transaction::Delta;
use xqueue_core::transaction::HeldChange;
use xqueue_core::transaction::stack::Stack;

/// Handles the end of a transaction. Must be called after altered tables and triggers have been examined.
pub fn transaction_ended(event: TransactionEvent) {
    match event {
        TransactionEvent::PreCommit => {
            if CHANGES.with_borrow(|stack| !stack.is_empty()) {
                sessions::set_committing(xact::id_if_any());
            }
            let is_passing = ONLY_TAKEN.get() != 0 && has_only_taken() && !session::is_joined();
            if is_passing && sessions::begin_passing() {
                durability::need_not_wait();
            }
        }
        TransactionEvent::PrePrepare => {
            refuse_to_prepare_takes();
            note_beyond(|noted| noted.preparing = true);
            mark_prepared();
            injection::point(c"xqueue-queues-are-marked");
        }
        // Marks the queues again, now that the prepared transaction holds the locks: the worker might have searched for
        // its locks in between without finding them.
        TransactionEvent::Prepare => {
            mark_prepared();
            hand_over_reservations();
            give_up_claims();
            session::transaction_ended();
            forget();
        }
        TransactionEvent::Commit => {
            forbid();
            let now = time::now();
            CHANGES.with_borrow(|stack| {
                stack.for_each(|slot, delta| commit(now, slot, delta));
                if !stack.is_empty() {
                    clock::tick(now);
                }
            });
            sessions::set_committing(0);
            session::transaction_ended();
            commit_catalogue_changes();
            look_for_replayed_end();
            forget();
            allow();
        }
        TransactionEvent::Abort => {
            wait::leave_any_wait_queue();
            if CHANGES.with_borrow(|stack| !stack.is_empty()) {
                sessions::set_committing(0);
            }
            if NOTED.get().preparing {
                // PREPARE has failed: the worker has to withdraw the marking.
                let database = u32::from(process::database());
                requests::request(database, |requests| requests.prepared = true);
            }
            claim::abandon();
            begun::rolled_back(0);
            CHANGES.with_borrow(|stack| stack.for_each(undo));
            session::transaction_ended();
            forget();
        }
    }
}

pub fn subtransaction_ended(event: SubtransactionEvent) {
    let depth = xact::depth();
    if matches!(event, SubtransactionEvent::Abort) {
        claim::abandon();
        begun::rolled_back(depth);
    }
    staying(|| {
        change_unless_read(|stack| match event {
            SubtransactionEvent::Commit => stack.commit_subtransaction(depth),
            SubtransactionEvent::Abort => stack.abort_subtransaction(depth, undo),
        })
    });
}

/// Changes the stack, unless it is being read: a process that lacks memory while it reads the stack ends without running
/// destructors. Its transaction then undoes the changes of all subtransactions.
fn change_unless_read(change: impl FnOnce(&mut Stack)) {
    CHANGES.with(|changes| {
        if let Ok(mut stack) = changes.try_borrow_mut() {
            change(&mut stack);
        }
    });
}

fn forget() {
    change_unless_read(Stack::clear);
    if ONLY_TAKEN.replace(0) != 0 {
        durability::waits_again();
        sessions::end_passing();
    }
    NOTED.set(Noted::NOTHING);
}

/// Applies the committed changes of a queue. They are visible, and the row locks are still held, so earlier writers of
/// the same rows have run this before. Must neither allocate nor fail.
fn commit(now: i64, slot: SlotId, delta: &Delta) {
    injection::point(c"xqueue-commit-is-visible");
    if delta.table.dropped == Some(true) {
        return slot::remove(slot);
    }
    held::commit(slot, delta.leases.held);
    // Tasks might have been taken unreported, or their keys might have changed.
    if delta.table.redefined || delta.counters.recount {
        slot::invalidate(slot);
    }
    let database = u32::from(process::database());
    let Some(mut queue) = slot::lock(slot) else {
        return requests::request(database, |requests| requests.registry = true);
    };
    let due = queue.schedule.due();
    queue.commit(now, xact::id_if_any(), delta);
    let is_asked = queue.counters.is_recount_requested() || delta.table.redefined;
    let earlier = Some(queue.schedule.due()).filter(|new| *new < due);
    drop(queue);
    injection::point(c"xqueue-commit-has-woken");
    if is_asked {
        requests::request(database, |requests| {
            requests.registry |= delta.table.redefined || delta.counters.recount;
            requests.sweep |= delta.counters.recount;
        });
    } else if let Some(instant) = earlier {
        requests::request_at(database, instant);
    }
    // Comes after the counters, because only they show the worker that such tasks exist.
    delta.leases.given.sessions().for_each(sessions::look_after);
    if delta.leases.given.more {
        requests::request(database, |requests| requests.sweep = true);
    }
}

/// Undoes the changes of a queue. Tasks that were taken are ready again, and no other process wakes consumers for them.
fn undo(slot: SlotId, delta: &Delta) {
    if delta.table.created {
        return slot::remove(slot);
    }
    if delta.table.given_away
        && let Some(mut queue) = slot::lock(slot)
    {
        queue.table.end_next_owner(false);
    }
    let is_touched = !delta.waiters.unmade_ready.is_empty()
        || delta.capacity.reserved > 0
        || delta.marks.moved
        || !delta.subqueues.is_empty();
    if (is_touched || delta.counters.replaces || delta.table.redefined)
        && let Some(mut queue) = slot::lock(slot)
    {
        queue.marks().discard_rings();
        queue.room().give_back(delta.capacity.reserved);
        queue.subqueues().undo(&delta.subqueues, resets(delta));
        for (tube, count) in delta.waiters.unmade_ready.by_tube() {
            queue.waiters().wake(count, Offer { tube });
        }
    }
}

fn commit_catalogue_changes() {
    let noted = NOTED.get();
    if noted == Noted::NOTHING {
        return;
    }
    let database = u32::from(process::database());
    match (noted.extension, noted.installed) {
        (true, true) => {
            requests::want_database_worker(database, true);
        }
        // Another transaction can be installing this extension while an unrelated one is created.
        (true, false) if noted.own_dropped => {
            slot::remove_all(database);
            departed::forget(database);
            requests::request(database, |requests| requests.registry = true);
        }
        _ => {}
    }
    if noted.registry_changed {
        requests::want_database_worker(database, true);
    }
    if let Some(created) = noted.created_database {
        requests::want_database_worker(created, true);
    }
    if let Some(dropped) = noted.dropped_database {
        slot::remove_all(dropped);
        departed::forget(dropped);
        requests::forget(dropped);
    }
}

/// Requests a check for ended prepared transactions. A subscriber ends them without a command that could be observed,
/// in a transaction that does nothing else.
fn look_for_replayed_end() {
    let database = u32::from(process::database());
    let does_nothing = CHANGES.with_borrow(Stack::is_empty);
    if does_nothing && process::replays() && slot::any_prepared(database) {
        requests::request(database, |requests| requests.prepared = true);
    }
}

/// Refuses to prepare takes: a prepared transaction belongs to no session, so no session's end would give its tasks
/// back. It has no claims either, so it must not have taken tasks of sub-queues by hand.
fn refuse_to_prepare_takes() {
    let (mut taken, mut by_hand) = (0, false);
    CHANGES.with_borrow(|stack| {
        stack.for_each(|_, delta| {
            taken += delta.leases.taken;
            by_hand |= delta.subqueues.has_taken();
        });
    });
    let detail = match taken {
        0 if by_hand => "It has taken tasks of sub-queues by hand.".into(),
        0 => return,
        _ => format!(
            "{taken} tasks are taken by this session ({}), which a prepared transaction outlives.",
            session::current_if_any().map(session::pid).unwrap_or_default()
        ),
    };
    Error::new(
        PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
        "cannot prepare a transaction that has taken tasks",
    )
    .detail(detail)
    .hint("Take tasks in a transaction of their own; puts may be prepared.")
    .raise()
}

fn mark_prepared() {
    CHANGES.with_borrow(|stack| {
        stack.for_each(|slot, delta| {
            // Tasks might have been taken unreported, as in `commit`.
            if delta.table.redefined || delta.counters.recount {
                slot::invalidate(slot);
            }
            // After changes of leases by hand, the session does not learn whether the transaction commits.
            if delta.leases.held != HeldChange::default() {
                held::forget();
            }
            if let Some(mut queue) = slot::lock(slot) {
                queue.prepared().mark();
            }
        })
    });
}

fn give_up_claims() {
    CHANGES.with_borrow(|stack| {
        stack.for_each(|slot, delta| {
            if !delta.subqueues.is_empty()
                && let Some(mut queue) = slot::lock(slot)
            {
                queue.subqueues().undo(&delta.subqueues, resets(delta));
            }
        })
    });
}

/// Hands reserved room to the prepared transaction.
fn hand_over_reservations() {
    CHANGES.with_borrow(|stack| {
        stack.for_each(|slot, delta| {
            if let Some(mut queue) = slot::lock(slot) {
                queue.room().keep_for_prepared(delta.capacity.reserved);
                if delta.table.given_away {
                    queue.table.prepare_next_owner();
                }
            }
        })
    });
}

/// Returns whether the rollback brings tasks back without reporting them.
fn resets(delta: &Delta) -> bool {
    delta.counters.replaces || delta.table.redefined
}
