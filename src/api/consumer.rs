//! `take` and `next`: consumers take tasks.

use crate::api::argument::{self, Target};
use crate::api::features::{not_enabled, tube_value};
use crate::api::named;
use crate::api::settle::Plan;
use crate::api::waiting::{ConsumerWait, Try, refuse_fixed_snapshot};
use crate::error::{Error, Result};
use crate::parts::leases::session;
use crate::parts::waiters::wait::{Deadline, NoTask, WaitEntry};
use crate::queue::{Arguments, Queue};
use crate::server::argument::{Argument, sql_type};
use crate::server::function::{Call, Output};
use crate::server::jsonb::{self, Shape};
use crate::server::memory::Memory;
use crate::server::relation::LockMode;
use crate::server::spi::{self, Rows};
use crate::server::value::Value;
use crate::server::xact::{self, Verdict};
use crate::sql_functions;
use crate::write::counting;
use crate::write::passed::Passed;
use crate::write::subqueues::Take;
use crate::write::{direct, start};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Interval;
use xqueue_core::change::CallKind;
use xqueue_core::form::Form;
use xqueue_core::statement::{Change, Parameter, Verb};

sql_functions! {
    "take" as take, pg_finfo_take(
        queue: queue, timeout: interval = "0", count: integer = 1, tube: text = NULL,
        ttr: interval = NULL, done: key = NULL, id: key = NULL,
    ) -> [tasks] => take_impl;
    "next" as next_json, pg_finfo_next_json(
        queue: text, timeout: interval = NULL, tube: text = NULL, &mut task: jsonb = NULL,
        count: integer = 1,
    ) => next_json_impl;
    "next" as next_row, pg_finfo_next_row(
        &mut task: row, timeout: interval = NULL, tube: text = NULL,
    ) => next_row_impl;
}

fn take_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let target = Target::of(call, arg::take::queue)?;
    let (_, timeout) =
        argument::duration(call, arg::take::timeout)?.ok_or_else(|| Error::null("timeout"))?;
    let count = wanted(call, arg::take::count)?;
    let ttr = argument::interval(call, arg::take::ttr, true)?;
    let mut order = Order { count, tube: call.get(arg::take::tube), ttr, waits: false };
    let output = Output::open(call);
    let is_named = call.value(arg::take::id).is_some();
    if is_named && (timeout > 0 || count > 1) {
        let argument = if timeout > 0 { "timeout" } else { "count" };
        return Err(Error::invalid(format!("a take of given tasks has no {argument}")).hint(
            "Leave it out: those of them that can be taken now are taken, an array of ids is a batch.",
        ));
    }
    let deliver = |rows: &Rows, queue: &Queue| {
        if target.form == Form::Row {
            output.expects(&queue.row_columns, &queue.name)?;
        }
        queue.show(&output, rows, target.form);
        Ok(())
    };
    let has_acked = call.value(arg::take::done).is_some() && ack_done(call, &target)?;
    if is_named {
        take_named(call, &target, &order, deliver)?;
        return Ok(None);
    }
    // An ack must be committed before the call can wait.
    if timeout == 0 || has_acked {
        take_now(&target, &order, deliver)?;
        return Ok(None);
    }
    refuse_fixed_snapshot("a task")?;
    // A take that finds no task is rolled back, so that the call holds no lock while it waits.
    let look = |order: &Order| {
        let mut outcome = Ok(Try::NoTask(NoTask::default()));
        xact::in_subtransaction(|| {
            outcome = take_now(&target, order, deliver);
            if matches!(outcome, Ok(Try::Taken)) { Verdict::Keep(()) } else { Verdict::Undo }
        });
        outcome
    };
    if look(&order)? == Try::Taken {
        return Ok(None);
    }
    let deadline = Deadline::after(Some(timeout));
    let waiting = ConsumerWait::of(&target, order.tube.as_deref())?;
    order.waits = true;
    waiting.wait(&target, order.tube.as_deref(), deadline, || look(&order), |_| {})?;
    Ok(None)
}

/// Acks the tasks named by argument `done`; returns false if it names no task.
fn ack_done(call: &Call, target: &Target) -> Result<bool> {
    let queue = target.open(LockMode::RowExclusive)?;
    let keys = argument::keys(call, arg::take::done, &queue)?;
    Plan::new(Verb::Ack)?.settle(&queue, &keys, |_| Ok(()))?;
    Ok(!keys.is_empty())
}

fn next_json_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let count = wanted(call, arg::next_json::count)?;
    let target = Target::of(call, arg::next_json::queue)?;
    let timeout = argument::duration(call, arg::next_json::timeout)?;
    let task = call.value(arg::next_json::task);
    next(call, &target, task, timeout, (call.get(arg::next_json::tube), count))
}

fn next_row_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let target = Target::of(call, arg::next_row::task)?;
    let timeout = argument::duration(call, arg::next_row::timeout)?;
    next(call, &target, target.row, timeout, (call.get(arg::next_row::tube), 1))
}

/// Returns the number of tasks that a call wants; at least 1.
fn wanted(call: &Call, count: Argument<sql_type::integer>) -> Result<i32> {
    let count = call.require(count)?;
    if count < 1 {
        return Err(
            Error::invalid("count must be at least 1").hint("Leave it out to take one task.")
        );
    }
    Ok(count)
}

/// Acks `task`, which can be an array, and takes the next task, or the next `count` tasks as an array. While the call
/// waits, its transaction has no snapshot and no lock.
fn next<'call>(
    call: &'call Call,
    target: &Target,
    task: Option<Value>,
    timeout: Option<(Interval, i64)>,
    (tube, count): (Option<String>, i32),
) -> Result<Option<Value<'call>>> {
    let timeout = timeout.map(|(_, length)| length);
    if call.is_atomic() {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_INVALID_TRANSACTION_TERMINATION,
            "next cannot run inside a transaction",
        )
        .hint("CALL it outside of BEGIN … COMMIT and of functions, or use take and ack there."));
    }
    let mut order = Order { count, tube, ttr: None, waits: false };
    let result = Memory::current();
    let mut taken = Vec::new();
    let look = |order: &Order, taken: &mut Vec<Value<'call>>| {
        take_now(target, order, |rows, _| {
            let values = (0..rows.len()).filter_map(|row| rows.value(row, 1));
            taken.extend(values.map(|value| result.run(|| value.copied())));
            Ok(())
        })
    };
    let deadline = Deadline::after(timeout);
    spi::connect_nonatomic(|spi| -> Result<()> {
        if let Some(task) = task {
            let queue = target.open(LockMode::RowExclusive)?;
            let keys = match target.form {
                Form::Json if jsonb::shape(task) == Shape::Array => {
                    let tasks = jsonb::elements(task).into_iter();
                    tasks
                        .map(|task| argument::key_of_object(task, &queue))
                        .collect::<Result<_>>()?
                }
                Form::Json => vec![argument::key_of_object(task, &queue)?],
                Form::Row => vec![argument::key_of_row(task, &queue)?],
            };
            Plan::new(Verb::Ack)?.settle(&queue, &keys, |_| Ok(()))?;
        }
        let mut look = |order: &Order| {
            spi.ensure_snapshot();
            let seen = look(order, &mut taken)?;
            if seen == Try::Taken {
                spi.commit();
            }
            Ok(seen)
        };
        if look(&order)? == Try::Taken {
            return Ok(());
        }
        let tube = order.tube.clone();
        let waiting = ConsumerWait::of(target, tube.as_deref())?;
        spi.commit();
        order.waits = true;
        let end_look = |place: &WaitEntry| place.over_transaction_end(|| spi.rollback());
        waiting.wait(target, tube.as_deref(), deadline, || look(&order), end_look)
    })?;
    let first = taken.first().copied();
    let task = if count > 1 && first.is_some() { Some(jsonb::array(&taken)) } else { first };
    Ok(Some(call.record([task])))
}

/// A consumer's request.
struct Order<'call> {
    count: i32,
    tube: Option<String>,
    ttr: Option<Value<'call>>,
    /// The call has been waiting: features can have been switched off since.
    waits: bool,
}

impl<'call> Order<'call> {
    /// Returns the arguments of a take; refuses arguments whose features are off.
    fn arguments(&self, ttr: Option<Value<'call>>, queue: &Queue) -> Result<Arguments<'call>> {
        let mut arguments = Arguments::of(Parameter::Limit, Value::int4(self.count));
        arguments.set(Parameter::Skip, Value::int4(0));
        arguments.set(Parameter::Session, Value::uuid(session::current()?));
        if let Some(tube) = &self.tube {
            arguments.set(Parameter::Tube, tube_value(tube, queue)?);
        }
        if let Some(ttr) = ttr {
            if !queue.features().has_deadlines() {
                return Err(not_enabled("ttr", queue));
            }
            arguments.set(Parameter::Ttr, ttr);
        }
        Ok(arguments)
    }
}

impl Try {
    fn of(taken: usize, queue: &Queue) -> Try {
        let by_caller = queue.gives_by_caller();
        match taken {
            0 => Try::NoTask(NoTask { paused_until: None, by_caller }),
            _ => Try::Taken,
        }
    }

    fn paused(until: i64) -> Try {
        Try::NoTask(NoTask { paused_until: Some(until), by_caller: false })
    }
}

/// Takes the named tasks that can be taken now.
fn take_named(
    call: &Call,
    target: &Target,
    order: &Order,
    mut deliver: impl FnMut(&Rows, &Queue) -> Result<()>,
) -> Result<()> {
    let queue = target.open(LockMode::RowExclusive)?;
    let (tube, ttr) = (order.tube.is_some(), order.ttr.is_some());
    let change = Change::TakeNamed { tube, ttr, any: true };
    let arguments = order.arguments(order.ttr, &queue)?;
    let keys = argument::keys(call, arg::take::id, &queue)?;
    if queue.paused_until().is_some() {
        return Ok(());
    }
    let mut passed = Passed::none(&queue, target.form);
    if named::take(&queue, change, &arguments, keys, usize::MAX, &mut passed, &mut deliver)? == 0 {
        passed.insist(change, &arguments, deliver)?;
    }
    Ok(())
}

/// Takes ready tasks without waiting.
fn take_now(
    target: &Target,
    order: &Order,
    mut deliver: impl FnMut(&Rows, &Queue) -> Result<()>,
) -> Result<Try> {
    let queue = match order.waits {
        true => target.open_again(LockMode::RowExclusive)?,
        false => target.open(LockMode::RowExclusive)?,
    };
    let ttr = order.ttr.filter(|_| queue.features().has_deadlines() || !order.waits);
    if order.waits && order.tube.is_some() && queue.tube().is_none() {
        return Ok(Try::NoTask(NoTask::default()));
    }
    let mut arguments = order.arguments(ttr, &queue)?;
    if let Some(until) = queue.paused_until() {
        return Ok(Try::paused(until));
    }
    let (tube, ttr) = (order.tube.is_some(), ttr.is_some());
    let by_key = Change::TakeNamed { tube, ttr, any: false };
    let mut passed = Passed::none(&queue, target.form);
    if let Some(picker) = queue.features().picker() {
        let wanted = (order.count, order.tube.as_deref());
        let (passed, deliver) = (&mut passed, &mut deliver);
        let mut taken =
            named::take_picked(&queue, picker, by_key, &arguments, wanted, passed, deliver)?;
        if taken == 0 {
            taken = passed.insist(by_key, &arguments, deliver)?;
        }
        return Ok(Try::of(taken, &queue));
    }
    if queue.features().has_subqueues() {
        let tube = arguments.get(Parameter::Tube).zip(queue.tube());
        let subqueue = tube.map(|(value, column)| queue.tube_named(value, column).hash);
        let mut take = Take { queue: &queue, passed, ttr, arguments };
        let mut taken = counting::run(&queue, CallKind::Take, || {
            let count = order.count as usize;
            spi::connect(|spi| take.run(spi, count, subqueue, |rows| deliver(rows, &queue)))
        })?;
        if taken == 0 {
            taken = take.passed.insist(by_key, &take.arguments, deliver)?;
        }
        return Ok(Try::of(taken, &queue));
    }
    let (mut left, many) = (order.count, order.count > 1);
    for group in start::groups(&queue, &arguments) {
        let marked = start::start(&queue, group, &mut arguments, left as u32);
        arguments.set(Parameter::Limit, Value::int4(left));
        let within = start::within(group, &mut arguments);
        let change = Change::Take { within, ttr, marked, many };
        if let Some(taken) = direct::take(&queue, group, &arguments, left as usize, &mut passed)? {
            left -= taken.tasks.len() as i32;
            if !taken.tasks.is_empty() {
                deliver(&Rows::of(taken.tasks), &queue)?;
            }
            if left <= 0 {
                break;
            }
            if !taken.needs_statement {
                continue;
            }
            arguments.set(Parameter::Limit, Value::int4(left));
        }
        left -= passed.take(change, &arguments, &mut deliver)? as i32;
        if left <= 0 {
            break;
        }
    }
    if left == order.count {
        left -= passed.insist(by_key, &arguments, &mut deliver)? as i32;
    }
    Ok(Try::of((order.count - left) as usize, &queue))
}
