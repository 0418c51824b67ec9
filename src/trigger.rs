//! The triggers of a queue's table: whoever changes a row, by whatever means, changes the counters.

use crate::error::Result;
use crate::model::status::{Call, Status, Tasks};
use crate::pg::function::Call as FunctionCall;
use crate::pg::time;
use crate::pg::trigger::{Event, Firing, Timing};
use crate::sql_functions;
use crate::{registry, shmem, xact};
use pgrx::pg_sys::Datum;

sql_functions! {
    row_changed, pg_finfo_row_changed => row_changed_impl,
    row_delayed, pg_finfo_row_delayed => row_delayed_impl,
    truncated, pg_finfo_truncated => truncated_impl,
    registry_changed, pg_finfo_registry_changed => registry_changed_impl,
}

/// AFTER INSERT, UPDATE, DELETE, for each row. Without the library's shared memory there is nothing
/// to count: it is counted when the server runs with it again.
fn row_changed_impl(call: &FunctionCall) -> Result<Datum> {
    let firing = Firing::of(call, Timing::AfterRow)?;
    if !shmem::is_available() {
        return Ok(firing.unchanged());
    }
    let Some(queue) = registry::find(firing.table())? else { return Ok(firing.unchanged()) };
    let event = firing.event();
    let row = firing.row();
    // A value that stands for no state may have been there before the queue was.
    let (old, new) = match event {
        Event::Insert => (None, Some((queue.status_of(&row)?, row))),
        Event::Update => {
            let new = firing.new_row();
            (queue.status_of(&row).ok(), Some((queue.status_of(&new)?, new)))
        }
        _ => (queue.status_of(&row).ok(), None),
    };
    let due = match &new {
        Some((Status::Waiting, row)) => queue.runat_of(row),
        _ => None,
    };
    xact::note(queue.slot, |delta| {
        delta.change(old, new.map(|(status, _)| status));
        if event == Event::Insert {
            delta.call(Call::Put, 1);
        }
        if let Some(instant) = due {
            delta.due_at(instant);
        }
    });
    Ok(firing.unchanged())
}

/// BEFORE INSERT, for each row that says when: a ready task whose time is yet to come waits.
fn row_delayed_impl(call: &FunctionCall) -> Result<Datum> {
    let firing = Firing::of(call, Timing::BeforeInsertRow)?;
    if !shmem::is_available() {
        return Ok(firing.unchanged());
    }
    let Some(queue) = registry::find(firing.table())? else { return Ok(firing.unchanged()) };
    let row = firing.row();
    let is_due = queue.runat_of(&row).is_none_or(|instant| instant <= time::now());
    if is_due || queue.status_of(&row)? != Status::Ready {
        return Ok(firing.unchanged());
    }
    let waiting = queue.status_value(Status::Waiting)?;
    Ok(firing.with_column(queue.definition.status.number, waiting))
}

/// AFTER TRUNCATE.
fn truncated_impl(call: &FunctionCall) -> Result<Datum> {
    let firing = Firing::of(call, Timing::AfterTruncate)?;
    if shmem::is_available()
        && let Some(queue) = registry::find(firing.table())?
    {
        xact::note(queue.slot, |delta| delta.replace(Tasks::default()));
    }
    Ok(call.nothing())
}

/// After any change of the registry: the worker is to read it again.
fn registry_changed_impl(call: &FunctionCall) -> Result<Datum> {
    Firing::of(call, Timing::AfterStatement)?;
    if shmem::is_available() {
        xact::note_registry_change();
    }
    Ok(call.nothing())
}
