//! Recognizes a queue's own triggers: a user's trigger can have the same name.

use crate::error::{Error, Result};
use crate::server::catalog;
use crate::server::relation::Relation;
use crate::server::trigger::{Condition, Event, Present, Timing, kind};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Oid;
use std::ffi::CStr;
use xqueue_core::statement::{ARRIVAL, TRACKING_TRIGGERS, TRIGGERS, Table, UPDATE_TRIGGER};

/// The changes of a table that its triggers report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracking {
    /// Not all changes.
    Nothing,
    /// Local changes only: someone disabled the triggers and enabled them again.
    Local,
    /// All changes, including replicated ones.
    Always,
}

impl Tracking {
    /// Returns whether the triggers report every change. `is_copy`: the table also receives replicated changes.
    pub fn is_complete(self, is_copy: bool) -> bool {
        match self {
            Tracking::Nothing => false,
            Tracking::Local => !is_copy,
            Tracking::Always => true,
        }
    }
}

pub fn tracking(relation: &Relation, sql: &Table) -> Tracking {
    let own = right(relation, sql);
    let has_all = |fires: fn(&Present) -> bool| {
        let tells = |name: &&str| own.iter().any(|known| known.name == *name && fires(known));
        TRACKING_TRIGGERS.iter().all(tells)
    };
    match () {
        _ if has_all(|trigger| trigger.fires_always) => Tracking::Always,
        _ if has_all(|trigger| trigger.fires) => Tracking::Local,
        _ => Tracking::Nothing,
    }
}

/// Returns the queue's own triggers that match the statements of `sql`.
fn right(relation: &Relation, sql: &Table) -> Vec<Present> {
    let mut triggers = relation.triggers();
    triggers.retain(|trigger| is_right(trigger, relation, sql));
    triggers
}

/// Returns the identifiers of these triggers. Without the BEFORE trigger if `arrives`, because triggers of users can
/// change new rows before it.
pub fn own_and_right(relation: &Relation, sql: &Table, arrives: bool) -> Vec<Oid> {
    let own = right(relation, sql).into_iter();
    own.filter(|own| !(arrives && own.is_before())).map(|own| own.oid).collect()
}

/// Returns whether triggers or rules made by users act on changes of the table, even if their functions belong to the
/// server. The server's own triggers for constraints do not count.
pub fn are_made_by_users(relation: &Relation, sql: &Table) -> bool {
    let is_of_users = |trigger: &Present| !trigger.is_internal && !is_right(trigger, relation, sql);
    relation.triggers().iter().any(is_of_users) || relation.has_rules()
}

/// Returns the table's triggers that have one of the queue's trigger names and call the matching function.
pub fn own(relation: &Relation) -> Vec<Present> {
    let mut triggers = relation.triggers();
    triggers.retain(|trigger| {
        wanted(&trigger.name).is_some_and(|(function, _)| function == Some(trigger.function))
    });
    triggers
}

/// Refuses user triggers that have the names of the queue's own.
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

/// Returns whether a trigger matches the statements of `sql`; the sessions in which it is enabled are not compared.
pub fn is_right(trigger: &Present, relation: &Relation, sql: &Table) -> bool {
    let Some((function, kind)) = wanted(&trigger.name) else { return false };
    let condition = || match trigger.name.as_str() {
        UPDATE_TRIGGER => sql.watched_numbers().map(Condition::Differs),
        _ => Some(Condition::None),
    };
    function == Some(trigger.function)
        && trigger.kind == kind
        && trigger.is_plain
        && condition() == Some(relation.condition_of_trigger(trigger.oid))
}

/// Returns the function of the queue's trigger with this name, and when it fires.
fn wanted(name: &str) -> Option<(Option<Oid>, i16)> {
    let (function, timing, event): (&CStr, _, _) = match name {
        ARRIVAL => (c"row_arrives", Timing::BeforeInsertRow, Event::Insert),
        "xqueue_delete" => (c"row_changed", Timing::AfterRow, Event::Delete),
        "xqueue_insert" => (c"row_changed", Timing::AfterRow, Event::Insert),
        "xqueue_truncate" => (c"truncated", Timing::AfterTruncate, Event::Truncate),
        UPDATE_TRIGGER => (c"row_changed", Timing::AfterRow, Event::Update),
        _ => return None,
    };
    Some((catalog::internal_function(function, &[]), kind(timing, event)))
}
