//! Calls of trigger functions, the tuples that they get, and the triggers of a table.

use crate::error::{Error, Result};
use crate::server::foreign::{column_type, list, list_nth};
use crate::server::function::Call;
use crate::server::relation::Relation;
use crate::server::row::Tuple;
use crate::server::value::Value;
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::{self, Datum, Oid};
use std::ffi::CStr;
use std::ptr::null_mut;

/// The event that fired a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Insert,
    Update,
    Delete,
    Truncate,
}

/// When a trigger function must be fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    AfterRow,
    BeforeInsertRow,
    AfterTruncate,
    AfterStatement,
}

/// The side of a foreign key that the server's trigger for it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignKey {
    /// The table has the foreign key.
    From,
    /// The foreign key of some table refers to this one.
    To,
}

/// A trigger of a table.
pub struct Present {
    pub oid: Oid,
    pub name: String,
    pub function: Oid,
    /// When it fires, in the encoding of `kind`.
    pub kind: i16,
    /// The server has created it for a constraint.
    pub is_internal: bool,
    /// It refers to transition tables.
    pub has_tables: bool,
    /// It has no arguments, column list or transition tables, and is no constraint trigger.
    pub is_plain: bool,
    /// The server's trigger for a foreign key.
    pub foreign_key: Option<ForeignKey>,
    /// An update fires it only if the statement sets one of these columns; empty if each update fires it.
    pub columns: Vec<i16>,
    /// It fires in no session.
    pub is_disabled: bool,
    /// It fires for local changes.
    pub fires: bool,
    /// It also fires for replicated changes.
    pub fires_always: bool,
}

impl Present {
    /// Returns whether it is a trigger for this event.
    pub fn has(&self, event: Event) -> bool {
        i32::from(self.kind) & event.bit() as i32 != 0
    }

    /// Returns whether it fires before the change.
    pub fn is_before(&self) -> bool {
        i32::from(self.kind) & pg_sys::TRIGGER_TYPE_BEFORE as i32 != 0
    }

    /// Returns whether it fires for each row.
    pub fn is_for_row(&self) -> bool {
        i32::from(self.kind) & pg_sys::TRIGGER_TYPE_ROW as i32 != 0
    }
}

impl Event {
    /// The event in the encoding of the catalog.
    fn bit(self) -> u32 {
        match self {
            Event::Insert => pg_sys::TRIGGER_TYPE_INSERT,
            Event::Update => pg_sys::TRIGGER_TYPE_UPDATE,
            Event::Delete => pg_sys::TRIGGER_TYPE_DELETE,
            Event::Truncate => pg_sys::TRIGGER_TYPE_TRUNCATE,
        }
    }
}

/// Returns when a trigger fires in the encoding of the catalog.
pub fn kind(timing: Timing, event: Event) -> i16 {
    let timing = match timing {
        Timing::AfterRow => pg_sys::TRIGGER_TYPE_ROW,
        Timing::BeforeInsertRow => pg_sys::TRIGGER_TYPE_ROW | pg_sys::TRIGGER_TYPE_BEFORE,
        Timing::AfterTruncate | Timing::AfterStatement => 0,
    };
    (timing | event.bit()) as i16
}

/// Maximum number of bytes of a stored trigger condition; longer ones are not read, and do not belong to the extension.
const READ: usize = 64 << 10;

/// The condition of a trigger.
#[derive(Debug, PartialEq, Eq)]
pub enum Condition {
    None,
    /// `record_image_ne(ROW(OLD.a, …), ROW(NEW.a, …))`: the rows differ in these columns.
    Differs(Vec<i16>),
    Other,
}

impl Relation {
    /// Returns the name of a trigger whose condition calls functions that are not immutable; None if there is no such
    /// trigger. The creator of a trigger is not recorded.
    pub fn trigger_with_mutable_condition(&self) -> Option<String> {
        // SAFETY: as below; a condition is null or an expression as text, and a newly read expression belongs to the
        // caller.
        unsafe {
            let triggers = (*self.pointer()).trigdesc.as_ref()?;
            let mut triggers =
                (0..triggers.numtriggers as usize).map(|at| &*triggers.triggers.add(at));
            let is_mutable = |trigger: &&pg_sys::Trigger| {
                !trigger.tgqual.is_null()
                    && pg_sys::contain_mutable_functions(
                        pg_sys::stringToNode(trigger.tgqual).cast(),
                    )
            };
            let name = |trigger: &pg_sys::Trigger| CStr::from_ptr(trigger.tgname);
            triggers.find(is_mutable).map(|trigger| name(trigger).to_string_lossy().into_owned())
        }
    }

    /// Returns the condition of one of the table's triggers, from the expression that the server stores.
    pub fn condition_of_trigger(&self, trigger: Oid) -> Condition {
        // SAFETY: an open relation; null, or a descriptor with `numtriggers` triggers. A condition is the text of an
        // expression.
        unsafe {
            let triggers = (*self.pointer()).trigdesc.as_ref();
            let (first, count) =
                triggers.map_or((null_mut(), 0), |all| (all.triggers, all.numtriggers as usize));
            let mut all = (0..count).map(|index| &*first.add(index));
            match all.find(|known| known.tgoid == trigger) {
                None => Condition::Other,
                Some(known) if known.tgqual.is_null() => Condition::None,
                Some(known) if CStr::from_ptr(known.tgqual).count_bytes() > READ => {
                    Condition::Other
                }
                Some(known) => differing(pg_sys::stringToNode(known.tgqual).cast())
                    .map_or(Condition::Other, Condition::Differs),
            }
        }
    }

    /// Returns the table's columns that refer to other tables by foreign keys.
    pub fn foreign_key_columns(&self) -> Vec<i16> {
        // SAFETY: an open relation, which owns the list; it is read before anything can change it.
        unsafe {
            let keys =
                list::<pg_sys::ForeignKeyCacheInfo>(pg_sys::RelationGetFKeyList(self.pointer()));
            let keys = keys.map(|key| &*key);
            keys.flat_map(|key| key.conkey[..key.nkeys as usize].iter().copied()).collect()
        }
    }

    /// Returns the triggers of the table, including the server's own for foreign keys.
    pub fn triggers(&self) -> Vec<Present> {
        // SAFETY: an open relation; null, or a descriptor with `numtriggers` triggers.
        unsafe {
            let Some(triggers) = (*self.pointer()).trigdesc.as_ref() else { return vec![] };
            let describe = |index: usize| {
                let trigger = &*triggers.triggers.add(index);
                let fires = trigger.tgenabled as u8;
                let has_tables = !trigger.tgoldtable.is_null() || !trigger.tgnewtable.is_null();
                let foreign_key = match pg_sys::RI_FKey_trigger_type(trigger.tgfoid) as u32 {
                    _ if !trigger.tgisinternal => None,
                    pg_sys::RI_TRIGGER_FK => Some(ForeignKey::From),
                    pg_sys::RI_TRIGGER_PK => Some(ForeignKey::To),
                    _ => None,
                };
                let columns = match trigger.tgnattr {
                    0 => vec![],
                    count => std::slice::from_raw_parts(trigger.tgattr, count as usize).to_vec(),
                };
                let is_constraint = trigger.tgdeferrable || trigger.tgconstraint != Oid::INVALID;
                Present {
                    oid: trigger.tgoid,
                    name: CStr::from_ptr(trigger.tgname).to_string_lossy().into_owned(),
                    function: trigger.tgfoid,
                    kind: trigger.tgtype,
                    is_internal: trigger.tgisinternal,
                    is_plain: !is_constraint
                        && !has_tables
                        && columns.is_empty()
                        && trigger.tgnargs == 0,
                    has_tables,
                    foreign_key,
                    columns,
                    is_disabled: u32::from(fires) == u32::from(pg_sys::TRIGGER_DISABLED),
                    fires: [pg_sys::TRIGGER_FIRES_ON_ORIGIN, pg_sys::TRIGGER_FIRES_ALWAYS]
                        .contains(&fires),
                    fires_always: fires == pg_sys::TRIGGER_FIRES_ALWAYS,
                }
            };
            (0..triggers.numtriggers as usize).map(describe).collect()
        }
    }
}

/// Returns the columns whose difference the condition of a trigger tests; None for another condition.
///
/// # Safety
/// `condition` is an expression.
unsafe fn differing(condition: *mut pg_sys::Node) -> Option<Vec<i16>> {
    // SAFETY: the tag determines a node's type; the argument lists contain expressions.
    unsafe {
        let is = |node: *mut pg_sys::Node, tag| (*node).type_ == tag;
        let columns = |row: *mut pg_sys::Node, of: u32| -> Option<Vec<i16>> {
            let row =
                is(row, pg_sys::NodeTag::T_RowExpr).then(|| &*row.cast::<pg_sys::RowExpr>())?;
            let column = |node: *mut pg_sys::Node| {
                let var = is(node, pg_sys::NodeTag::T_Var).then(|| &*node.cast::<pg_sys::Var>())?;
                (var.varno as u32 == of).then_some(var.varattno)
            };
            list(row.args).map(column).collect()
        };
        let call = is(condition, pg_sys::NodeTag::T_FuncExpr)
            .then(|| &*condition.cast::<pg_sys::FuncExpr>())
            .filter(|call| u32::from(call.funcid) == pg_sys::F_RECORD_IMAGE_NE)?;
        let old = columns(list_nth(call.args, 0), pg_sys::PRS2_OLD_VARNO)?;
        let new = columns(list_nth(call.args, 1), pg_sys::PRS2_NEW_VARNO)?;
        (old == new).then_some(old)
    }
}

/// A trigger that is being fired.
pub struct Firing<'call>(&'call pg_sys::TriggerData);

impl<'call> Firing<'call> {
    /// Returns the firing trigger of a call, if it has the timing that its function requires.
    pub fn of(call: &'call Call, timing: Timing) -> Result<Firing<'call>> {
        let firing = call.trigger_data().map(Firing);
        firing.filter(|firing| firing.has(timing)).ok_or_else(|| {
            Error::new(
                PgSqlErrorCode::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                "this function works only as the trigger that xqueue.upgrade() makes of it",
            )
            .hint("Use xqueue.upgrade() to make a table a queue.")
        })
    }

    fn has(&self, timing: Timing) -> bool {
        let flags = self.0.tg_event;
        let is_for_row = flags & pg_sys::TRIGGER_EVENT_ROW != 0;
        let is_before = flags & pg_sys::TRIGGER_EVENT_TIMINGMASK == pg_sys::TRIGGER_EVENT_BEFORE;
        let is_after = flags & pg_sys::TRIGGER_EVENT_TIMINGMASK == 0;
        match timing {
            Timing::AfterRow => is_after && is_for_row,
            Timing::BeforeInsertRow => is_before && is_for_row && self.event() == Event::Insert,
            Timing::AfterStatement => is_after && !is_for_row,
            Timing::AfterTruncate => is_after && !is_for_row && self.event() == Event::Truncate,
        }
    }

    /// Returns the name of the trigger.
    pub fn name(&self) -> &CStr {
        // SAFETY: the description of the trigger lives as long as the call; its name is a string.
        unsafe { CStr::from_ptr((*self.0.tg_trigger).tgname) }
    }

    pub fn table(&self) -> Oid {
        // SAFETY: the relation is open while the trigger runs.
        unsafe { (*self.0.tg_relation).rd_id }
    }

    pub fn event(&self) -> Event {
        match self.0.tg_event & pg_sys::TRIGGER_EVENT_OPMASK {
            pg_sys::TRIGGER_EVENT_INSERT => Event::Insert,
            pg_sys::TRIGGER_EVENT_UPDATE => Event::Update,
            pg_sys::TRIGGER_EVENT_DELETE => Event::Delete,
            _ => Event::Truncate,
        }
    }

    /// Returns the row before the event; for an insert the new row.
    pub fn row(&self) -> Tuple {
        self.tuple(self.0.tg_trigtuple)
    }

    /// Returns the new row of an update.
    pub fn new_row(&self) -> Tuple {
        self.tuple(self.0.tg_newtuple)
    }

    /// Returns the result of a trigger that changes nothing.
    pub fn unchanged(&self) -> Option<Value<'call>> {
        self.result(self.0.tg_trigtuple)
    }

    /// Returns the result of a BEFORE trigger: the row with new values in some columns.
    pub fn with_columns(&self, values: &[(i16, Value)]) -> Option<Value<'call>> {
        if values.is_empty() {
            return self.unchanged();
        }
        let mut columns: Vec<i32> = values.iter().map(|(number, _)| i32::from(*number)).collect();
        let mut nulls = vec![false; values.len()];
        // SAFETY: the tuple matches its descriptor, the columns and the types of the values are the descriptor's, and
        // the three arrays have the given length.
        let tuple = unsafe {
            let description = (*self.0.tg_relation).rd_att;
            let mut values: Vec<Datum> = values
                .iter()
                .map(|(number, value)| value.require(column_type(description, *number)))
                .collect();
            pg_sys::heap_modify_tuple_by_cols(
                self.0.tg_trigtuple,
                description,
                columns.len() as i32,
                columns.as_mut_ptr(),
                values.as_mut_ptr(),
                nulls.as_mut_ptr(),
            )
        };
        self.result(tuple)
    }

    fn result(&self, tuple: pg_sys::HeapTuple) -> Option<Value<'call>> {
        // SAFETY: a trigger returns a tuple, or null, which means no row.
        Some(unsafe { Value::new(Datum::from(tuple), pg_sys::TRIGGEROID) })
    }

    fn tuple(&self, tuple: pg_sys::HeapTuple) -> Tuple {
        // SAFETY: the relation is open while the trigger runs.
        unsafe { Tuple::new(tuple, (*self.0.tg_relation).rd_att) }
    }
}
