//! The one transaction callback: what a transaction has changed reaches shared memory, and wakes
//! whom it concerns, when it ends.

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
    /// Up to here the open transaction has written nothing to the log but takes of tasks that are ready
    /// again anyway after a crash.
    static ONLY_TAKEN: Cell<u64> = const { Cell::new(0) };
    static NOTED: Cell<Noted> = const { Cell::new(Noted::NOTHING) };
    /// What this session does to the tasks of a queue just now.
    static DOING: Cell<Option<(SlotId, Call)>> = const { Cell::new(None) };
}

/// What the open transaction does beyond changes of queues.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Noted {
    /// An extension was created or dropped, whichever it was.
    extension: bool,
    /// With that: whether ours is installed as the transaction commits.
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

/// Whether the open transaction has written nothing, or only what `note_only_taken` knows of.
pub fn has_only_taken() -> bool {
    durability::written() == ONLY_TAKEN.get()
}

/// What the transaction has written since it had only taken were takes as well.
pub fn note_only_taken() {
    ONLY_TAKEN.set(durability::written());
}

fn note_beyond(change: impl FnOnce(&mut Noted)) {
    let mut noted = NOTED.get();
    change(&mut noted);
    NOTED.set(noted);
}

/// Notes a change of a queue by the current (sub)transaction.
pub fn note<T>(slot: SlotId, change: impl FnOnce(&mut Delta) -> T) -> T {
    staying(|| CHANGES.with_borrow_mut(|stack| change(stack.at(xact::depth(), slot))))
}

/// What the open transaction has changed of a queue.
pub fn pending(slot: SlotId) -> Delta {
    CHANGES.with_borrow(|stack| stack.total(slot))
}

/// How many tasks, of all queues, the connection's own session has got and lost in the open transaction.
pub fn held() -> (u64, u64) {
    CHANGES.with_borrow(Stack::held)
}

/// The queues that the open transaction has dropped.
pub fn dropped() -> Vec<SlotId> {
    CHANGES.with_borrow(Stack::dropped)
}

/// Whose the queues were whose tables the open transaction has altered.
pub fn owners_before() -> Vec<(SlotId, u32)> {
    CHANGES.with_borrow(Stack::owners_before)
}

/// Whether a role that is no superuser has altered a queue's table in the open transaction.
pub fn is_altered_by_user(slot: SlotId) -> bool {
    CHANGES.with_borrow(|stack| stack.is_altered_by_user(slot))
}

/// What the open transaction does to the number of a queue's tasks.
pub fn growth(slot: SlotId) -> Growth {
    CHANGES.with_borrow(|stack| stack.growth(slot))
}

/// How tasks of a queue have come from state to state in the open transaction, and the earliest instant at which
/// something is to be done for those that it has changed.
pub fn transitions(slot: SlotId) -> (Transitions, Option<i64>) {
    CHANGES.with_borrow(|stack| stack.transitions(slot))
}

/// Whether the open transaction does not see ready, or buried, tasks where others do, and where they are
/// again after a rollback.
pub fn hides(slot: SlotId, tasks: Kind) -> bool {
    CHANGES.with_borrow(|stack| stack.hides(slot, tasks))
}

/// Whether the open transaction has changed a queue's table or its triggers: what it has done since nobody
/// may have been told of.
pub fn has_redefined(slot: SlotId) -> bool {
    NOTED.get().altered || CHANGES.with_borrow(|stack| stack.has_redefined(slot))
}

/// The first place of a queue in which the open transaction has made a task ready, or buried one, which
/// nobody else knows of.
pub fn lowest(slot: SlotId, tasks: Kind) -> Option<Position> {
    CHANGES.with_borrow(|stack| stack.lowest(slot, tasks))
}

/// What the open transaction has done in the sub-queues of a queue.
pub fn pending_lanes(slot: SlotId) -> LaneChanges {
    CHANGES.with_borrow(|stack| stack.lanes(slot))
}

/// The same of one of them.
pub fn pending_lane(slot: SlotId, lane: u64) -> LaneChange {
    CHANGES.with_borrow(|stack| stack.lane(slot, lane))
}

/// Runs `work`, which does `call` to tasks of a queue: its triggers are told.
pub fn doing<T>(slot: SlotId, call: Call, work: impl FnOnce() -> T) -> T {
    let _before = Before(DOING.replace(Some((slot, call))));
    work()
}

/// Runs `work` of the user's: what it changes itself is no part of the call that it runs in.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    let _before = Before(DOING.replace(None));
    work()
}

/// What this session does to the tasks of a queue just now; None for changes by hand.
pub fn being_done(slot: SlotId) -> Option<Call> {
    DOING.get().filter(|(queue, _)| *queue == slot).map(|(_, call)| call)
}

/// Puts back, in case of an error as well, what was being done before.
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

/// A command alters a queue's table.
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

/// Whether the extension is installed as the transaction is about to commit.
pub fn note_installed(is_installed: bool) {
    note_beyond(|noted| noted.installed = is_installed);
}

pub fn note_created_database(database: u32) {
    note_beyond(|noted| noted.created_database = Some(database));
}

pub fn note_dropped_database(database: u32) {
    note_beyond(|noted| noted.dropped_database = Some(database));
}

/// To be called when what the transaction has altered has been looked at.
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
        // Again, now that the locks belong to the prepared transaction: the worker may have looked
        // for them in between and found none.
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
                // It has come to nothing: the marks are to be taken back.
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

/// The changes are visible and the locks still held: earlier writers have been here before.
/// Must neither allocate nor fail.
fn commit(slot: SlotId, delta: &Delta) {
    injection::point(c"xqueue-commit-is-visible");
    if delta.table.dropped == Some(true) {
        return slot::remove(slot);
    }
    held::commit(slot, &delta.leases.held);
    // Somebody may have taken a task while nobody told of it, or told by other keys.
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
    // Now that the counters say that there are such tasks.
    delta.leases.given.sessions().for_each(sessions::look_after);
    if delta.leases.given.more {
        databases::request(database, |requests| requests.sweep = true);
    }
}

/// What was taken is ready again, and nobody else tells those who wait.
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

/// A subscriber ends prepared transactions by no command that could be seen, in a transaction that
/// does nothing else.
fn look_for_replayed_end() {
    let database = u32::from(process::database());
    let does_nothing = CHANGES.with_borrow(Stack::is_empty);
    if does_nothing && process::replays() && slot::any_prepared(database) {
        databases::request(database, |requests| requests.prepared = true);
    }
}

/// A prepared transaction belongs to no session, so nobody could ever give its tasks back.
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
            // Written by hand: nobody tells the session whether it is committed.
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

/// The prepared transaction keeps the room that was reserved for it.
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

/// Whether what is there again once a transaction is undone has been told by nobody.
fn resets(delta: &Delta) -> bool {
    delta.counters.replaces || delta.table.redefined
}
