//! `give_back`: gives the tasks of the caller's session back to their queues, for example when a consumer ends early.

use crate::api::argument::{Target, number_of};
use crate::error::Result;
use crate::parts::leases::session;
use crate::parts::slot;
use crate::queue::{self, Arguments, Queue};
use crate::server::function::Call;
use crate::server::relation::LockMode;
use crate::server::types::{self, Uuid};
use crate::server::value::Value;
use crate::server::{privileges, process};
use crate::write::passed::{Passed, many};
use crate::{sql_functions, transaction};
use pgrx::pg_sys::Oid;
use std::rc::Rc;
use xqueue_core::change::CallKind;
use xqueue_core::form::Form;
use xqueue_core::statement::{Change, Parameter};
use xqueue_core::status::Status;
use xqueue_core::transaction::Delta;

sql_functions! {
    "give_back" as give_back, pg_finfo_give_back(queue: queue) -> integer => give_back_impl;
    "give_back" as give_back_all, pg_finfo_give_back_all() -> integer => give_back_all_impl;
}

fn give_back_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let is_text = call.type_of(arg::give_back::queue) == types::TEXT;
    if is_text && call.value(arg::give_back::queue).is_none() {
        return give_back_all_impl(call);
    }
    let target = Target::of(call, arg::give_back::queue)?;
    let queue = target.open(LockMode::RowExclusive)?;
    Ok(number_of(give_back(&queue, session::current()?)?))
}

fn give_back_all_impl(_: &Call) -> Result<Option<Value<'_>>> {
    session::require_loaded()?;
    // A connection without a session of its own holds no tasks.
    if session::current_if_any().is_none() {
        return Ok(number_of(0));
    }
    let session = session::current()?;
    let open =
        |table| Target { table, form: Form::Row, row: None }.open_if_there(LockMode::RowExclusive);
    let (mut tasks, mut refusing) = (0, None::<Rc<Queue>>);
    let tables = queue::tables().into_iter();
    for table in tables.filter(|table| may_hold(*table) && privileges::may_update(*table)) {
        let Some(queue) = open(table)? else { continue };
        let mut passed = Passed::of(&queue, CallKind::GiveBack, Form::Row);
        tasks += passed.change_many(Change::GiveBack, &arguments(session), &mut |_| Ok(()))?;
        let has_refused = passed.has_refused();
        refusing = refusing.or(has_refused.then_some(queue));
    }
    match refusing {
        Some(queue) if tasks == 0 => Ok(number_of(give_back(&queue, session)?)),
        _ => Ok(number_of(tasks)),
    }
}

/// Returns whether a queue can have taken tasks, from committed transactions or from this one.
fn may_hold(table: Oid) -> bool {
    let Some(id) = slot::find(process::database().into(), table.into()) else { return true };
    let has_taken = slot::lock(id).is_none_or(|slot| slot.counters.may_have(Status::Taken));
    has_taken || transaction::pending(id) != Delta::default()
}

fn give_back(queue: &Queue, session: Uuid) -> Result<usize> {
    many::change(queue, CallKind::GiveBack, Change::GiveBack, &arguments(session), |_| Ok(()))
}

fn arguments<'to>(session: Uuid) -> Arguments<'to> {
    let mut arguments = Arguments::of(Parameter::Sessions, Value::uuids(&[session]));
    arguments.set(Parameter::Limit, Value::int4(i32::MAX));
    arguments.set(Parameter::Skip, Value::int4(0));
    arguments
}
