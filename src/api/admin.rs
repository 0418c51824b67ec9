//! `dig`, `plow`, `kick`, `switch`, `snatch`, `release_all`, `restart`, `delete`, `truncate`: what
//! an administrator does with tasks; `pause`, `resume`: with a queue.

use crate::api::argument::{self, Target, refuse_read_only, require_owner};
use crate::api::features::not_enabled;
use crate::api::look::named_status;
use crate::api::settle;
use crate::error::{Error, Result};
use crate::model::change::Call as Kind;
use crate::model::form::Form;
use crate::model::position::Group;
use crate::model::status::Status;
use crate::queue::{self, Arguments, Queue, census};
use crate::server::function::Call;
use crate::server::relation::{self, Lock};
use crate::server::spi::{self, Rows};
use crate::server::value::Value;
use crate::server::{privileges, user};
use crate::statement::{Change, Parameter, Verb};
use crate::write::{counting, start};
use crate::{sql_functions, transaction};

sql_functions! {
    dig, pg_finfo_dig => dig_impl,
    plow, pg_finfo_plow => plow_impl,
    kick, pg_finfo_kick => kick_impl,
    switch_task, pg_finfo_switch_task => switch_impl,
    snatch, pg_finfo_snatch => snatch_impl,
    release_all, pg_finfo_release_all => release_all_impl,
    restart, pg_finfo_restart => restart_impl,
    delete_task, pg_finfo_delete_task => delete_impl,
    pause_queue, pg_finfo_pause_queue => pause_impl,
    resume_queue, pg_finfo_resume_queue => resume_impl,
    truncate_queue, pg_finfo_truncate_queue => truncate_impl,
}

/// dig(queue, id anycompatible, delay interval, ttl interval)
fn dig_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let delay = argument::interval(call, 2, "delay", false)?;
    let ttl = argument::interval(call, 3, "ttl", true)?;
    settle::run(call, Verb::Dig, |plan, queue| {
        require_buried(queue)?;
        plan.postpone(delay, ttl, queue)
    })
}

/// plow(queue, n integer, delay interval, ttl interval)
fn plow_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let target = Target::of(call)?;
    let count = call.int4(1);
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
    Ok(None)
}

/// kick(queue, n integer)
fn kick_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let target = Target::of(call)?;
    let count = call.int4(1).ok_or_else(|| Error::null("n"))?;
    let queue = target.open(Lock::RowExclusive)?;
    let kicked = plow(&queue, target.form, Some(count), None, None, |_| Ok(()))?;
    Ok(number_of(kicked))
}

/// Brings the first `count` buried tasks back, in the order of takes; all without `count`.
fn plow(
    queue: &Queue,
    form: Form,
    count: Option<i32>,
    delay: Option<Value>,
    ttl: Option<Value>,
    deliver: impl FnMut(&Rows) -> Result<()>,
) -> Result<usize> {
    require_buried(queue)?;
    let count = count.unwrap_or(i32::MAX);
    if count < 0 {
        return Err(Error::invalid("n must not be negative").hint("Give the number of tasks."));
    }
    let mut arguments = Arguments::of(Parameter::Limit, Value::int4(count));
    arguments.set(Parameter::Skip, Value::int4(0));
    arguments.set_or_null(Parameter::Delay, delay);
    arguments.set_or_null(Parameter::Ttl, ttl);
    let marked = start::start(queue, Group::Buried, &mut arguments, count as u32);
    let (delay, ttl) = (delay.is_some(), ttl.is_some());
    let change = Change::Plow { form, delay, ttl, marked };
    counting::run(queue, Kind::Kick, None, || {
        spi::connect(|spi| queue.change(spi, change, &arguments, deliver))
    })
}

/// switch(queue, id anycompatible, status text, delay interval)
fn switch_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let status = call.require(2, "status")?.to_text();
    let delay = argument::interval(call, 3, "delay", false)?;
    let target = Target::of(call)?;
    let to = wanted_status(&status, &*target.open(Lock::RowExclusive)?, delay.is_some())?;
    settle::run(call, Verb::Switch(to), |plan, _| {
        plan.give(delay, Parameter::Delay);
        Ok(())
    })
}

/// The state that a caller wants a task to come to.
fn wanted_status(text: &str, queue: &Queue, has_delay: bool) -> Result<Status> {
    let options = &queue.definition.options;
    let status = named_status(text, queue)?;
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
fn snatch_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let delay = argument::interval(call, 2, "delay", false)?;
    settle::run(call, Verb::Snatch, |plan, queue| plan.postpone(delay, None, queue))
}

/// release_all(queue)
fn release_all_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let target = Target::of(call)?;
    let queue = target.open(Lock::RowExclusive)?;
    let mut arguments = Arguments::of(Parameter::Limit, Value::int4(i32::MAX));
    arguments.set(Parameter::Skip, Value::int4(0));
    let released = counting::run(&queue, Kind::Snatch, None, || {
        spi::connect(|spi| queue.change(spi, Change::SnatchAll, &arguments, |_| Ok(())))
    })?;
    Ok(number_of(released))
}

/// restart(queue, id anycompatible, delay interval)
fn restart_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let delay = argument::interval(call, 2, "delay", false)?;
    settle::run(call, Verb::Restart, |plan, queue| plan.postpone(delay, None, queue))
}

/// delete(queue, id anycompatible)
fn delete_impl(call: &Call) -> Result<Option<Value<'_>>> {
    settle::run(call, Verb::Delete, |_, _| Ok(()))
}

/// pause(queue, duration interval)
fn pause_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let target = Target::of(call)?;
    let duration = argument::interval(call, 1, "duration", true)?;
    redefine(&target, true, || queue::pause(target.table, duration))
}

/// resume(queue)
fn resume_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let target = Target::of(call)?;
    redefine(&target, false, || queue::resume(target.table))
}

/// Writes into the registry that a queue is paused, or is not. Those who take are not kept waiting:
/// no lock on the table tells them, but the server's word that its definition has changed.
fn redefine<'to>(
    target: &Target,
    is_paused: bool,
    write: impl FnOnce() -> Result<()>,
) -> Result<Option<Value<'to>>> {
    require_owner(target.table)?;
    refuse_read_only(|| queue::display_name(target.table))?;
    let queue = target.open(Lock::AccessShare)?;
    // While the lock was waited for the table may have got another owner.
    require_owner(target.table)?;
    relation::invalidate(target.table);
    write()?;
    transaction::note(queue.slot, |delta| delta.paused = Some(is_paused));
    Ok(Some(Value::void()))
}

/// truncate(queue)
fn truncate_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let target = Target::of(call)?;
    // The lock that TRUNCATE takes, from the start: two who raise a weaker one block each other. Who
    // may not truncate is told so by the server.
    let lock = match privileges::may_truncate(target.table) {
        true => Lock::AccessExclusive,
        false => Lock::AccessShare,
    };
    let queue = target.open(lock)?;
    // The triggers of a table whose owner the caller may act as are not to run with the rights of a superuser. Others
    // truncate with their own, as by TRUNCATE.
    let owner = census::table(&queue)?.owner();
    let acts_for_owner = privileges::owns(target.table) && privileges::may_truncate(target.table);
    let _role = acts_for_owner.then(|| user::act_as_owner(owner));
    spi::connect(|spi| {
        spi.run(&format!("TRUNCATE TABLE {}", queue.name));
    });
    Ok(Some(Value::void()))
}

/// A number of tasks as an integer of SQL.
fn number_of<'to>(tasks: usize) -> Option<Value<'to>> {
    Some(Value::int4(i32::try_from(tasks).unwrap_or(i32::MAX)))
}

fn require_buried(queue: &Queue) -> Result<()> {
    if queue.features().buries() { Ok(()) } else { Err(not_enabled("buried", queue)) }
}
