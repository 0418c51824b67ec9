//! Plans an upgrade: the difference between a table and the queue that the options describe.

mod advice;
mod attachments;
mod census;
mod columns;
mod defaults;
mod functions;
pub mod healing;
mod identity;
mod note;
mod switch;

use crate::error::{Error, Result};
use crate::queue::{self, Fitness};
use crate::server::relation::{ColumnType, Relation};
use crate::server::time_zone::TimeZone;
use crate::server::user::Pinned;
use crate::server::{catalog, injection, xact};
use attachments::{add_indexes, add_triggers};
use census::{Crowd, Tasks};
use columns::{Columns, refuse_key_columns, refuse_never_empty, refuse_shared_columns};
use note::Note;
use pgrx::PgSqlErrorCode;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use switch::Switch;
use xqueue_core::definition::{Column, Definition, Made};
use xqueue_core::field::Field;
use xqueue_core::names::Id;
use xqueue_core::options::Options;
use xqueue_core::statement::Table;
use xqueue_core::status::Status;

pub use advice::Advice;
pub use attachments::{bind_indexes, bound_indexes, drop_index_if_there, unbind_indexes};
pub use functions::return_type;
pub use note::{is_current as is_noted, write as write_note};

/// Fires the deferred triggers of changed rows: ALTER TABLE and CREATE INDEX fail while their events are pending.
pub const FIRE_DEFERRED: &str = "SET CONSTRAINTS ALL IMMEDIATE";

/// Plan of an upgrade: the new definition and the statements that lead to it.
pub struct UpgradePlan {
    pub definition: Definition,
    pub ddl: Vec<String>,
    /// Some statements lock the table against readers. That lock is then taken first, because a lock upgrade can
    /// deadlock.
    pub needs_table_alone: bool,
    pub is_new: bool,
    /// The set of tubes with separate statistics changes.
    pub tubes_changed: bool,
    /// Some changes of tasks were not counted.
    pub has_missed: bool,
    pub advice: Option<Advice>,
    /// The plan relies on rows that other transactions have written.
    reads_rows: bool,
    redefines: bool,
    /// Names of the added columns.
    adds: Vec<String>,
}

impl UpgradePlan {
    pub fn draw(relation: &Relation, newer: &Options) -> Result<UpgradePlan> {
        // Names and defaults are compared as text.
        let _quotes = Pinned::quotes();
        let mut newer = newer.clone();
        let previous = queue::read(relation.oid())?;
        let note = if previous.is_none() { Note::read(relation) } else { None };
        let noted = note.as_ref().map(Note::options).transpose()?;
        if let Some(noted) = &noted {
            newer = noted.merge(&newer).map_err(Error::invalid)?;
        }
        // The call can replace a function of the note that is gone.
        functions::qualify(&mut newer.features)?;
        let newer = &newer;
        injection::point(c"xqueue-definition-is-read");
        let same_table = previous.as_ref().is_none_or(|entry| entry.same_table);
        let previous = previous.map(|entry| entry.definition);
        let before = previous.as_ref().map(|definition| definition.options.clone());
        let mut options = before.unwrap_or_default().merge(newer).map_err(|message| {
            Error::invalid(message).hint(
                "Options that are not given stay as they are: name the other feature in the same call, too.",
            )
        })?;
        let known_key = previous.as_ref().map(|known| known.key.clone());
        let columns = Columns {
            relation,
            options: &options,
            newer,
            previous: previous.as_ref(),
            known_key: known_key.or(note.as_ref().map(Note::key)).unwrap_or_default(),
            same_table,
        };
        columns.refuse_other_states()?;
        let time_zone = TimeZone::named(options.time_zone())?;
        let key = columns.key()?;
        let (fields, added) = columns.fields()?;
        let order = columns.order(&fields)?;
        let ordered_by = queue::order_columns(order.clone(), &key);
        refuse_shared_columns(&fields)?;
        refuse_key_columns(&fields, &key)?;
        refuse_never_empty(relation, &fields)?;
        if let Some(tube) = fields.get(&Field::Tube) {
            Fitness { options: &options, queue: None }.refuse_vague_labels(tube)?;
        }
        let mut made = match (&previous, &note) {
            (Some(known), _) => known.made.clone(),
            (None, Some(note)) => note.made(relation),
            (None, None) => Made::default(),
        };
        // Matches by present names and numbers; columns that no longer exist leave the list.
        let ours = made.columns.iter();
        let by_number = same_table && note.is_none();
        let ours = ours.filter_map(|made| queue::column_of(relation, made, by_number));
        made.columns = ours.map(|column| queue::written(&column)).collect();
        let sql = queue::table_names(relation, &options, &fields, &key, &ordered_by)?;
        if sql.has_local_times() {
            options.time_zone = Some(options.time_zone().into());
        }
        let was = |known: &Definition| names_before(relation, known, same_table, &key);
        let before = previous.as_ref().map(was).transpose()?;
        let adds_status = added.contains(&Field::Status);
        let status = fields.get(&Field::Status).filter(|_| !adds_status);
        let tasks = status.map(|column| Tasks::of(relation, column, &options)).transpose()?;
        let is_new = previous.is_none();
        let foreign = tasks.as_ref().filter(|_| is_new).map(Tasks::foreign).unwrap_or_default();
        refuse_foreign_values(&sql, foreign.values)?;

        let was = previous.as_ref().map(|known| known.options.features.clone()).unwrap_or_default();
        let existing = options.existing.unwrap_or(Status::Ready);
        // A restored queue has its ends of life from before.
        if let Some(expires) = fields.get(&Field::Expires)
            && options.features.expires()
            && !was.expires()
            && !added.contains(&Field::Expires)
            && note.is_none()
        {
            let expired =
                census::count_expired(relation, expires, tasks.as_ref(), existing, &time_zone);
            refuse_expired(&sql, expires, expired)?;
        }
        if let Some(tasks) =
            tasks.filter(|_| options.features.has_subqueues() && !was.has_subqueues())
        {
            let labels = fields.get(&Field::Tube).filter(|_| !added.contains(&Field::Tube));
            refuse_crowded(&sql, tasks.crowd(labels))?;
        }

        let mut ddl = Vec::new();
        if let (Some(previous), Some(before)) = (&previous, &before) {
            let status = previous.fields.get(&Field::Status);
            let status = status.and_then(|status| queue::column_of(relation, status, same_table));
            let tasks = status.map(|column| Tasks::of(relation, &column, &previous.options));
            let switch = Switch {
                tasks: tasks.transpose()?,
                old: &previous.options,
                new: &options,
                newer,
                before,
                made: &made,
            };
            ddl.extend(switch.settle()?);
        }
        let is_switched = !ddl.is_empty();
        for field in &added {
            ddl.extend(sql.add_column(*field, existing));
        }
        if foreign.has_null {
            ddl.push(sql.fill_status(existing));
        }
        let adopts = |field| !added.contains(&field);
        if options.features.delays() && !was.delays() && adopts(Field::Runat) {
            ddl.push(sql.wait_until_due());
        }
        // In a table that was no queue, the tasks in flight come back in any case.
        let begins = options.features.has_deadlines() && !was.has_deadlines() && !is_new;
        if begins && adopts(Field::Runat) {
            ddl.push(sql.forget(Field::Runat, Some(Status::Taken)));
        }
        // A switch that changes rows ends with this statement itself.
        if !is_switched && ddl.iter().any(|statement| changes_rows(statement)) {
            ddl.push(FIRE_DEFERRED.into());
        }
        defaults::set_fields(relation, &sql, &fields, &mut ddl, &mut made);
        let known = previous.as_ref().map(|known| &known.options).or(noted.as_ref());
        let known_id = known.and_then(|known| known.features.id.as_ref());
        identity::give(&options, known_id, relation, &sql, &key, &mut ddl, &mut made)?;
        let is_unbound =
            add_indexes(relation, &sql, &fields, &ordered_by, note.is_some(), &mut ddl, &mut made);
        let has_missed = add_triggers(relation, &sql, before.as_ref(), &mut ddl)?;
        refuse_hidden_rows(relation, &sql, &ddl)?;
        let needs_table_alone = ddl.iter().any(|statement| {
            ["DROP", "UPDATE", "DELETE"].iter().any(|verb| statement.starts_with(verb))
                || statement.contains(" COLUMN ")
        });
        // An identity continues after the greatest key.
        let makes_identity = made.key_default && options.features.id == Some(Id::AutoIncrement);
        let reads_rows = !is_new || fields.len() > added.len() || makes_identity;
        let adds = added.iter().filter_map(|field| fields.get(field));
        let adds = adds.map(|column| column.name.clone()).collect();
        for (field, column) in &fields {
            if let Some(name) = options.fields.columns.get_mut(field) {
                name.clone_from(&column.name);
            }
        }
        let advice = advice::about_order(relation, &options, &key, &ordered_by);
        let names = || order.iter().map(|column| column.name.clone()).collect();
        options.fields.order = (!order.is_empty()).then(names);
        let definition = Definition {
            options,
            key: key.iter().map(queue::written).collect(),
            order: order.iter().map(queue::written).collect(),
            fields: fields.iter().map(|(field, c)| (*field, queue::written(c))).collect(),
            made,
            unending: false,
        };
        let counted = |known: &Definition| known.options.tubes_counted().to_vec();
        let tubes = previous.as_ref().map(counted).unwrap_or_default();
        Ok(UpgradePlan {
            // A restored table's definition is rewritten, so that its column numbers are valid again.
            redefines: is_unbound || !same_table || previous.as_ref() != Some(&definition),
            advice,
            is_new,
            has_missed,
            tubes_changed: tubes != definition.options.tubes_counted(),
            definition,
            ddl,
            needs_table_alone,
            reads_rows: reads_rows && !relation.is_created_here(),
            adds,
        })
    }

    pub fn changes_nothing(&self) -> bool {
        self.ddl.is_empty() && !self.redefines
    }

    /// Refuses to run the plan with a snapshot that can be older than rows that it relies on.
    pub fn refuse_old_snapshot(&self) -> Result<()> {
        if !self.reads_rows || !xact::has_fixed_snapshot() {
            return Ok(());
        }
        let what = match self.is_new {
            true => "adopt columns or make an identity",
            false => "switch features",
        };
        Err(Error::new(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            format!("cannot {what} in a transaction of isolation level repeatable read or higher"),
        )
        .detail("It would not see, nor convert, a task that is put after its snapshot.")
        .hint("Use read committed."))
    }

    /// Returns the definition with the column numbers of the altered table.
    pub fn settled(&self, relation: &Relation) -> Result<Definition> {
        let columns = relation.columns();
        let settle = |column: &Column| {
            let found = columns.iter().find(|known| known.name == column.name);
            found.map(queue::written).ok_or_else(|| {
                Error::new(
                    PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
                    format!("column \"{}\" could not be added", column.name),
                )
                .hint("An event trigger may have undone it.")
            })
        };
        let mut definition = self.definition.clone();
        definition.key = definition.key.iter().map(settle).collect::<Result<_>>()?;
        definition.order = definition.order.iter().map(settle).collect::<Result<_>>()?;
        for column in definition.fields.values_mut() {
            *column = settle(column)?;
        }
        for name in &self.adds {
            let column = settle(&Column { name: name.clone(), number: 0 })?;
            definition.made.columns.push(column);
        }
        Ok(definition)
    }
}

/// Returns the queue's previous definition with the present names of the table's columns.
fn names_before(
    relation: &Relation,
    known: &Definition,
    same_table: bool,
    key: &[ColumnType],
) -> Result<Table> {
    let fields = known.fields.iter().filter_map(|(field, column)| {
        Some((*field, queue::column_of(relation, column, same_table)?))
    });
    let order = known.order.iter();
    let order = order.filter_map(|column| queue::column_of(relation, column, same_table));
    let ordered_by = queue::order_columns(order.collect(), key);
    queue::table_names(relation, &known.options, &fields.collect(), key, &ordered_by)
}

/// Formats a definition as shown by `upgrade`.
pub fn describe(queue: &str, definition: &Definition) -> Value {
    let options = &definition.options;
    let states: Map<String, Value> = Status::ALL
        .iter()
        .map(|status| (status.letter().to_string(), options.label(*status).into()))
        .collect();
    let mut fields: Map<String, Value> = definition
        .fields
        .iter()
        .map(|(field, column)| (field.name().to_string(), column.name.clone().into()))
        .collect();
    if !definition.order.is_empty() {
        let order = definition.order.iter().map(|column| column.name.clone());
        fields.insert("order".into(), order.collect::<Vec<_>>().into());
    }
    let mut described = json!({
        "queue": queue,
        "key": definition.key.iter().map(|column| column.name.clone()).collect::<Vec<_>>(),
        "fields": fields,
        "states": states,
        "features": options.features.in_force(),
        "existing": options.existing.unwrap_or(Status::Ready).letter().to_string(),
    });
    if !options.tubes_counted().is_empty() {
        described["tube_stats"] = options.tubes_counted().into();
    }
    if let Some(zone) = &options.time_zone {
        described["time_zone"] = zone.clone().into();
    }
    described
}

/// Returns whether a statement changes rows, which runs the table's triggers, checks and index expressions.
pub fn changes_rows(statement: &str) -> bool {
    ["UPDATE ", "DELETE "].iter().any(|verb| statement.starts_with(verb))
}

/// Refuses DDL that changes rows if forced row security hides some of them from the table's owner, who runs it.
fn refuse_hidden_rows(relation: &Relation, sql: &Table, ddl: &[String]) -> Result<()> {
    let hides_rows = || catalog::hides_rows(relation.oid(), relation.owner());
    if !ddl.iter().any(|statement| changes_rows(statement)) || !hides_rows() {
        return Ok(());
    }
    let table = sql.qualified();
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("row security hides tasks of {table} from its owner"),
    )
    .detail("The upgrade would leave these tasks unchanged.")
    .hint(format!("ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY; for as long as it takes.")))
}

fn refuse_foreign_values(sql: &Table, foreign: BTreeSet<String>) -> Result<()> {
    if foreign.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "column {} of table {} holds values that are no states: {}",
        sql.fields.get(&Field::Status).map_or("", String::as_str),
        sql.qualified(),
        foreign.into_iter().collect::<Vec<_>>().join(", ")
    ))
    .hint(
        "Say with {\"states\": {\"R\": …}} which values stand for which state, or UPDATE the rows.",
    ))
}

/// Refuses rows that would be deleted immediately.
fn refuse_expired(sql: &Table, expires: &ColumnType, count: i64) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    let (table, column) = (sql.qualified(), &expires.name);
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("{count} rows of {table} would be deleted immediately, because \"{column}\" lies in the past"),
    )
    .detail("With feature ttl, this column says when a task's life ends.")
    .hint("DELETE these rows, or give them a time in the future or NULL, and upgrade the table again."))
}

/// Refuses sub-queues with more than one task in flight.
fn refuse_crowded(sql: &Table, crowd: Option<Crowd>) -> Result<()> {
    let Some(Crowd { label, count }) = crowd.filter(|crowd| crowd.count > 1) else {
        return Ok(());
    };
    let tube = match label {
        Some(label) => format!("of sub-queue \"{label}\""),
        None => "without a label".into(),
    };
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_IN_USE,
        format!("{count} tasks {tube} of {} are taken", sql.qualified()),
    )
    .detail("With feature utube only one task of a sub-queue is in flight at a time.")
    .hint("Wait until they are acked or released, or snatch all but one of them."))
}
