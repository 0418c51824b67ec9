//! Which triggers of a table are a queue's own. A trigger of the user's may bear the name of one of them.

use crate::error::{Error, Result};
use crate::server::catalog;
use crate::server::relation::Relation;
use crate::server::trigger::{Event, Present, Timing, kind};
use crate::statement::{ARRIVAL, FORMER_ARRIVAL, TRACKING_TRIGGERS, TRIGGERS};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Oid;
use std::ffi::CStr;

/// A trigger that bears the name of one of a queue's.
pub struct NamedTrigger {
    pub name: &'static str,
    /// It fires when it has to, and calls the function that it has to.
    pub is_right: bool,
    /// It does so for what is done here.
    pub fires: bool,
    /// Also for what replication brings.
    pub fires_always: bool,
}

/// Of which changes of a table its triggers tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracking {
    /// Not of all.
    Nothing,
    /// They fire for local changes only: they were disabled and enabled again by hand.
    Local,
    /// They also fire for replicated changes.
    Always,
}

impl Tracking {
    /// Returns whether there are no other changes. `is_copy`: replication brings some.
    pub fn is_complete(self, is_copy: bool) -> bool {
        match self {
            Tracking::Nothing => false,
            Tracking::Local => !is_copy,
            Tracking::Always => true,
        }
    }
}

pub fn tracking(relation: &Relation) -> Tracking {
    let named = own(relation);
    let has_all = |fires: fn(&NamedTrigger) -> bool| {
        let tells = |name: &&str| {
            named.iter().any(|known| known.name == *name && known.is_right && fires(known))
        };
        TRACKING_TRIGGERS.iter().all(tells)
    };
    match () {
        _ if has_all(|trigger| trigger.fires_always) => Tracking::Always,
        _ if has_all(|trigger| trigger.fires) => Tracking::Local,
        _ => Tracking::Nothing,
    }
}

/// Returns whether only the queue's triggers act on changes of the table.
pub fn are_all_own(relation: &Relation) -> bool {
    let triggers = relation.triggers();
    let own = triggers.iter().filter(|trigger| is_right(trigger)).count();
    own == triggers.len() && !relation.has_rules()
}

/// The table's triggers that call a function of ours.
pub fn own(relation: &Relation) -> Vec<NamedTrigger> {
    let own = |trigger: Present| {
        let name = TRIGGERS.into_iter().find(|name| *name == trigger.name)?;
        let is_right = is_right(&trigger);
        let calls_ours = is_right || wanted(name).0 == Some(trigger.function);
        let Present { fires, fires_always, .. } = trigger;
        calls_ours.then_some(NamedTrigger { name, is_right, fires, fires_always })
    };
    relation.triggers().into_iter().filter_map(own).collect()
}

/// Refuses triggers of the user's that bear the names of ours.
pub fn refuse_namesakes(relation: &Relation) -> Result<()> {
    let own = own(relation);
    let is_namesake = |trigger: &Present| {
        TRIGGERS.contains(&trigger.name.as_str())
            && !own.iter().any(|known| known.name == trigger.name)
    };
    let Some(trigger) = relation.triggers().into_iter().find(is_namesake) else { return Ok(()) };
    let (name, table) = (&trigger.name, crate::queue::display_name(relation.oid()));
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_DUPLICATE_OBJECT,
        format!("table \"{}\" has a trigger \"{name}\" of its own", relation.name()),
    )
    .hint(format!(
        "Queues have triggers of that name: ALTER TRIGGER {} ON {table} RENAME TO another one.",
        catalog::quote(name)
    )))
}

fn is_right(trigger: &Present) -> bool {
    let Some(name) = TRIGGERS.into_iter().find(|name| *name == trigger.name) else { return false };
    let (function, kind, has_condition) = wanted(name);
    function == Some(trigger.function)
        && trigger.kind == kind
        && trigger.is_plain
        && (has_condition || !trigger.has_condition)
}

/// The function of one of our triggers, when it fires, and whether it has a condition.
fn wanted(name: &str) -> (Option<Oid>, i16, bool) {
    let (function, timing, event, has_condition): (&CStr, _, _, _) = match name {
        ARRIVAL | FORMER_ARRIVAL => (c"row_arrives", Timing::BeforeInsertRow, Event::Insert, true),
        "xqueue_delete" => (c"row_changed", Timing::AfterRow, Event::Delete, false),
        "xqueue_insert" => (c"row_changed", Timing::AfterRow, Event::Insert, false),
        "xqueue_truncate" => (c"truncated", Timing::AfterTruncate, Event::Truncate, false),
        _ => (c"row_changed", Timing::AfterRow, Event::Update, true),
    };
    (catalog::own_function(function), kind(timing, event), has_condition)
}
