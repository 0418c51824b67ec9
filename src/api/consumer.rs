//! `take`, `next`, `ack`, `release`, `peek`, `identify`: what a consumer does.

use super::argument::{self, Key, Target};
use super::producer::not_enabled;
use crate::error::{Error, Result};
use crate::model::status::{Call as Kind, Status};
use crate::pg::function::{Call, Output};
use crate::pg::memory::Memory;
use crate::pg::relation::Lock;
use crate::pg::spi::{self, Rows};
use crate::pg::transaction::{self, Verdict};
use crate::pg::{process, types};
use crate::registry::{self, Queue, Statement};
use crate::statement::{Change, Form};
use crate::wait::{self, Deadline, Place};
use crate::{session, sql_functions, xact};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Datum;

sql_functions! {
    take, pg_finfo_take => take_impl,
    next_json, pg_finfo_next_json => next_json_impl,
    next_row, pg_finfo_next_row => next_row_impl,
    ack, pg_finfo_ack => ack_impl,
    release, pg_finfo_release => release_impl,
    peek, pg_finfo_peek => peek_impl,
    identify, pg_finfo_identify => identify_impl,
}

/// take(queue, timeout interval, count integer)
fn take_impl(call: &Call) -> Result<Datum> {
    let target = Target::of(call)?;
    let (_, timeout) =
        argument::duration(call, 1, "timeout")?.ok_or_else(|| Error::null("timeout"))?;
    let count: i32 = call.require(2, "count")?;
    if count < 1 {
        return Err(
            Error::invalid("count must be at least 1").hint("Leave it out to take one task.")
        );
    }
    let output = Output::open(call);
    let deliver = |rows: &Rows, queue: &Queue| {
        if target.form == Form::Row {
            output.expects(&queue.row_columns, &queue.name)?;
        }
        output.push_all(rows, target.form);
        Ok(())
    };
    if timeout == 0 {
        take_now(&target, count, deliver)?;
        return Ok(call.null());
    }
    refuse_fixed_snapshot()?;
    // A subtransaction that finds nothing is undone: who waits holds no lock.
    let look = || {
        let mut outcome = Ok(0);
        transaction::in_subtransaction(|| {
            outcome = take_now(&target, count, deliver);
            if matches!(outcome, Ok(0)) { Verdict::Undo } else { Verdict::Keep(()) }
        });
        outcome
    };
    if look()? > 0 {
        return Ok(call.null());
    }
    let deadline = Deadline::after(Some(timeout));
    let (slot, name) = line_of(&target)?;
    let place = Place::join(slot, &name)?;
    loop {
        match look() {
            Ok(0) => {}
            Ok(_) => break place.succeed(),
            Err(error) => return Err(gone_or(error, &target, &name)),
        }
        if !place.sleep(deadline, &name)? {
            break;
        }
    }
    Ok(call.null())
}

/// CALL next(queue text, timeout interval, INOUT task jsonb)
fn next_json_impl(call: &Call) -> Result<Datum> {
    next(call, call.datum(2))
}

/// CALL next(INOUT task anyelement, timeout interval)
fn next_row_impl(call: &Call) -> Result<Datum> {
    next(call, call.datum(0))
}

/// Acks `task`, if one is given, and takes the next one. While it waits there is a transaction, as
/// there always is, but it has done nothing: no snapshot, no lock.
fn next(call: &Call, task: Option<Datum>) -> Result<Datum> {
    let target = Target::of(call)?;
    let timeout = argument::duration(call, 1, "timeout")?.map(|(_, length)| length);
    if call.is_atomic() {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_INVALID_TRANSACTION_TERMINATION,
            "next cannot run inside a transaction",
        )
        .hint("CALL it outside of BEGIN … COMMIT and of functions, or use take and ack there."));
    }
    let result = Memory::current();
    let mut taken = None;
    let look = |taken: &mut Option<Datum>| {
        take_now(&target, 1, |rows, _| {
            *taken = rows.datum(0, 1).map(|value| result.run(|| types::copy_varlena(value)));
            Ok(())
        })
    };
    let deadline = Deadline::after(timeout);
    spi::connect_nonatomic(|spi| -> Result<()> {
        if let Some(task) = task {
            let queue = target.open(Lock::RowExclusive)?;
            let key = match target.form {
                Form::Json => argument::key_of_object(task, &queue)?,
                Form::Row => argument::key_of_row(task, &queue)?,
            };
            settle(&queue, target.form, &[key], Settlement::Ack, |_| Ok(()))?;
        }
        if look(&mut taken)? > 0 {
            spi.commit();
            return Ok(());
        }
        let (slot, name) = line_of(&target)?;
        spi.commit();
        let place = Place::join(slot, &name)?;
        loop {
            match look(&mut taken) {
                Ok(0) => place.over_transaction_end(|| spi.rollback()),
                Ok(_) => {
                    spi.commit();
                    place.succeed();
                    return Ok(());
                }
                Err(error) => return Err(gone_or(error, &target, &name)),
            }
            if !place.sleep(deadline, &name)? {
                return Ok(());
            }
        }
    })?;
    Ok(call.record(taken))
}

/// ack(queue, id anycompatible)
fn ack_impl(call: &Call) -> Result<Datum> {
    settle_call(call, Settlement::Ack)
}

/// release(queue, id anycompatible, delay interval)
fn release_impl(call: &Call) -> Result<Datum> {
    let delay = argument::duration(call, 2, "delay")?.filter(|(_, length)| *length > 0);
    settle_call(
        call,
        Settlement::Release(delay.map(|(interval, _)| types::from_interval(interval))),
    )
}

/// peek(queue, id anycompatible)
fn peek_impl(call: &Call) -> Result<Datum> {
    let target = Target::of(call)?;
    let queue = target.open(Lock::AccessShare)?;
    let output = Output::open(call);
    if target.form == Form::Row {
        output.expects(&queue.row_columns, &queue.name)?;
    }
    for key in named_keys(call, &target, &queue)? {
        spi::connect(|spi| {
            let plan = queue.plan(spi, Statement::Peek(target.form));
            let arguments: Vec<_> = key.into_iter().map(Some).collect();
            output.push_all(&spi.run_plan(&plan, &arguments), target.form);
        });
    }
    Ok(call.null())
}

/// identify()
fn identify_impl(_: &Call) -> Result<Datum> {
    session::require_loaded()?;
    Ok(types::from_uuid(session::current()))
}

/// Takes what is ready now, up to `count` tasks.
fn take_now(
    target: &Target,
    count: i32,
    mut deliver: impl FnMut(&Rows, &Queue) -> Result<()>,
) -> Result<usize> {
    let queue = target.open(Lock::RowExclusive)?;
    let session = types::from_uuid(session::current());
    spi::connect(|spi| {
        let pick = [Some(Datum::from(count)), Some(Datum::from(0i32))];
        let taken =
            queue.change(spi, Change::Take(target.form), &[Some(session)], &pick, |rows| {
                deliver(rows, &queue)
            })?;
        if taken > 0 {
            xact::note(queue.slot, |delta| {
                delta.taken += taken as u32;
                delta.call(Kind::Take, taken);
            });
        }
        Ok(taken)
    })
}

/// What a consumer does with a task that it has taken.
enum Settlement {
    Ack,
    Release(Option<Datum>),
}

fn settle_call(call: &Call, settlement: Settlement) -> Result<Datum> {
    let target = Target::of(call)?;
    let queue = target.open(Lock::RowExclusive)?;
    if matches!(settlement, Settlement::Release(Some(_))) && !queue.is_delayed() {
        return Err(not_enabled("delayed", &queue));
    }
    let output = Output::open(call);
    if target.form == Form::Row {
        output.expects(&queue.row_columns, &queue.name)?;
    }
    let keys = named_keys(call, &target, &queue)?;
    settle(&queue, target.form, &keys, settlement, |rows| {
        output.push_all(rows, target.form);
        Ok(())
    })?;
    Ok(call.null())
}

/// The keys that a call names: by its argument `id`, or else by the row in the queue's place.
fn named_keys(call: &Call, target: &Target, queue: &Queue) -> Result<Vec<Key>> {
    match (call.datum(1), target.row) {
        (None, Some(row)) => Ok(vec![argument::key_of_row(row, queue)?]),
        _ => argument::keys(call, 1, queue),
    }
}

fn settle(
    queue: &Queue,
    form: Form,
    keys: &[Key],
    settlement: Settlement,
    mut deliver: impl FnMut(&Rows) -> Result<()>,
) -> Result<()> {
    let (kind, statement, delay) = match settlement {
        Settlement::Ack => (Kind::Ack, Statement::Ack(form), None),
        Settlement::Release(None) => (Kind::Release, Statement::Release(form), None),
        Settlement::Release(delay) => (Kind::Release, Statement::ReleaseDelayed(form), delay),
    };
    let session = types::from_uuid(session::current());
    spi::connect(|spi| {
        let plan = queue.plan(spi, statement);
        for key in keys {
            let mut arguments = vec![Some(session)];
            arguments.extend(key.iter().copied().map(Some));
            arguments.extend(delay.map(Some));
            let rows = spi.run_plan(&plan, &arguments);
            if rows.is_empty() {
                return Err(not_mine(spi, queue, key));
            }
            deliver(&rows)?;
        }
        Ok(())
    })?;
    xact::note(queue.slot, |delta| delta.call(kind, keys.len()));
    Ok(())
}

/// Why a task could not be acked or released, in the article's words.
fn not_mine(spi: &spi::Spi, queue: &Queue, key: &Key) -> Error {
    let task = argument::key_text(key, queue);
    let arguments: Vec<_> = key.iter().copied().map(Some).collect();
    let rows = spi.run_plan(&queue.plan(spi, Statement::Holder), &arguments);
    let detail = format!("Queue \"{}\".", queue.name);
    if rows.is_empty() {
        return Error::new(
            PgSqlErrorCode::ERRCODE_NO_DATA_FOUND,
            format!("task {task} was not found"),
        )
        .detail(detail)
        .hint("It has been acked or deleted, or was never put.");
    }
    let taken = queue.definition.options.label(Status::Taken);
    if rows.text(0, 1).is_none_or(|status| status.trim_end() != taken) {
        return Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("task {task} is not taken by anybody"),
        )
        .detail(detail)
        .hint("Take it first; a task that was taken is given back when its session ends.");
    }
    match rows.datum(0, 2).map(types::uuid) {
        Some(owner) if Some(owner) != session::current_if_any() => Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_IN_USE,
            format!(
                "task {task} is taken by {}, not by you ({})",
                session::pid(owner),
                process::pid()
            ),
        )
        .detail(detail)
        .hint("Only the connection that took a task may ack or release it."),
        None => Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("task {task} is taken, but by no session"),
        )
        .detail(detail)
        .hint("Its status was set by hand; set it back to ready by hand."),
        Some(_) => Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("task {task} was left unchanged"),
        )
        .detail(detail)
        .hint("A trigger or a row security policy of the table has kept it."),
    }
}

/// Where consumers of this queue stand in line, and its name.
fn line_of(target: &Target) -> Result<(crate::delta::SlotId, String)> {
    let mut line = Err(wait::gone(&registry::display_name(target.table)));
    transaction::in_subtransaction(|| {
        line = target.open(Lock::AccessShare).map(|queue| (queue.slot, queue.name.clone()));
        Verdict::<()>::Undo
    });
    line
}

/// An error of a later look, told as what it is when the queue is gone.
fn gone_or(error: Error, target: &Target, name: &str) -> Error {
    match registry::read(target.table) {
        Ok(None) => wait::gone(name),
        _ => error,
    }
}

fn refuse_fixed_snapshot() -> Result<()> {
    if !transaction::has_fixed_snapshot() {
        return Ok(());
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
        "cannot wait for a task in a transaction of isolation level repeatable read or higher",
    )
    .detail("It would not see a task that is put after its snapshot.")
    .hint("Use read committed, or a timeout of zero."))
}
