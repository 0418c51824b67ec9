//! Takes, acks and puts without statements, where nobody but the queue's functions, and whoever changes
//! rows by hand, acts on the table.
//!
//! What is done is what [`crate::statement`] says, and counted here. It is done for the calls that are
//! made most often; where more would have to be done, or somebody else is at the same task, the rest is
//! left to a statement.

use crate::counting::{self, Transition};
use crate::delta::Lowest;
use crate::error::Result;
use crate::model::change::{Call, Outcome};
use crate::model::definition::Field;
use crate::model::position::Group;
use crate::model::status::Status;
use crate::pg::heap::{Bound, Found, Is, Scan};
use crate::pg::spi::Rows;
use crate::pg::{jsonb, privileges, transaction, types};
use crate::registry::{Arguments, Direct, Queue};
use crate::statement::{Form, Parameter};
use crate::xact;
use pgrx::pg_sys::Datum;
use std::rc::Rc;

/// What has come of a take.
pub struct Taken {
    pub rows: Rows<'static>,
    /// Ready tasks were passed over because of somebody else.
    pub has_missed: bool,
}

/// Takes up to `count` of the ready tasks of a group, from the mark among the arguments on.
pub fn take(
    queue: &Queue,
    group: Group,
    arguments: &Arguments,
    count: usize,
    form: Form,
) -> Result<Option<Taken>> {
    let features = queue.features();
    let writes_more = features.has_deadlines() || features.expires() || features.tries().is_some();
    if writes_more || transaction::has_fixed_snapshot() || !privileges::may_update_all(queue.table)
    {
        return Ok(None);
    }
    let Some(direct) = queue.direct() else { return Ok(None) };
    let Some(index) = direct.ready else { return Ok(None) };
    let is_wanted = |oid| oid == index || direct.may_hold(oid, Status::Taken);
    let Some(open) = direct.heap.open(is_wanted) else { return Ok(None) };
    let mut bounds = Vec::new();
    if let Group::Priority(level) = group {
        let Some(value) = queue.priority_value(level) else { return Ok(None) };
        bounds.push(Bound { is: Is::Equal, value });
    }
    let mark = arguments.get(Parameter::Mark);
    bounds.extend(mark.map(|value| Bound { is: Is::AtLeast, value }));
    let changes = [
        (queue.number_of(Field::Status), Some(queue.status_value(Status::Taken)?)),
        (queue.number_of(Field::Owner), arguments.get(Parameter::Session)),
    ];
    let (mut rows, mut has_missed) = (Vec::new(), false);
    open.scan(index, &bounds, |found| {
        if is_in(Status::Ready, found, queue) {
            match found.update(&changes) {
                Some(row) => rows.push(row),
                None => has_missed = true,
            }
        }
        if rows.len() < count { Scan::GoesOn } else { Scan::Ends }
    });
    drop(open);
    let transition = Transition { from: Some(Status::Ready), to: Some(Status::Taken) };
    counting::note(queue, Call::Take, Some(transition), rows.len());
    Ok(Some(Taken { rows: shown(rows, queue, form), has_missed }))
}

/// Deletes, of the tasks with these keys, those up to the first that is not there to be acked by this
/// session.
pub fn ack(queue: &Queue, keys: &[Vec<Datum>], session: [u8; 16], form: Form) -> Rows<'static> {
    let none = || Rows::of(vec![]);
    if transaction::has_fixed_snapshot() || !privileges::may_delete_all(queue.table) {
        return none();
    }
    let Some(direct) = queue.direct() else { return none() };
    let Some(index) = direct.key else { return none() };
    let Some(open) = direct.heap.open(|oid| oid == index) else { return none() };
    let owner = queue.number_of(Field::Owner);
    let delete = |key: &Vec<Datum>| {
        let bounds: Vec<_> =
            key.iter().map(|value| Bound { is: Is::Equal, value: *value }).collect();
        let mut row = None;
        open.scan(index, &bounds, |found| {
            let is_own = found.datum(owner).map(types::uuid) == Some(session);
            if is_own && is_in(Status::Taken, found, queue) {
                row = found.delete();
            }
            Scan::Ends
        });
        row
    };
    let rows: Vec<Datum> = keys.iter().map_while(delete).collect();
    drop(open);
    counting::note(
        queue,
        Call::Ack,
        Some(Transition { from: Some(Status::Taken), to: None }),
        rows.len(),
    );
    xact::note(queue.slot, |delta| {
        for key in &keys[..rows.len()] {
            delta.end(|| queue.key_hash(key.iter().copied().map(Some)), Outcome::Acked);
        }
    });
    shown(rows, queue, form)
}

/// What puts ready tasks without statements, if that can be done.
pub fn writer(queue: &Queue) -> Option<Rc<Direct>> {
    let is_allowed = !transaction::has_fixed_snapshot() && privileges::may_insert_all(queue.table);
    queue.direct().filter(|direct| is_allowed && direct.inserts)
}

/// Puts ready tasks that have values for some columns.
pub fn put(
    queue: &Queue,
    direct: &Direct,
    tasks: &[Vec<(i16, Option<Datum>)>],
    form: Form,
) -> Result<Option<Rows<'static>>> {
    let is_wanted = |oid| direct.may_hold(oid, Status::Ready);
    let Some(open) = direct.heap.open(is_wanted) else { return Ok(None) };
    let ready = (queue.number_of(Field::Status), Some(queue.status_value(Status::Ready)?));
    let priority = Some(queue.number_of(Field::Priority)).filter(|number| *number != 0);
    let mut lowest = Lowest::default();
    let insert = |task: &Vec<(i16, Option<Datum>)>| {
        let row = open.insert(task.iter().chain([&ready]));
        let key = queue.key.first().and_then(|key| open.written(key.number));
        if let Some(position) = key.and_then(|key| queue.position(key)) {
            let priority = priority.and_then(|number| open.written(number));
            lowest.add(queue.group(None, queue.priority(priority)), position);
        }
        row
    };
    let rows: Vec<Datum> = tasks.iter().map(insert).collect();
    drop(open);
    counting::note(
        queue,
        Call::Put,
        Some(Transition { from: None, to: Some(Status::Ready) }),
        rows.len(),
    );
    xact::note(queue.slot, |delta| {
        lowest.by_group().for_each(|(group, position)| delta.lowest.add(group, position));
    });
    Ok(Some(shown(rows, queue, form)))
}

fn is_in(status: Status, found: &Found, queue: &Queue) -> bool {
    queue.status_read(found.datum(queue.number_of(Field::Status))) == Some(status)
}

fn shown(rows: Vec<Datum>, queue: &Queue, form: Form) -> Rows<'static> {
    Rows::of(match form {
        Form::Row => rows,
        Form::Json => rows.into_iter().map(|row| jsonb::of_row(row, queue.row_type)).collect(),
    })
}
