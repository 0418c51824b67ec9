//! The worker's changes without statements: of due tasks, and of tasks whose session has ended. It also finds the
//! remaining and the next due tasks.
//!
//! A statement could call code of the table's owner while it is planned. The direct path scans one of the queue's own
//! indexes instead, and changes each task that it finds by the rules of [`xqueue_core::statement::rule`].

use crate::error::Error;
use crate::parts::shortcuts::{self, Shortcut};
use crate::queue::owner::{self, NOBODY};
use crate::queue::{Arguments, Direct, Queue};
use crate::server::heap::{Bound, FoundRow, Is, Open, ScanStep};
use crate::server::privileges;
use crate::server::trigger::Event;
use crate::server::types::Uuid;
use crate::server::value::Value;
use crate::write::assign::Assignments;
use crate::write::counting;
use crate::write::row;
use crate::write::row::note_move;
use crate::write::seen::Seen;
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Oid;
use std::cell::Cell;
use std::rc::Rc;
use xqueue_core::change::{CallKind, StateAndTube};
use xqueue_core::field::Field;
use xqueue_core::statement::{Change, Index, MORTAL};
use xqueue_core::status::Status;
use xqueue_core::time_column::below;

/// The tasks that a change by the worker concerns.
#[derive(Clone, Copy)]
pub enum Wanted<'a> {
    /// Tasks that are due at `now`; no task is due before `since`.
    Due { now: i64, since: i64 },
    /// Tasks that these sessions hold.
    Held { sessions: &'a [Uuid] },
    /// Taken tasks that no session holds.
    Ownerless,
}

/// How to find the tasks of a change.
struct Kind {
    index: Index,
    states: &'static [Status],
    /// The field with the instant at which a task is due.
    instant: Option<Field>,
    call: CallKind,
}

fn kind(change: Change) -> Option<Kind> {
    const TAKEN: &[Status] = &[Status::Taken];
    let due = |index, states, field, call| Kind { index, states, instant: Some(field), call };
    Some(match change {
        Change::Promote => due(Index::Due, &[Status::Waiting], Field::Runat, CallKind::Delay),
        Change::ExpireLeases => due(Index::Due, TAKEN, Field::Runat, CallKind::Ttr),
        Change::DeleteZombies => due(Index::Due, &[Status::Zombie], Field::Runat, CallKind::Zombie),
        Change::Expire => due(Index::Expiry, &MORTAL, Field::Expires, CallKind::Ttl),
        Change::Reap | Change::ReapOwnerless => {
            Kind { index: Index::Taken, states: TAKEN, instant: None, call: CallKind::Session }
        }
        Change::Take { .. }
        | Change::TakeNamed { .. }
        | Change::TakeInSubqueue { .. }
        | Change::SnatchAll
        | Change::GiveBack
        | Change::Plow { .. } => return None,
    })
}

/// A queue's table, for the worker's scans and changes.
pub struct Upkeep<'q> {
    queue: &'q Queue,
    direct: Rc<Direct>,
}

impl Upkeep<'_> {
    /// Returns None if statements have to make the changes.
    pub fn of(queue: &Queue) -> Option<Upkeep<'_>> {
        let table = queue.table;
        if !privileges::may_update_all(table) || !privileges::may_delete_all(table) {
            return None;
        }
        if queue.fires_in_worker() {
            return None;
        }
        let upkeep = Upkeep { queue, direct: queue.direct(Event::Update)? };
        let needed = [Index::Taken, Index::Due, Index::Expiry].into_iter();
        let mut needed = needed.filter(|index| queue.sql.needs_index(*index));
        let is_possible = needed.all(|index| upkeep.index(index).is_some());
        (is_possible && upkeep.assignments(Change::ReapOwnerless).is_some()).then_some(upkeep)
    }

    fn index(&self, index: Index) -> Option<Oid> {
        match index {
            Index::Due => self.direct.due,
            Index::Expiry => self.direct.expiry,
            Index::Taken => self.direct.taken,
            _ => None,
        }
    }

    /// Returns the bound of a scan for tasks that are due at an instant or later.
    fn due_from(&self, field: Field, since: i64) -> Option<Bound<'static>> {
        Some(Bound { is: Is::AtLeast, value: self.queue.last_until(field, below(since))? })
    }

    fn assignments(&self, change: Change) -> Option<Assignments<'static>> {
        let assignments = self.queue.sql.on_change(change);
        Assignments::of(self.queue, assignments, &Arguments::default())
    }

    /// Changes up to `limit` tasks and returns their number. Passes over locked tasks, and tasks for which `is_tried`
    /// returns false. Returns None if a statement has to make the change.
    pub fn change(
        &self,
        change: Change,
        wanted: Wanted,
        limit: usize,
        is_tried: impl Fn(&FoundRow) -> bool,
    ) -> Option<usize> {
        let (queue, kind) = (self.queue, kind(change)?);
        let assignments = self.assignments(change)?;
        let deletes = matches!(change, Change::Expire | Change::DeleteZombies);
        // A task that is given back becomes ready, waits for its next attempt, or is buried.
        let open = self.direct.open(if deletes { &[] } else { &MORTAL })?;
        let mut changed = 0;
        self.scan(&open, change, wanted, |found, from| {
            if !is_tried(found) {
                return ScanStep::GoesOn;
            }
            let is_changed = match deletes {
                true => found.delete_at_once() && note_end(queue, found, from, kind.call),
                false => {
                    let values = assignments.values(queue, found);
                    let values = values.unwrap_or_else(|| out_of_range(queue, found).raise());
                    found.update(&values) && note(queue, found, from, kind.call)
                }
            };
            changed += usize::from(is_changed);
            if changed < limit { ScanStep::GoesOn } else { ScanStep::Ends }
        });
        drop(open);
        counting::note(queue, kind.call, changed);
        if change == Change::Promote {
            shortcuts::count(Shortcut::Promote, changed);
        }
        Some(changed)
    }

    /// Calls `see` for each task that a change concerns, with its state.
    fn scan(
        &self,
        open: &Open,
        change: Change,
        wanted: Wanted,
        mut see: impl FnMut(&FoundRow, Status) -> ScanStep,
    ) {
        let Some(kind) = kind(change) else { return };
        let queue = self.queue;
        // Owners that are no sessions stand anywhere in the index, so all of it is searched.
        let (is_text, searches) = (queue.sql.owner_is_text, Cell::new(false));
        let is_wanted = |found: &FoundRow| {
            if searches.get() && queue.holder_of(found) != Some(NOBODY) {
                return None;
            }
            let status = queue.status_read(queue.value_of(found, Field::Status));
            status.filter(|status| kind.states.contains(status))
        };
        let mut ends = false;
        let mut along = |bounds: &[Bound]| {
            let Some(index) = self.index(kind.index).filter(|_| !ends) else { return };
            open.scan(index, bounds, |found| {
                if let Wanted::Due { now, .. } = wanted {
                    let instant = kind.instant.and_then(|field| queue.instant_of(found, field));
                    if instant.is_none_or(|instant| instant > now) {
                        return ScanStep::Ends;
                    }
                }
                let next = is_wanted(found).map_or(ScanStep::GoesOn, |status| see(found, status));
                ends = next == ScanStep::Ends;
                next
            });
        };
        match wanted {
            Wanted::Due { since, .. } => {
                let since = kind.instant.and_then(|field| self.due_from(field, since));
                since.into_iter().for_each(|since| along(&[since]));
            }
            Wanted::Ownerless => along(&[Bound::NULL]),
            Wanted::Held { sessions } => {
                for session in sessions {
                    searches.set(is_text && *session == NOBODY);
                    let value = queue.owner_value(*session);
                    let of_session = [Bound { is: Is::Equal, value }];
                    along(if searches.get() { &[] } else { &of_session });
                }
            }
        }
    }

    /// Returns the next instant at which a task that passes `is_tried` is due; no task is due before `since`.
    pub fn next_due(
        &self,
        since: i64,
        is_tried: impl Fn(&FoundRow) -> bool,
    ) -> Option<Option<i64>> {
        let (queue, open) = (self.queue, self.direct.open(&[])?);
        let first = |index: Option<Oid>, field: Field, acts: &dyn Fn(Status) -> bool| {
            let mut first = None;
            let since = self.due_from(field, since)?;
            open.scan(index?, &[since], |found| {
                let status = queue.status_read(queue.value_of(found, Field::Status));
                if !status.is_some_and(acts) || !is_tried(found) {
                    return ScanStep::GoesOn;
                }
                first = queue.instant_of(found, field);
                ScanStep::Ends
            });
            first
        };
        let runat = first(self.direct.due, Field::Runat, &|status| queue.is_timed(status));
        let expires = first(self.direct.expiry, Field::Expires, &|status| MORTAL.contains(&status));
        Some([runat, expires].into_iter().flatten().min())
    }

    /// Returns the sessions that hold tasks; the element None stands for taken tasks without a session.
    pub fn holders(&self) -> Option<Vec<Option<Uuid>>> {
        let (queue, open) = (self.queue, self.direct.open(&[])?);
        let taken = self.direct.taken?;
        let first = |bounds: &[Bound]| {
            let mut first = None;
            open.scan(taken, bounds, |found| {
                let status = queue.status_read(queue.value_of(found, Field::Status));
                if status != Some(Status::Taken) {
                    return ScanStep::GoesOn;
                }
                first = Some(queue.value_of(found, Field::Owner).map(Value::copied));
                ScanStep::Ends
            });
            first
        };
        let (mut holders, mut next) = (Vec::new(), first(&[]));
        while let Some(Some(value)) = next {
            holders.push(Some(owner::holder(value)));
            next = first(&[Bound { is: Is::After, value }]);
        }
        let is_ownerless = first(&[Bound::NULL]).is_some();
        holders.extend(is_ownerless.then_some(None));
        Some(holders)
    }

    /// Returns the wanted sessions that hold tasks.
    pub fn holding(&self, wanted: Wanted) -> Option<Vec<Option<Uuid>>> {
        let Wanted::Held { sessions } = wanted else { return Some(vec![]) };
        let open = self.direct.open(&[])?;
        let is_holding = |session: &&Uuid| {
            let (mut is_holding, sessions) = (false, std::slice::from_ref(*session));
            self.scan(&open, Change::Reap, Wanted::Held { sessions }, |_, _| {
                is_holding = true;
                ScanStep::Ends
            });
            is_holding
        };
        Some(sessions.iter().filter(is_holding).copied().map(Some).collect())
    }
}

fn out_of_range(queue: &Queue, found: &FoundRow) -> Error {
    let (key, name) = (queue.key_text_of(found), &queue.name);
    let message = format!("task {key} of queue \"{name}\" has values out of range");
    Error::new(PgSqlErrorCode::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, message)
        .hint("Correct its row, or delete the task.")
}

/// Records that a task has moved to the state in which it was written.
fn note(queue: &Queue, found: &FoundRow, from: Status, call: CallKind) -> bool {
    let to = queue.status_read(queue.value_of(found.written(), Field::Status));
    note_move(queue, found, (from, to.unwrap_or(from)), call);
    true
}

/// Records that a task was deleted.
fn note_end(queue: &Queue, found: &FoundRow, status: Status, call: CallKind) -> bool {
    let old = Seen { place: StateAndTube { status, tube: queue.tube_of(found) }, row: found };
    row::note(queue, Some(old), None::<Seen<FoundRow>>, Some(call));
    true
}
