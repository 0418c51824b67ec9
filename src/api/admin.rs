//! `peek`, `dig`, `plow`, `kick`, `switch`, `snatch`, `restart`, `delete`, `truncate`: what an
//! administrator does with tasks.

use super::argument::{self, Target};
use super::producer::not_enabled;
use super::settle::{self, named_keys};
use crate::error::{Error, Result};
use crate::model::change::Call as Kind;
use crate::model::status::Status;
use crate::pg::catalog;
use crate::pg::function::Call;
use crate::pg::relation::Lock;
use crate::pg::spi;
use crate::pg::spi::Rows;
use crate::registry::{Arguments, Queue, Statement};
use crate::statement::{Change, Form, Parameter, Verb};
use crate::{counting, sql_functions};
use pgrx::pg_sys::Datum;

sql_functions! {
    peek, pg_finfo_peek => peek_impl,
    dig, pg_finfo_dig => dig_impl,
    plow, pg_finfo_plow => plow_impl,
    kick, pg_finfo_kick => kick_impl,
    switch_task, pg_finfo_switch_task => switch_impl,
    snatch, pg_finfo_snatch => snatch_impl,
    restart, pg_finfo_restart => restart_impl,
    delete_task, pg_finfo_delete_task => delete_impl,
    truncate_queue, pg_finfo_truncate_queue => truncate_impl,
}

/// peek(queue, id anycompatible)
fn peek_impl(call: &Call) -> Result<Datum> {
    let target = Target::of(call)?;
    let queue = target.open(Lock::AccessShare)?;
    let output = target.output(call, &queue)?;
    let mut arguments = Arguments::default();
    for key in named_keys(call, &target, &queue)? {
        arguments.set_key(&key);
        spi::connect(|spi| {
            let rows = queue.run(spi, &Statement::Peek(target.form), &arguments);
            output.push_all(&rows, target.form);
        });
    }
    Ok(call.null())
}

/// dig(queue, id anycompatible, delay interval, ttl interval)
fn dig_impl(call: &Call) -> Result<Datum> {
    let delay = argument::interval(call, 2, "delay", false)?;
    let ttl = argument::interval(call, 3, "ttl", true)?;
    settle::run(call, Verb::Dig, |plan, queue| {
        require_buried(queue)?;
        plan.postpone(delay, ttl, queue)
    })
}

/// plow(queue, n integer, delay interval, ttl interval)
fn plow_impl(call: &Call) -> Result<Datum> {
    let target = Target::of(call)?;
    let count: Option<i32> = call.get(1);
    let delay = argument::interval(call, 2, "delay", false)?;
    let ttl = argument::interval(call, 3, "ttl", true)?;
    let queue = target.open(Lock::RowExclusive)?;
    let output = target.output(call, &queue)?;
    if delay.is_some() && !queue.features().delays() {
        return Err(not_enabled("delayed", &queue));
    }
    if ttl.is_some() && !queue.features().expires() {
        return Err(not_enabled("ttl", &queue));
    }
    plow(&queue, target.form, count, delay, ttl, |rows| {
        output.push_all(rows, target.form);
        Ok(())
    })?;
    Ok(call.null())
}

/// kick(queue, n integer)
fn kick_impl(call: &Call) -> Result<Datum> {
    let target = Target::of(call)?;
    let count: i32 = call.require(1, "n")?;
    let queue = target.open(Lock::RowExclusive)?;
    let kicked = plow(&queue, target.form, Some(count), None, None, |_| Ok(()))?;
    Ok(Datum::from(i32::try_from(kicked).unwrap_or(i32::MAX)))
}

/// Brings the `count` oldest buried tasks back, all without `count`.
fn plow(
    queue: &Queue,
    form: Form,
    count: Option<i32>,
    delay: Option<Datum>,
    ttl: Option<Datum>,
    deliver: impl FnMut(&Rows) -> Result<()>,
) -> Result<usize> {
    require_buried(queue)?;
    let count = count.unwrap_or(i32::MAX);
    if count < 0 {
        return Err(Error::invalid("n must not be negative").hint("Give the number of tasks."));
    }
    let mut arguments = Arguments::of(Parameter::Limit, Datum::from(count));
    arguments.set(Parameter::Skip, Datum::from(0i32));
    arguments.set_or_null(Parameter::Delay, delay);
    arguments.set_or_null(Parameter::Ttl, ttl);
    let change = Change::Plow { form, delay: delay.is_some(), ttl: ttl.is_some() };
    counting::run(queue, Kind::Kick, None, || {
        spi::connect(|spi| queue.change(spi, change, &arguments, deliver))
    })
}

/// switch(queue, id anycompatible, status text, delay interval)
fn switch_impl(call: &Call) -> Result<Datum> {
    let status: String = call.require(2, "status")?;
    let delay = argument::interval(call, 3, "delay", false)?;
    let target = Target::of(call)?;
    let to = wanted_status(&status, &*target.open(Lock::RowExclusive)?, delay.is_some())?;
    settle::run(call, Verb::Switch(to), |plan, _| {
        plan.give(delay, Parameter::Delay);
        Ok(())
    })
}

/// The state that a caller names, by letter, by word, or as the status column has it.
fn wanted_status(text: &str, queue: &Queue, has_delay: bool) -> Result<Status> {
    let options = &queue.definition.options;
    let by_label = Status::ALL.into_iter().find(|status| options.label(*status) == text);
    let Some(status) = by_label.or(Status::named(text)) else {
        return Err(Error::invalid(format!("\"{text}\" is no state of a task"))
            .hint("Give R, W, B, Z or D: ready, waiting, buried, zombie or done."));
    };
    if status == Status::Taken {
        return Err(Error::invalid("a task cannot be switched to taken")
            .hint("Switch it to R and take it."));
    }
    if !options.has_state(status) {
        let feature = match status {
            Status::Waiting => "delayed",
            Status::Buried => "buried",
            Status::Zombie => "zombie",
            _ => "keep",
        };
        return Err(not_enabled(feature, queue));
    }
    let has_time =
        has_delay || status == Status::Zombie && options.features.default_zombie().is_some();
    match status {
        Status::Waiting | Status::Zombie if !has_time => Err(Error::invalid(format!(
            "a task cannot be switched to {} without a delay",
            status.name()
        ))
        .hint("Say with delay how long it stays in that state.")),
        Status::Waiting | Status::Zombie => Ok(status),
        _ if has_delay => Err(Error::invalid(format!(
            "a delay means nothing for a task that is {}",
            status.name()
        ))
        .hint("Leave delay out, or switch to W or Z.")),
        _ => Ok(status),
    }
}

/// snatch(queue, id anycompatible, delay interval)
fn snatch_impl(call: &Call) -> Result<Datum> {
    let delay = argument::interval(call, 2, "delay", false)?;
    settle::run(call, Verb::Snatch, |plan, queue| plan.postpone(delay, None, queue))
}

/// restart(queue, id anycompatible, delay interval)
fn restart_impl(call: &Call) -> Result<Datum> {
    let delay = argument::interval(call, 2, "delay", false)?;
    settle::run(call, Verb::Restart, |plan, queue| plan.postpone(delay, None, queue))
}

/// delete(queue, id anycompatible)
fn delete_impl(call: &Call) -> Result<Datum> {
    settle::run(call, Verb::Delete, |_, _| Ok(()))
}

/// truncate(queue)
fn truncate_impl(call: &Call) -> Result<Datum> {
    let target = Target::of(call)?;
    // The lock that TRUNCATE takes, from the start: two who raise a weaker one block each other. Who
    // may not truncate is told so by the server.
    let lock = match catalog::may_truncate(target.table) {
        true => Lock::AccessExclusive,
        false => Lock::AccessShare,
    };
    let queue = target.open(lock)?;
    spi::connect(|spi| {
        spi.run(&format!("TRUNCATE TABLE {}", queue.name));
    });
    Ok(call.nothing())
}

fn require_buried(queue: &Queue) -> Result<()> {
    if queue.features().buries() { Ok(()) } else { Err(not_enabled("buried", queue)) }
}
