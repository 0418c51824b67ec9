//! What is needed to change a queue's rows without statements.

use super::Queue;
use super::index::WantedIndex;
use crate::model::definition::Field;
use crate::pg::heap::Heap;
use crate::pg::relation::{ColumnType, Lock, Relation};
use crate::pg::{catalog, index, user};
use crate::statement::Index;
use pgrx::pg_sys::Oid;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A queue's table, if nobody but its functions, and whoever changes rows by hand, acts on it.
pub struct Direct {
    pub heap: Heap,
    /// The index of the ready tasks in the order in which they are taken.
    pub ready: Option<Oid>,
    /// The index of the key.
    pub key: Option<Oid>,
    /// No column is of a domain, which a statement would check without a value as well.
    pub inserts: bool,
}

/// What was found out for a role: None where statements do more than what is done without them.
type Known = Option<Rc<Direct>>;

/// What is known, by role.
#[derive(Default)]
pub struct Directs(RefCell<Vec<(Oid, Known)>>);

/// So many roles are known at a time.
const ROLES: usize = 8;

impl Queue {
    /// None where statements do more than what is done without them.
    pub fn direct(&self) -> Known {
        let role = user::current();
        let mut known = self.directs.0.borrow_mut();
        let is_stale = |known: &Known| known.as_ref().is_some_and(|direct| !direct.heap.is_valid());
        if let Some((_, direct)) = known.iter().find(|(of, _)| *of == role)
            && !is_stale(direct)
        {
            return direct.clone();
        }
        // What it calls may come here again.
        drop(known);
        let direct = Direct::of(self).filter(|direct| direct.heap.is_valid()).map(Rc::new);
        known = self.directs.0.borrow_mut();
        known.retain(|(of, _)| *of != role);
        if known.len() >= ROLES {
            known.remove(0);
        }
        known.push((role, direct.clone()));
        direct
    }
}

impl Direct {
    fn of(queue: &Queue) -> Option<Direct> {
        if !queue.counts_itself || queue.has_row_security {
            return None;
        }
        let relation = Relation::open(queue.table, Lock::None)?;
        let heap = Heap::describe(&relation)?;
        let find =
            |number: i16| queue.columns().iter().find(|column| column.number == number).cloned();
        let fields: BTreeMap<Field, ColumnType> = Field::ALL
            .into_iter()
            .filter_map(|field| Some((field, find(queue.number_of(field))?)))
            .collect();
        let key: Vec<ColumnType> = queue.key.iter().filter_map(|key| find(key.number)).collect();
        let numbers: Vec<i16> = key.iter().map(|column| column.number).collect();
        let ready =
            WantedIndex::new(&queue.sql, Index::Ready, &fields, &key, &queue.definition.made);
        let present = index::of(&relation);
        let oid = |index: &index::Index| index.oid;
        let is_domain = |column: &ColumnType| catalog::base_type(column.oid) != column.oid;
        Some(Direct {
            heap,
            ready: present.iter().find(|index| ready.is_served_by(index)).map(oid),
            key: present
                .iter()
                .find(|index| {
                    index.is_unique && index.predicate.is_none() && index.columns == numbers
                })
                .map(oid),
            inserts: !queue.columns().iter().any(is_domain),
        })
    }
}
