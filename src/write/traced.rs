//! Changes of rows for the trace that the models are compared with, see [`crate::trace`].

use crate::model::change::{Call, Place};
use crate::model::field::Field;
use crate::model::position::{Group, Position};
use crate::parts::leases::session;
use crate::parts::marks::traced;
use crate::queue::Queue;
use crate::server::row::Row;
use crate::server::value::Value as Column;
use crate::server::{time, types};
use crate::trace;
use crate::write::seen::Seen;
use serde_json::{Value, json};

/// Records a change of a row, with the lease that begins or continues, or else the one that has ended.
pub fn row_changed(
    queue: &Queue,
    old: Option<&Seen<impl Row>>,
    new: Option<&Seen<impl Row>>,
    call: Option<Call>,
    stand: Option<(Group, Position)>,
) {
    trace::note(|| event(queue, old, new, call, stand));
}

fn event(
    queue: &Queue,
    old: Option<&Seen<impl Row>>,
    new: Option<&Seen<impl Row>>,
    call: Option<Call>,
    stand: Option<(Group, Position)>,
) -> Option<Value> {
    let call = if old.is_none() { Some(Call::Put) } else { call };
    let mut event = match call {
        Some(Call::Take | Call::Touch | Call::Put) => new.map(|new| lease(queue, new.row)),
        _ => old.map(|old| lease(queue, old.row)),
    };
    if let Some(Value::Object(event)) = &mut event {
        let call = call.map_or("by hand".into(), |call| match call {
            Call::GiveBack => format!("{:?}", Call::Release),
            call => format!("{call:?}"),
        });
        let before = old.and_then(|old| queue.instant_of(old.row, Field::Runat));
        event.insert("do".into(), call.into());
        event.insert("before".into(), before.into());
        event.insert("stand".into(), stand.map(traced::stand).into());
        event.insert("slot".into(), queue.slot.generation.into());
        event.insert("queue".into(), queue.name.as_str().into());
        event.insert("by".into(), session::current_if_any().map(types::uuid_text).into());
        event.insert("at".into(), time::now().into());
        event.insert("from".into(), place(old.map(|old| old.place)));
        event.insert("to".into(), place(new.map(|new| new.place)));
    }
    event
}

/// A task's state, and its sub-queue if it is in one.
fn place(place: Option<Place>) -> Value {
    place.map_or(Value::Null, |place| {
        let tube = place.tube.filter(|tube| tube.is_subqueue).map(|tube| tube.hash);
        json!({ "status": place.status, "tube": tube })
    })
}

fn lease(queue: &Queue, row: &impl Row) -> Value {
    let key = queue.key.first().and_then(|key| row.value(key.number));
    let attempt = queue.value_of(row, Field::Attempts).and_then(Column::try_integer);
    json!({
        "task": key.map(Column::shown),
        "owner": queue.value_of(row, Field::Owner).map(|owner| types::uuid_text(owner.to_uuid())),
        "attempt": attempt,
        "until": queue.instant_of(row, Field::Runat),
    })
}
