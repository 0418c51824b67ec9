//! The pending changes of the open transaction, with everything noted or requested for its end, see [`end`].

pub mod begun;
pub mod end;

use crate::server::allocator::staying;
use crate::server::types::Uuid;
use crate::server::{durability, xact};
use std::cell::{Cell, RefCell};
use xqueue_core::change::{CallKind, Transitions};
use xqueue_core::position::{Position, TaskKind};
use xqueue_core::slot_id::SlotId;
use xqueue_core::transaction::Delta;
use xqueue_core::transaction::Growth;
use xqueue_core::transaction::HeldChange;
use xqueue_core::transaction::stack::Stack;
use xqueue_core::transaction::{SubqueueChange, SubqueueChanges};

thread_local! {
    static CHANGES: RefCell<Stack> = const { RefCell::new(Stack::new()) };
    /// Up to this WAL position the open transaction has written only takes of tasks that a crash would make ready
    /// again.
    static ONLY_TAKEN: Cell<u64> = const { Cell::new(0) };
    static NOTED: Cell<Noted> = const { Cell::new(Noted::NOTHING) };
    /// The call that this session is executing on the tasks of a queue.
    static DOING: Cell<Option<(SlotId, CallKind)>> = const { Cell::new(None) };
}

/// Pending changes of the open transaction that concern no single queue.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Noted {
    /// An extension was created or dropped, not necessarily xqueue.
    extension: bool,
    /// Set with `extension`: xqueue is installed when the transaction commits.
    installed: bool,
    /// Set with `extension`: xqueue was dropped, perhaps in a savepoint that was rolled back.
    own_dropped: bool,
    /// The transaction is being prepared, and its queues have been marked.
    preparing: bool,
    /// The registry was written, queues' tables were dropped, or their schema was renamed.
    registry_changed: bool,
    /// Tables of queues were altered.
    tables_altered: bool,
    /// Triggers were created, dropped, enabled or disabled.
    altered: bool,
    created_database: Option<u32>,
    dropped_database: Option<u32>,
}

impl Noted {
    const NOTHING: Noted = Noted {
        extension: false,
        installed: false,
        own_dropped: false,
        preparing: false,
        registry_changed: false,
        tables_altered: false,
        altered: false,
        created_database: None,
        dropped_database: None,
    };
}

/// Returns whether the open transaction has written nothing except the takes that `note_only_taken` covers.
pub fn has_only_taken() -> bool {
    durability::written() == ONLY_TAKEN.get()
}

/// Declares that the transaction has written only takes so far.
pub fn note_only_taken() {
    ONLY_TAKEN.set(durability::written());
}

fn note_beyond(change: impl FnOnce(&mut Noted)) {
    let mut noted = NOTED.get();
    change(&mut noted);
    NOTED.set(noted);
}

/// Records a change of a queue by the current (sub)transaction. `change` calls nothing that waits or serves interrupts: a
/// backend that is terminated there could not undo its transaction.
pub fn note<T>(slot: SlotId, change: impl FnOnce(&mut Delta) -> T) -> T {
    staying(|| CHANGES.with_borrow_mut(|stack| change(stack.at(xact::depth(), slot))))
}

/// Returns the open transaction's changes of a queue.
pub fn pending(slot: SlotId) -> Delta {
    CHANGES.with_borrow(|stack| stack.total(slot))
}

/// Returns how many tasks, over all queues, the connection's own session has got and lost in the open transaction.
pub fn held() -> HeldChange {
    CHANGES.with_borrow(Stack::held)
}

/// Returns whether the open transaction has claimed a sub-queue of any queue, or taken a task of one.
pub fn holds_subqueue() -> bool {
    CHANGES.with_borrow(Stack::holds_subqueue)
}

/// Records that this connection leaves a session, which can have got tasks in the open transaction.
pub fn note_left(session: Uuid) {
    staying(|| CHANGES.with_borrow_mut(|stack| stack.note_left(session)));
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

/// Returns the transitions of a queue's tasks in the open transaction, and the earliest instant at which a task that it
/// has changed is due.
pub fn transitions(slot: SlotId) -> (Transitions, Option<i64>) {
    CHANGES.with_borrow(|stack| stack.transitions(slot))
}

/// Returns whether other transactions can see ready, or buried, tasks that this one does not see; a rollback brings
/// them back.
pub fn hides(slot: SlotId, tasks: TaskKind) -> bool {
    CHANGES.with_borrow(|stack| stack.hides(slot, tasks))
}

/// Returns whether the open transaction has changed a queue's table or its triggers, so that later changes were
/// possibly not reported.
pub fn has_redefined(slot: SlotId) -> bool {
    NOTED.get().altered || CHANGES.with_borrow(|stack| stack.has_redefined(slot))
}

/// Returns the first position at which the open transaction has made a task ready, or buried one. Other transactions do
/// not know of it.
pub fn lowest(slot: SlotId, tasks: TaskKind) -> Option<Position> {
    CHANGES.with_borrow(|stack| stack.lowest(slot, tasks))
}

/// Returns the changes of a queue's sub-queues by the open transaction.
pub fn pending_subqueues(slot: SlotId) -> SubqueueChanges {
    CHANGES.with_borrow(|stack| stack.subqueues(slot))
}

/// Returns whether the open transaction has recorded its changes of all the queue's sub-queues.
pub fn has_all_subqueues(slot: SlotId) -> bool {
    CHANGES.with_borrow(|stack| stack.has_all_subqueues(slot))
}

/// Returns the changes of one sub-queue by the open transaction.
pub fn pending_subqueue(slot: SlotId, subqueue: u64) -> SubqueueChange {
    CHANGES.with_borrow(|stack| stack.subqueue(slot, subqueue))
}

/// Runs `work`, which performs `call` on tasks of a queue; triggers see the call.
pub fn doing<T>(slot: SlotId, call: CallKind, work: impl FnOnce() -> T) -> T {
    let _before = Before(DOING.replace(Some((slot, call))));
    work()
}

/// Runs user code, whose changes are not part of the enclosing call.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    let _before = Before(DOING.replace(None));
    work()
}

/// Returns the call in progress on the tasks of a queue; None for changes by hand.
pub fn being_done(slot: SlotId) -> Option<CallKind> {
    DOING.get().filter(|(queue, _)| *queue == slot).map(|(_, call)| call)
}

/// Restores the previous call on drop, also after an error.
struct Before(Option<(SlotId, CallKind)>);

impl Drop for Before {
    fn drop(&mut self) {
        DOING.set(self.0);
    }
}

/// Records that an extension was created or dropped. `is_own`: this extension is about to be dropped.
pub fn note_extension(is_own: bool) {
    note_beyond(|noted| {
        noted.extension = true;
        noted.own_dropped |= is_own;
    });
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

/// Records whether the extension is installed when the transaction is about to commit.
pub fn note_installed(is_installed: bool) {
    note_beyond(|noted| noted.installed = is_installed);
}

pub fn note_created_database(database: u32) {
    note_beyond(|noted| noted.created_database = Some(database));
}

pub fn note_dropped_database(database: u32) {
    note_beyond(|noted| noted.dropped_database = Some(database));
}
