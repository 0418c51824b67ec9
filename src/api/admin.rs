//! SQL functions for administrators: on tasks (`dig`, `plow`, `kick`, `switch`, `snatch`, `release_all`, `restart`,
//! `delete`, `truncate`) and on a queue (`pause`, `resume`).

use crate::api::argument::{self, Target, number_of, refuse_read_only, require_owner};
use crate::api::features::not_enabled;
use crate::api::look::named_status;
use crate::api::settle;
use crate::error::{Error, Result};
use crate::queue::{self, Arguments, Queue, census};
use crate::server::function::Call;
use crate::server::relation::{self, LockMode};
use crate::server::spi::{self, Rows};
use crate::server::value::Value;
use crate::server::{privileges, user};
use crate::write::passed::many;
use crate::write::start;
use crate::{sql_functions, transaction};
use xqueue_core::change::CallKind;
use xqueue_core::position::Group;
use xqueue_core::statement::{Change, Parameter, Verb};
use xqueue_core::status::Status;

sql_functions! {
    "dig" as dig, pg_finfo_dig(
        queue: queue, id: key = [NULL], delay: interval = NULL, ttl: interval = NULL,
    ) -> [tasks] => dig_impl;
    "plow" as plow, pg_finfo_plow(
        queue: queue, n: integer = NULL, delay: interval = NULL, ttl: interval = NULL,
    ) -> [tasks] => plow_impl;
    "kick" as kick, pg_finfo_kick(queue: queue, n: integer) -> integer => kick_impl;
    "switch" as switch_task, pg_finfo_switch_task(
        queue: queue, id: key = [NULL], status: text = [NULL], delay: interval = NULL,
    ) -> [tasks] => switch_impl;
    "snatch" as snatch, pg_finfo_snatch(
        queue: queue, id: key = [NULL], delay: interval = NULL,
    ) -> [tasks] => snatch_impl;
    "release_all" as release_all, pg_finfo_release_all(queue: queue) -> integer => release_all_impl;
    "restart" as restart, pg_finfo_restart(
        queue: queue, id: key = [NULL], delay: interval = NULL,
    ) -> [tasks] => restart_impl;
    "delete" as delete_task, pg_finfo_delete_task(queue: queue, id: key = [NULL]) -> [tasks]
        => delete_impl;
    "pause" as pause_queue, pg_finfo_pause_queue(
        queue: queue, duration: interval = NULL,
    ) -> boolean => pause_impl;
    "resume" as resume_queue, pg_finfo_resume_queue(queue: queue) -> boolean => resume_impl;
    "truncate" as truncate_queue, pg_finfo_truncate_queue(queue: queue) -> boolean => truncate_impl;
}

fn dig_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let delay = argument::interval(call, arg::dig::delay, false)?;
    let ttl = argument::interval(call, arg::dig::ttl, true)?;
    settle::run(call, Verb::Dig, (arg::dig::queue, arg::dig::id), |plan, queue| {
        require_buried(queue)?;
        plan.postpone(delay, ttl, queue)
    })
}

fn plow_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let target = Target::of(call, arg::plow::queue)?;
    let count = call.get(arg::plow::n);
    let delay = argument::interval(call, arg::plow::delay, false)?;
    let ttl = argument::interval(call, arg::plow::ttl, true)?;
    let queue = target.open(LockMode::RowExclusive)?;
    let output = target.output(call, &queue)?;
    if delay.is_some() && !queue.features().delays() {
        return Err(not_enabled("delayed", &queue));
    }
    if ttl.is_some() && !queue.features().expires() {
        return Err(not_enabled("ttl", &queue));
    }
    plow(&queue, count, delay, ttl, |rows| {
        queue.show(&output, rows, target.form);
        Ok(())
    })?;
    Ok(None)
}

fn kick_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let target = Target::of(call, arg::kick::queue)?;
    let count = call.require(arg::kick::n)?;
    let queue = target.open(LockMode::RowExclusive)?;
    let kicked = plow(&queue, Some(count), None, None, |_| Ok(()))?;
    Ok(number_of(kicked))
}

/// Brings back the first `count` buried tasks in take order; all of them if `count` is None.
fn plow(
    queue: &Queue,
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
    let change = Change::Plow { delay, ttl, marked };
    many::change(queue, CallKind::Kick, change, &arguments, deliver)
}

fn switch_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let status = call.require(arg::switch_task::status)?;
    let delay = argument::interval(call, arg::switch_task::delay, false)?;
    let target = Target::of(call, arg::switch_task::queue)?;
    let to = wanted_status(&status, &*target.open(LockMode::RowExclusive)?, delay.is_some())?;
    settle::run(
        call,
        Verb::Switch(to),
        (arg::switch_task::queue, arg::switch_task::id),
        |plan, _| {
            plan.give(delay, settle::StepOption::Delay);
            Ok(())
        },
    )
}

/// Parses the target state of `switch`; refuses states the queue does not have and a missing or pointless delay.
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
            Status::Done => "keep",
            // Every queue has these states.
            Status::Ready | Status::Taken => return Ok(status),
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
        Status::Ready | Status::Taken | Status::Buried | Status::Done if has_delay => Err(
            Error::invalid(format!("a delay means nothing for a task that is {}", status.name()))
                .hint("Leave delay out, or switch to W or Z."),
        ),
        Status::Ready | Status::Taken | Status::Buried | Status::Done => Ok(status),
    }
}

fn snatch_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let delay = argument::interval(call, arg::snatch::delay, false)?;
    settle::run(call, Verb::Snatch, (arg::snatch::queue, arg::snatch::id), |plan, queue| {
        plan.postpone(delay, None, queue)
    })
}

fn release_all_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let target = Target::of(call, arg::release_all::queue)?;
    let queue = target.open(LockMode::RowExclusive)?;
    let mut arguments = Arguments::of(Parameter::Limit, Value::int4(i32::MAX));
    arguments.set(Parameter::Skip, Value::int4(0));
    let released =
        many::change(&queue, CallKind::Snatch, Change::SnatchAll, &arguments, |_| Ok(()))?;
    Ok(number_of(released))
}

fn restart_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let delay = argument::interval(call, arg::restart::delay, false)?;
    settle::run(call, Verb::Restart, (arg::restart::queue, arg::restart::id), |plan, queue| {
        plan.postpone(delay, None, queue)
    })
}

fn delete_impl(call: &Call) -> Result<Option<Value<'_>>> {
    settle::run(call, Verb::Delete, (arg::delete_task::queue, arg::delete_task::id), |_, _| Ok(()))
}

fn pause_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let target = Target::of(call, arg::pause_queue::queue)?;
    let duration = argument::interval(call, arg::pause_queue::duration, true)?;
    redefine(&target, true, || queue::pause(target.table, duration))
}

fn resume_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let target = Target::of(call, arg::resume_queue::queue)?;
    redefine(&target, false, || queue::resume(target.table))
}

/// Writes to the registry whether a queue is paused. Takes do not wait for it: they learn of the new definition from a
/// relcache invalidation, not from a lock on the table. The lock shows the worker that a prepared transaction is open.
fn redefine<'to>(
    target: &Target,
    is_paused: bool,
    write: impl FnOnce() -> Result<()>,
) -> Result<Option<Value<'to>>> {
    require_owner(target.table)?;
    refuse_read_only(|| queue::display_name(target.table))?;
    let queue = target.open(LockMode::RowExclusive)?;
    // The table can have changed owner during the wait for the lock.
    require_owner(target.table)?;
    relation::invalidate(target.table);
    write()?;
    transaction::note(queue.slot, |delta| delta.table.paused = Some(is_paused));
    Ok(Some(Value::boolean(true)))
}

fn truncate_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let target = Target::of(call, arg::truncate_queue::queue)?;
    if !privileges::may_truncate(target.table) {
        let name = queue::display_name(target.table);
        let hint = format!("GRANT TRUNCATE ON {name} lets a role delete all tasks at once.");
        return Err(Error::permission_denied(&name).hint(hint));
    }
    // Takes TRUNCATE's own lock immediately: two transactions that upgrade a weaker lock deadlock.
    let queue = target.open(LockMode::AccessExclusive)?;
    // If the caller is allowed to act as the owner, the table's triggers run with the owner's rights, not a
    // superuser's. Other callers keep their own rights, like in a TRUNCATE.
    let owner = census::table(&queue)?.owner();
    let acts_for_owner = privileges::owns(target.table);
    let _role = acts_for_owner.then(|| user::act_as_owner(owner));
    spi::connect(|spi| {
        spi.run(&format!("TRUNCATE TABLE ONLY {}", queue.name));
    });
    Ok(Some(Value::boolean(true)))
}

fn require_buried(queue: &Queue) -> Result<()> {
    if queue.features().buries() { Ok(()) } else { Err(not_enabled("buried", queue)) }
}
