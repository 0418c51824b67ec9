//! The description of a queue's table for the direct path.

use crate::queue::wanted_index::WantedIndex;
use crate::queue::{Fired, Queue, kept, triggers};
use crate::server::heap::{Heap, Open};
use crate::server::relation::{ColumnType, LockMode, Relation};
use crate::server::trigger::Event;
use crate::server::{index, user};
use crate::settings;
use pgrx::pg_sys::Oid;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use xqueue_core::field::Field;
use xqueue_core::statement::Index;
use xqueue_core::status::Status;

/// A queue's table that allows the direct path: it has no row security, and a statement would do no more.
pub struct Direct {
    pub heap: Heap,
    /// The index of the ready tasks in the order in which takes pick them.
    pub ready: Option<Oid>,
    /// The index of the ready tasks by tube, then in that order.
    pub tube: Option<Oid>,
    /// The index of a sub-queue's tasks in the order in which takes pick them.
    pub subqueue: Option<Oid>,
    /// The index of the tasks by the instant at which the worker must act.
    pub due: Option<Oid>,
    /// The index of the tasks by their expiry.
    pub expiry: Option<Oid>,
    /// The index of the taken tasks by session.
    pub taken: Option<Oid>,
    /// The index of the key.
    pub key: Option<Oid>,
    /// The indexes that hold only tasks in certain states.
    states: Vec<(Oid, Vec<Status>)>,
    /// True if no column has a domain type: a statement checks a domain even for a column without a value.
    pub inserts: bool,
    /// The queue's own triggers that the direct path does not fire; only read if it fires others.
    own_triggers: Vec<Oid>,
    /// The queue's description is stale.
    stale: Rc<Cell<bool>>,
}

/// Result for a role; None if the statement path must be used.
type Known = Option<Rc<Direct>>;

/// Results by role.
#[derive(Default)]
pub struct Directs(RefCell<Vec<(Oid, Known)>>);

/// Maximum number of roles whose results are kept; the oldest is evicted.
const ROLES: usize = 64;

/// Measured size of the state of the direct path for one role, in bytes.
const SIZE: usize = 40 << 10;

impl Directs {
    pub(super) fn size(&self) -> usize {
        SIZE * self.0.borrow().iter().filter(|(_, known)| known.is_some()).count()
    }
}

impl Queue {
    /// Returns the state of the direct path for changes of one kind; None if the statement path must be used.
    pub fn direct(&self, event: Event) -> Known {
        if self.fires.at(event) { None } else { self.any_direct() }
    }

    /// Returns the state of the direct path for changes that fire at most row triggers; None if the statement path must
    /// be used.
    pub fn direct_and_firing(&self, fired: Fired) -> Known {
        if fired == Fired::More { None } else { self.any_direct() }
    }

    fn any_direct(&self) -> Known {
        if !settings::allows_direct_path() {
            return None;
        }
        let role = user::current();
        let mut known = self.directs.0.borrow_mut();
        let is_stale = |known: &Known| known.as_ref().is_some_and(|direct| !direct.heap.is_valid());
        if let Some((_, direct)) = known.iter().find(|(of, _)| *of == role)
            && !is_stale(direct)
        {
            return direct.clone();
        }
        // The following call can re-enter this function.
        drop(known);
        let mut direct = Direct::of(self).map(Rc::new);
        // A function has changed in the meantime. The next call examines a change that arrives now.
        if is_stale(&direct) {
            direct = Direct::of(self).map(Rc::new);
        }
        if is_stale(&direct) {
            return None;
        }
        known = self.directs.0.borrow_mut();
        known.retain(|(of, _)| *of != role);
        if known.len() >= ROLES {
            known.remove(0);
        }
        known.push((role, direct.clone()));
        drop(known);
        kept::make_room(self);
        direct
    }
}

impl Queue {
    /// Returns an index that the queue needs, if it exists and contains all rows that it is for. Caches the result,
    /// because recognizing an index makes the server deparse the predicates of all the table's indexes.
    pub fn index(&self, relation: &Relation, wanted: Index) -> Option<Oid> {
        if !self.stale.get()
            && let Some((_, oid)) = self.found.borrow().iter().find(|(index, _)| *index == wanted)
        {
            return Some(*oid);
        }
        let mut present = index::of(relation);
        present.retain(|index| !index.lacks_old_rows);
        let serving = self.serving(relation, &present, [wanted].into_iter());
        let found = serving.first().copied()?;
        if !self.stale.get() {
            self.found.borrow_mut().push(found);
        }
        Some(found.1)
    }

    /// Returns the unique index of the key, if it exists and contains all rows.
    pub fn key_index(&self, relation: &Relation) -> Option<Oid> {
        let present = index::of(relation).into_iter();
        let mut usable = present.filter(|index| !index.lacks_old_rows);
        usable.find(|index| self.has_key(index)).map(|index| index.oid)
    }

    fn has_key(&self, index: &index::Index) -> bool {
        let numbers = self.key.iter().map(|column| column.number);
        index.is_unique && index.predicate.is_none() && index.columns.iter().copied().eq(numbers)
    }

    /// Returns the needed indexes found among the present ones, recognized by their definitions.
    pub(super) fn serving(
        &self,
        relation: &Relation,
        present: &[index::Index],
        needed: impl Iterator<Item = Index>,
    ) -> Vec<(Index, Oid)> {
        let find =
            |number: i16| self.columns().iter().find(|column| column.number == number).cloned();
        let fields: BTreeMap<Field, ColumnType> = Field::ALL
            .into_iter()
            .filter_map(|field| Some((field, find(self.number_of(field))?)))
            .collect();
        let order = self.ordered_by.iter().filter_map(|column| find(column.number));
        let order: Vec<ColumnType> = order.collect();
        let serves = |needed| {
            let wanted = WantedIndex::new(relation, &self.sql, needed, &fields, &order);
            let index = present.iter().find(|index| wanted.is_served_by(index));
            index.map(|index| (needed, index.oid))
        };
        needed.filter_map(serves).collect()
    }
}

impl Direct {
    /// Opens the table for changes, with the indexes that hold tasks in the states `written`. Returns None if the
    /// statement path must be used: while the table is already open, and after this transaction has altered it. User
    /// code can alter it during a call.
    pub fn open(&self, written: &[Status]) -> Option<Open<'_>> {
        if self.stale.get() {
            return None;
        }
        self.heap.open(|index| written.iter().any(|status| self.may_hold(index, *status)))
    }

    /// Opens the table in the same way. Insertions, deletions, and updates that set these columns, then fire the user's
    /// row triggers.
    pub fn open_and_fire(&self, written: &[Status], columns: &[i16]) -> Option<Open<'_>> {
        let mut open = self.open(written)?;
        open.fire_triggers(&self.own_triggers, columns);
        Some(open)
    }

    fn of(queue: &Queue) -> Option<Direct> {
        if queue.has_row_security || Heap::is_watched() {
            return None;
        }
        // A statement rounds intervals to the precision of the column; the direct path does not.
        if queue.column_of(Field::Ttr).is_some_and(|column| column.modifier >= 0) {
            return None;
        }
        let relation = Relation::open(queue.table, LockMode::None)?;
        if relation.computes_columns_of(|number| queue.is_own_column(number)) {
            return None;
        }
        let mut heap = Heap::describe(&relation)?;
        heap.set_refusing(&queue.refusing_indexes(&relation));
        let mut present = index::of(&relation);
        present.retain(|index| heap.has_index(index.oid));
        let needed = Index::ALL.into_iter().filter(|index| queue.sql.needs_index(*index));
        let serving = queue.serving(&relation, &present, needed);
        let serves = |wanted| {
            let found = serving.iter().find(|(index, _)| *index == wanted);
            found.map(|(_, oid)| *oid)
        };
        let states = serving.iter().map(|(index, oid)| (*oid, queue.sql.index_states(*index)));
        let is_domain = |column: &ColumnType| column.base != column.oid;
        let fires = queue.fires;
        Some(Direct {
            ready: serves(Index::Ready),
            tube: serves(Index::Tube),
            subqueue: serves(queue.sql.order_index()),
            due: serves(Index::Due),
            expiry: serves(Index::Expiry),
            taken: serves(Index::Taken),
            key: present.iter().find(|index| queue.has_key(index)).map(|index| index.oid),
            states: states.collect(),
            inserts: heap.inserts() && !queue.columns().iter().any(is_domain),
            heap,
            own_triggers: match [fires.at_put(), fires.at_take(), fires.at_ack()] {
                fired if fired.contains(&Fired::RowTriggers) => {
                    let arrives = fires.may_change_new_rows();
                    triggers::own_and_right(&relation, &queue.sql, arrives)
                }
                _ => vec![],
            },
            stale: queue.stale.clone(),
        })
    }

    /// Returns whether an index can hold tasks in a state.
    fn may_hold(&self, index: Oid, status: Status) -> bool {
        let known = self.states.iter().find(|(known, _)| *known == index);
        known.is_none_or(|(_, states)| states.contains(&status))
    }
}
