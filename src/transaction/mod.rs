//! The transaction callback: hands what a transaction has changed to shared memory when it ends, and wakes the
//! processes concerned.

pub mod stack;
#[cfg(test)]
mod tests;

use crate::error::Error;
use crate::model::change::{Call, Transitions};
use crate::model::position::{Kind, Position};
use crate::parts::capacity::Growth;
use crate::parts::delta::Delta;
use crate::parts::leases::{held, session, sessions};
use crate::parts::schedule::databases;
use crate::parts::slot;
use crate::parts::slot_id::SlotId;
use crate::parts::subqueues::change::{LaneChange, LaneChanges};
use crate::parts::waiters::{Cause, Offer, wait};
use crate::server::allocator::{allow, forbid, staying};
use crate::server::callbacks::{SubtransactionEvent, TransactionEvent};
use crate::server::{durability, injection, process, xact};
use crate::trace;
use crate::transaction::stack::Stack;
use pgrx::PgSqlErrorCode;
use std::cell::{Cell, RefCell};

thread_local! {
    static CHANGES: RefCell<Stack> = const { RefCell::new(Stack::new()) };
    /// Up to this WAL position the open transaction has written only takes of tasks that a crash would make ready
    /// again.
    static ONLY_TAKEN: Cell<u64> = const { Cell::new(0) };
    static NOTED: Cell<Noted> = const { Cell::new(Noted::NOTHING) };
    /// Call that this session is executing on the tasks of a queue.
    static DOING: Cell<Option<(SlotId, Call)>> = const { Cell::new(None) };
}

/// Changes of the open transaction beyond those of queues.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Noted {
    /// An extension, whichever it was, was created or dropped.
    extension: bool,
    /// With that: ours is installed as the transaction commits.
    installed: bool,
    /// The transaction is being prepared, and has marked its queues.
    preparing: bool,
    /// The registry was written, tables were dropped, or their schema renamed.
    registry_changed: bool,
    /// Tables of queues were altered.
    tables_altered: bool,
    /// Triggers were made, dropped, enabled or disabled.
    altered: bool,
    created_database: Option<u32>,
    dropped_database: Option<u32>,
}

impl Noted {
    const NOTHING: Noted = Noted {
        extension: false,
        installed: false,
        preparing: false,
        registry_changed: false,
        tables_altered: false,
        altered: false,
        created_database: None,
        dropped_database: None,
    };
}

/// Returns whether the open transaction has written nothing, or only what `note_only_taken` covers.
pub fn has_only_taken() -> bool {
    durability::written() == ONLY_TAKEN.get()
}

/// Declares what the transaction has written so far to be takes only.
pub fn note_only_taken() {
    ONLY_TAKEN.set(durability::written());
}

fn note_beyond(change: impl FnOnce(&mut Noted)) {
    let mut noted = NOTED.get();
    change(&mut noted);
    NOTED.set(noted);
}

/// Records a change of a queue by the current (sub)transaction.
pub fn note<T>(slot: SlotId, change: impl FnOnce(&mut Delta) -> T) -> T {
    staying(|| CHANGES.with_borrow_mut(|stack| change(stack.at(xact::depth(), slot))))
}

/// Returns what the open transaction has changed of a queue.
pub fn pending(slot: SlotId) -> Delta {
    CHANGES.with_borrow(|stack| stack.total(slot))
}

/// Returns how many tasks, of all queues, the connection's own session has got and lost in the open transaction.
pub fn held() -> (u64, u64) {
    CHANGES.with_borrow(Stack::held)
}

/// Returns the queues that the open transaction has dropped.
pub fn dropped() -> Vec<SlotId> {
    CHANGES.with_borrow(Stack::dropped)
}

/// Returns the previous owners of queues whose tables the open transaction has altered.
pub fn owners_before() -> Vec<(SlotId, u32)> {
    CHANGES.with_borrow(Stack::owners_before)
}

/// Returns whether a role that is not a superuser has altered a queue's table in the open transaction.
pub fn is_altered_by_user(slot: SlotId) -> bool {
    CHANGES.with_borrow(|stack| stack.is_altered_by_user(slot))
}

/// Returns the effect of the open transaction on the number of a queue's tasks.
pub fn growth(slot: SlotId) -> Growth {
    CHANGES.with_borrow(|stack| stack.growth(slot))
}

/// Returns the transitions of a queue's tasks in the open transaction, and the earliest instant of work for tasks
/// that it has changed.
pub fn transitions(slot: SlotId) -> (Transitions, Option<i64>) {
    CHANGES.with_borrow(|stack| stack.transitions(slot))
}

/// Returns whether other transactions may see ready, or buried, tasks where this one does not; a rollback brings them
/// back.
pub fn hides(slot: SlotId, tasks: Kind) -> bool {
    CHANGES.with_borrow(|stack| stack.hides(slot, tasks))
}

/// Returns whether the open transaction has changed a queue's table or its triggers, so that later changes may not
/// have been reported.
pub fn has_redefined(slot: SlotId) -> bool {
    NOTED.get().altered || CHANGES.with_borrow(|stack| stack.has_redefined(slot))
}

/// Returns the first position at which the open transaction has made a task ready, or buried one; other transactions
/// do not know of it.
pub fn lowest(slot: SlotId, tasks: Kind) -> Option<Position> {
    CHANGES.with_borrow(|stack| stack.lowest(slot, tasks))
}

/// Returns the changes of a queue's sub-queues by the open transaction.
pub fn pending_lanes(slot: SlotId) -> LaneChanges {
    CHANGES.with_borrow(|stack| stack.lanes(slot))
}

/// Returns those of one sub-queue.
pub fn pending_lane(slot: SlotId, lane: u64) -> LaneChange {
    CHANGES.with_borrow(|stack| stack.lane(slot, lane))
}

/// Runs `work`, which does `call` to tasks of a queue; triggers learn of the call.
pub fn doing<T>(slot: SlotId, call: Call, work: impl FnOnce() -> T) -> T {
    let _before = Before(DOING.replace(Some((slot, call))));
    work()
}

/// Runs user code, whose own changes are not part of the call that it runs in.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    let _before = Before(DOING.replace(None));
    work()
}

/// Returns the call in progress on the tasks of a queue; None for changes by hand.
pub fn being_done(slot: SlotId) -> Option<Call> {
    DOING.get().filter(|(queue, _)| *queue == slot).map(|(_, call)| call)
}

/// Restores the previous call on drop, also after an error.
struct Before(Option<(SlotId, Call)>);

impl Drop for Before {
    fn drop(&mut self) {
        DOING.set(self.0);
    }
}

pub fn note_extension() {
    note_beyond(|noted| noted.extension = true);
}

pub fn note_registry_change() {
    note_beyond(|noted| noted.registry_changed = true);
}

/// Records that a command alters a queue's table.
pub fn note_table(slot: SlotId) {
    note_beyond(|noted| noted.tables_altered = true);
    note(slot, |delta| delta.table.redefined = true);
}

pub fn note_altered() {
    note_beyond(|noted| noted.altered = true);
}

pub fn has_altered_tables() -> bool {
    NOTED.get().tables_altered
}

pub fn has_altered_triggers() -> bool {
    NOTED.get().altered
}

pub fn has_changed_extension() -> bool {
    NOTED.get().extension
}

/// Records whether the extension is installed as the transaction is about to commit.
pub fn note_installed(is_installed: bool) {
    note_beyond(|noted| noted.installed = is_installed);
}

pub fn note_created_database(database: u32) {
    note_beyond(|noted| noted.created_database = Some(database));
}

pub fn note_dropped_database(database: u32) {
    note_beyond(|noted| noted.dropped_database = Some(database));
}

/// Handles the end of a transaction. Called after altered tables and triggers have been examined.
pub fn transaction_ended(event: TransactionEvent) {
    trace::transaction_ended(event);
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
        }
        // Repeated now that the prepared transaction holds the locks: the worker may have looked for them in between
        // and found none.
        TransactionEvent::Prepare => {
            mark_prepared();
            hand_over_room();
            give_up_claims();
            session::transaction_ended();
            forget();
        }
        TransactionEvent::Commit => {
            forbid();
            CHANGES.with_borrow(|stack| stack.for_each(commit));
            sessions::set_committing(0);
            session::transaction_ended();
            commit_catalogue_changes();
            look_for_replayed_end();
            forget();
            allow();
        }
        TransactionEvent::Abort => {
            wait::leave_any_line();
            if CHANGES.with_borrow(|stack| !stack.is_empty()) {
                sessions::set_committing(0);
            }
            if NOTED.get().preparing {
                // PREPARE has failed: the worker has to take the marks back.
                let database = u32::from(process::database());
                databases::request(database, |requests| requests.prepared = true);
            }
            CHANGES.with_borrow(|stack| stack.for_each(undo));
            session::transaction_ended();
            forget();
        }
    }
    trace::flush();
}

pub fn subtransaction_ended(event: SubtransactionEvent) {
    let depth = xact::depth();
    trace::subtransaction_ended(event, depth);
    staying(|| {
        CHANGES.with_borrow_mut(|stack| match event {
            SubtransactionEvent::Commit => stack.commit_subtransaction(depth),
            SubtransactionEvent::Abort => stack.abort_subtransaction(depth, undo),
        })
    });
}

fn forget() {
    CHANGES.with_borrow_mut(Stack::clear);
    if ONLY_TAKEN.replace(0) != 0 {
        durability::waits_again();
        sessions::end_passing();
    }
    NOTED.set(Noted::NOTHING);
}

/// Applies the changes of a queue: they are visible, and locks are still held, so earlier writers have been here
/// before. Must neither allocate nor fail.
fn commit(slot: SlotId, delta: &Delta) {
    injection::point(c"xqueue-commit-is-visible");
    if delta.table.dropped == Some(true) {
        return slot::remove(slot);
    }
    held::commit(slot, &delta.leases.held);
    // Tasks may have been taken unreported, or have got other keys.
    if delta.table.redefined || delta.counters.recount {
        slot::invalidate(slot);
    }
    let database = u32::from(process::database());
    let Some(mut queue) = slot::lock(slot) else {
        return databases::request(database, |requests| requests.registry = true);
    };
    let due = queue.due();
    queue.commit(xact::id_if_any(), delta);
    let wake_worker = queue.due() < due || queue.needs_recount() || delta.table.redefined;
    drop(queue);
    if wake_worker {
        databases::request(database, |requests| {
            requests.registry |= delta.table.redefined || delta.counters.recount;
            requests.sweep |= delta.counters.recount;
        });
    }
    // After the counters, which say that there are such tasks.
    delta.leases.given.sessions().for_each(sessions::look_after);
    if delta.leases.given.more {
        databases::request(database, |requests| requests.sweep = true);
    }
}

/// Undoes the changes of a queue. What was taken is ready again; no other process wakes waiting consumers for it.
fn undo(slot: SlotId, delta: &Delta) {
    if delta.table.created {
        return slot::remove(slot);
    }
    if delta.table.given_away
        && let Some(mut queue) = slot::lock(slot)
    {
        queue.end_next_owner(false);
    }
    let is_touched = !delta.waiters.unmade_ready.is_empty()
        || delta.capacity.reserved > 0
        || !delta.subqueues.is_empty();
    if (is_touched || delta.counters.replaces || delta.table.redefined)
        && let Some(mut queue) = slot::lock(slot)
    {
        queue.give_back(delta.capacity.reserved);
        queue.undo_lanes(&delta.subqueues, resets(delta));
        for (tube, count) in delta.waiters.unmade_ready.by_tube() {
            queue.wake(Cause::Undo, count, Offer { tube });
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
        (true, true) => databases::want_worker(database, true),
        (true, false) => {
            slot::remove_all(database);
            databases::request(database, |requests| requests.registry = true);
        }
        (false, _) => {}
    }
    if noted.registry_changed {
        databases::want_worker(database, true);
    }
    if let Some(created) = noted.created_database {
        databases::want_worker(created, true);
    }
    if let Some(dropped) = noted.dropped_database {
        slot::remove_all(dropped);
        databases::forget(dropped);
    }
}

/// A subscriber ends prepared transactions by no command that could be observed, in a transaction that does nothing
/// else.
fn look_for_replayed_end() {
    let database = u32::from(process::database());
    let does_nothing = CHANGES.with_borrow(Stack::is_empty);
    if does_nothing && process::replays() && slot::any_prepared(database) {
        databases::request(database, |requests| requests.prepared = true);
    }
}

/// Refuses to prepare takes: a prepared transaction belongs to no session, whose end would give its tasks back.
fn refuse_to_prepare_takes() {
    let mut taken = 0;
    CHANGES.with_borrow(|stack| stack.for_each(|_, delta| taken += delta.leases.taken));
    if taken > 0 {
        Error::new(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            "cannot prepare a transaction that has taken tasks",
        )
        .detail(format!(
            "{taken} tasks are taken by this session ({}), which a prepared transaction outlives.",
            session::current_if_any().map(session::pid).unwrap_or_default()
        ))
        .hint("Take tasks in a transaction of their own; puts may be prepared.")
        .raise()
    }
}

fn mark_prepared() {
    CHANGES.with_borrow(|stack| {
        stack.for_each(|slot, delta| {
            // Leases changed by hand: the session does not learn whether the transaction commits.
            if !delta.leases.held.is_empty() {
                held::forget();
            }
            if let Some(mut queue) = slot::lock(slot) {
                queue.mark_prepared();
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
                queue.give_up_lanes(&delta.subqueues, resets(delta));
            }
        })
    });
}

/// Hands reserved room to the prepared transaction.
fn hand_over_room() {
    CHANGES.with_borrow(|stack| {
        stack.for_each(|slot, delta| {
            if let Some(mut queue) = slot::lock(slot) {
                queue.keep_for_prepared(delta.capacity.reserved);
                if delta.table.given_away {
                    queue.prepare_next_owner();
                }
            }
        })
    });
}

/// Returns whether tasks come back with the rollback without being reported.
fn resets(delta: &Delta) -> bool {
    delta.counters.replaces || delta.table.redefined
}
