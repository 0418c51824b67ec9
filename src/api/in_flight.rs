//! `in_flight`, which lists a queue's taken tasks for the view `xqueue.tasks_in_flight`.

use crate::api::monitor::SHOWN;
use crate::error::Result;
use crate::parts::clock;
use crate::parts::leases::{session, store};
use crate::queue::Queue;
use crate::queue::census::{self, Sight};
use crate::server::function::{Call, Output};
use crate::server::jsonb;
use crate::server::row::{Row, Tuple};
use crate::server::value::Value;
use crate::server::{time, types};
use crate::sql_functions;
use serde_json::{Value as Json, json};
use xqueue_core::field::Field;

sql_functions! {
    "in_flight" as in_flight, pg_finfo_in_flight(queue: regclass) -> [jsonb] => in_flight_impl;
}

/// Returns the taken tasks of a queue, up to a limit.
fn in_flight_impl(call: &Call) -> Result<Option<Value<'_>>> {
    session::require_loaded()?;
    let output = Output::open(call);
    let mut tasks = Vec::new();
    let see = |queue: &Queue| {
        census::taken(queue, |row| {
            tasks.push(described(queue, row));
            tasks.len() < SHOWN
        })
    };
    if let Sight::Seen(()) = census::sight(call.require(arg::in_flight::queue)?, see)? {
        tasks.iter().for_each(|task| output.push(jsonb::from_value(task)));
    }
    Ok(None)
}

fn described(queue: &Queue, row: &Tuple) -> Json {
    let session = queue.session_of(row);
    let now = time::now();
    let age = row.writer().and_then(|writer| clock::age(writer, now));
    let deadline = queue.instant_of(row, Field::Runat).filter(|_| queue.features().has_deadlines());
    json!({
        "key": queue.key_text_of(row),
        "attempts": queue.value_of(row, Field::Attempts).and_then(Value::try_integer),
        "session": session.filter(|uuid| store::is_identified(*uuid)).map(types::uuid_text),
        "pid": session.and_then(store::holder),
        "taken_for": age.map(time::seconds_of),
        "time_left": deadline.map(|deadline| time::seconds_of(deadline.saturating_sub(now))),
    })
}
