//! `give_back`: gives the tasks of the caller's session back to their queues, for example when a consumer ends early.

use crate::api::argument::{Target, number_of};
use crate::error::{Error, OrRaise, Result};
use crate::parts::leases::{held, session};
use crate::parts::slot;
use crate::queue::census::{self, Sight};
use crate::queue::{self, Arguments, Queue};
use crate::server::function::Call;
use crate::server::relation::LockMode;
use crate::server::types::{self, Uuid};
use crate::server::value::Value;
use crate::server::{catalog, privileges, process, xact};
use crate::write::passed::{Passed, many};
use crate::{sql_functions, transaction};
use pgrx::PgSqlErrorCode;
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
    let (mut tasks, mut refusing) = (0, None::<Rc<Queue>>);
    let tables = queue::tables().into_iter().filter(|table| privileges::may_update(*table));
    for table in tables {
        if !known_to_hold(table).map_or_else(|| seems_to_hold(table, session), Ok)? {
            continue;
        }
        match xact::try_in_subtransaction(|| give_back_in(table, session).or_raise()) {
            Ok((given_back, refuses)) => {
                tasks += given_back;
                refusing = refusing.or(refuses);
            }
            Err(failure) if concerns_caller(failure.code) => {
                return Err(Error::new(failure.code, failure.message));
            }
            Err(failure) => pass_over(table, failure.code, &failure.message),
        }
    }
    match refusing {
        Some(queue) if tasks == 0 => Ok(number_of(give_back(&queue, session)?)),
        _ => Ok(number_of(tasks)),
    }
}

/// Gives back the tasks of one queue, and returns their number, with the queue if one of its tasks has refused.
fn give_back_in(table: Oid, session: Uuid) -> Result<(usize, Option<Rc<Queue>>)> {
    let target = Target { table, form: Form::Row, row: None };
    let Some(queue) = target.open_if_there(LockMode::RowExclusive)? else { return Ok((0, None)) };
    let mut passed = Passed::of(&queue, CallKind::GiveBack, Form::Row);
    let tasks = passed.change_many(Change::GiveBack, &arguments(session), &mut |_| Ok(()))?;
    let has_refused = passed.has_refused();
    Ok((tasks, has_refused.then_some(queue)))
}

/// Returns whether the session holds tasks of a queue, if that is known without a look at the table. Tasks that others
/// have given to the connection's own session do not count: a hostile owner could lead the session to a table.
fn known_to_hold(table: Oid) -> Option<bool> {
    let id = slot::find(process::database().into(), table.into())?;
    let pending = transaction::pending(id);
    let has_taken = slot::lock(id).is_none_or(|slot| slot.may_have(Status::Taken));
    if !has_taken && pending == Delta::default() {
        return Some(false);
    }
    // Other connections of the session can have taken tasks.
    if session::outlives_connection() {
        return None;
    }
    Some(pending.leases.held.applied_to(held::count_in(id)?) > 0)
}

/// Returns whether a look at the table shows tasks of the session. The look runs no code of the table's owner and
/// waits for no lock, because the queue can be a stranger's.
fn seems_to_hold(table: Oid, session: Uuid) -> Result<bool> {
    let seen =
        census::sight_of(table, privileges::may_update, |queue| census::holds(queue, session));
    let (code, reason) = match seen? {
        Sight::Seen(holds) => return Ok(holds),
        Sight::Busy => (PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE, census::BUSY),
        Sight::Hidden => (
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "its taken tasks cannot be read at present",
        ),
    };
    pass_over(table, code, reason);
    Ok(false)
}

/// Returns whether an error concerns the whole transaction rather than one queue.
fn concerns_caller(code: PgSqlErrorCode) -> bool {
    use PgSqlErrorCode::*;
    matches!(
        code,
        ERRCODE_QUERY_CANCELED
            | ERRCODE_T_R_SERIALIZATION_FAILURE
            | ERRCODE_T_R_DEADLOCK_DETECTED
            | ERRCODE_READ_ONLY_SQL_TRANSACTION
    )
}

/// Warns that a queue was passed over, unless its table has been dropped.
fn pass_over(table: Oid, code: PgSqlErrorCode, reason: &str) {
    if catalog::table_name(table).is_none() {
        return;
    }
    let name = queue::display_name(table);
    let literal = catalog::quote_literal(&name);
    Error::new(code, format!("give_back has passed over queue \"{name}\": {reason}"))
        .hint(format!(
            "SELECT xqueue.give_back({literal}); gives back the tasks of this queue only."
        ))
        .warn();
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
