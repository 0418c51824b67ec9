//! The triggers of a queue's table. They record every change of a row, by the queue's functions or by hand.

use crate::error::{Error, Result};
use crate::queue::{self, Queue};
use crate::server::function::Call as FunctionCall;
use crate::server::row::Tuple;
use crate::server::trigger::{Event, Firing, Timing};
use crate::server::value::Value;
use crate::server::{catalog, context, nesting, process, shared_memory, spi, time, types};
use crate::write::seen::Seen;
use crate::write::{guard, inserted, row, subqueues};
use crate::{parts, sql_functions, transaction};
use pgrx::PgSqlErrorCode;
use xqueue_core::change::{CallKind, Counts, StateAndTube, event};
use xqueue_core::field::Field;
use xqueue_core::statement::{ARRIVAL, TRACKING_TRIGGERS};
use xqueue_core::status::Status;

sql_functions! {
    "row_changed" as row_changed, pg_finfo_row_changed() -> trigger => row_changed_impl;
    "row_arrives" as row_arrives, pg_finfo_row_arrives() -> trigger => row_arrives_impl;
    "truncated" as truncated, pg_finfo_truncated() -> trigger => truncated_impl;
    "registry_changed" as registry_changed, pg_finfo_registry_changed() -> trigger
        => registry_changed_impl;
}

/// Runs AFTER INSERT, UPDATE or DELETE for each row. Without the library's shared memory nothing is counted; the rows
/// are counted when the server runs with it again.
fn row_changed_impl(call: &FunctionCall) -> Result<Option<Value<'_>>> {
    // The server does not check for interrupts between the rows of a statement's triggers.
    process::serve_interrupts();
    let firing = Firing::of(call, Timing::AfterRow)?;
    if !acts(&firing, &TRACKING_TRIGGERS) {
        return Ok(firing.unchanged());
    }
    let Some(queue) = queue::find(firing.table())? else { return Ok(firing.unchanged()) };
    nesting::refuse_too_deep(|| queue.name.clone())?;
    let row = firing.row();
    // A row from before the table became a queue can have a value that stands for no state.
    let (old, new) = match firing.event() {
        Event::Insert => (None, Some((queue.place_of(&row)?, row))),
        Event::Update => {
            let new = firing.new_row();
            let place = queue.place_of(&new)?;
            (queue.place_of(&row).ok().map(|place| (place, row)), Some((place, new)))
        }
        _ => (queue.place_of(&row).ok().map(|place| (place, row)), None),
    };
    let call = transaction::being_done(queue.slot);
    if firing.event() == Event::Insert
        && let Some(new) = seen(&new)
    {
        inserted::note(&queue, new, call)?;
    } else {
        note_change(&queue, &old, &new, call)?;
    }
    if let (Some(hook), Some((_, row))) = (&queue.hook, new.as_ref().or(old.as_ref())) {
        let status = |seen: &SeenTuple| seen.as_ref().map(|(place, _)| place.status);
        let event = event(transaction::being_done(queue.slot), status(&old), status(&new));
        call_hook(hook, row, event, &queue)?;
    }
    Ok(firing.unchanged())
}

/// Records an update or a deletion, and refuses it if another session or sub-queue does not allow it.
fn note_change(
    queue: &Queue,
    old: &SeenTuple,
    new: &SeenTuple,
    call: Option<CallKind>,
) -> Result<()> {
    if let Some((old, new)) = seen(old).zip(seen(new)) {
        guard::refuse_to_take_away(queue, &old, &new, call)?;
    }
    if let Some((place, row)) = new {
        let before = old.as_ref().map(|(place, _)| *place);
        if place.status == Status::Taken && before != Some(*place) {
            subqueues::by_hand::claim(queue, place, row)?;
        }
    }
    row::note(queue, seen(old), seen(new), call);
    Ok(())
}

/// Returns whether a trigger acts. Only those that `upgrade` makes do: a second trigger with a function of ours, made by
/// whoever has the right TRIGGER, would count each change twice. `names`: those of our triggers with this function. A
/// tracked queue has all of [`TRACKING_TRIGGERS`], so none of these names is free.
fn acts(firing: &Firing, names: &[&str]) -> bool {
    let is_own = |name: &str| names.contains(&name);
    shared_memory::is_available() && firing.name().to_str().is_ok_and(is_own)
}

/// A row with its state and tube; None if there is no such row, or its state is not known.
type SeenTuple = Option<(StateAndTube, Tuple)>;

fn seen(row: &SeenTuple) -> Option<Seen<'_, Tuple>> {
    row.as_ref().map(|(place, row)| Seen { place: *place, row })
}

/// Calls the user's function with a task and the event that happened to it.
fn call_hook(hook: &str, row: &Tuple, event: &str, queue: &Queue) -> Result<()> {
    let task = row.to_record();
    let hint = || {
        format!(
            "It is what queue {} calls on every change. SELECT xqueue.upgrade({}, \
             '{{\"features\": {{\"on_task_change\": false}}}}'); switches that off.",
            queue.name,
            catalog::quote_literal(&queue.name)
        )
    };
    let call = format!("SELECT {hook}($1, $2)");
    context::hinted_if_undefined(&call, hint, || {
        transaction::aside(|| {
            let (task, event) = (queue.to_jsonb(task), Value::text(event));
            let arguments = [(types::JSONB, Some(task)), (types::TEXT, Some(event))];
            spi::connect(|spi| drop(spi.run_with(&call, &arguments)));
        });
    });
    Ok(())
}

/// Runs BEFORE INSERT for each row that differs from the rows of `put`. A ready task with a future `runat` becomes
/// waiting; a task without an expiry gets the default one.
fn row_arrives_impl(call: &FunctionCall) -> Result<Option<Value<'_>>> {
    let firing = Firing::of(call, Timing::BeforeInsertRow)?;
    if !acts(&firing, &[ARRIVAL]) {
        return Ok(firing.unchanged());
    }
    let Some(queue) = queue::find(firing.table())? else { return Ok(firing.unchanged()) };
    let (row, now) = (firing.row(), time::now());
    let status = queue.status_of(&row)?;
    let runat = queue.starts_later(&row);
    let waits = status == Status::Waiting || queue.features().delays() && runat.is_some();
    let mut values = Vec::new();
    if waits && status == Status::Ready {
        values.push((queue.number_of(Field::Status), queue.status_value(Status::Waiting)?));
    }
    let is_to_live = matches!(status, Status::Ready | Status::Waiting)
        && queue.number_of(Field::Expires) != 0
        && queue.instant_of(&row, Field::Expires).is_none();
    if let Some(ttl) = queue.features().default_ttl().filter(|_| is_to_live) {
        let begin = runat.filter(|_| waits).unwrap_or(now);
        let end = time::after(begin, ttl).ok_or_else(|| {
            Error::new(
                PgSqlErrorCode::ERRCODE_DATETIME_FIELD_OVERFLOW,
                format!("a task of queue \"{}\" would live forever", queue.name),
            )
            .hint("Give a runat that is not so far away.")
        })?;
        let end = queue.instant_value(Field::Expires, end);
        values.extend(end.map(|end| (queue.number_of(Field::Expires), end)));
    }
    Ok(firing.with_columns(&values))
}

/// Runs AFTER TRUNCATE.
fn truncated_impl(call: &FunctionCall) -> Result<Option<Value<'_>>> {
    let firing = Firing::of(call, Timing::AfterTruncate)?;
    if acts(&firing, &TRACKING_TRIGGERS)
        && let Some(queue) = queue::find(firing.table())?
    {
        transaction::note(queue.slot, |delta| delta.replace(&Counts::default()));
        // The tasks in flight are gone. The end of the transaction discards the sub-queues again.
        parts::subqueues::reset(queue.slot);
    }
    Ok(Some(Value::ignored()))
}

/// Runs after any change of the registry and asks the worker to read it again.
fn registry_changed_impl(call: &FunctionCall) -> Result<Option<Value<'_>>> {
    let firing = Firing::of(call, Timing::AfterStatement)?;
    queue::require_registry(firing.table())?;
    if shared_memory::is_available() {
        transaction::note_registry_change();
    }
    Ok(Some(Value::ignored()))
}
