//! `ack`, `release`, `bury`, `touch`: settle or extend a consumer's tasks; and the general step with named tasks.

use crate::api::argument::{self, Key, Target};
use crate::api::features::not_enabled;
use crate::api::task_error::{self, FoundTask};
use crate::api::values::Values;
use crate::error::{Error, Result};
use crate::parts::leases::session;
use crate::queue::{Arguments, Queue, Statement};
use crate::server::argument::{Argument, sql_type};
use crate::server::context;
use crate::server::function::{Call, Output};
use crate::server::relation::LockMode;
use crate::server::spi::{self, Rows};
use crate::server::value::Value;
use crate::sql_functions;
use crate::write::counting;
use crate::write::{direct, unchanged};
use pgrx::PgSqlErrorCode;
use std::collections::HashSet;
use xqueue_core::change::CallKind;
use xqueue_core::statement::{Parameter, Step, Verb};
use xqueue_core::status::Status;

sql_functions! {
    "ack" as ack, pg_finfo_ack(
        queue: queue, id: key = [NULL], update: jsonb = NULL, delay: interval = NULL,
        attempt: integer = NULL, if_held: boolean = false,
    ) -> [tasks] => ack_impl;
    "release" as release, pg_finfo_release(
        queue: queue, id: key = [NULL], update: jsonb = NULL, delay: interval = NULL,
        ttl: interval = NULL, failed: boolean = true, error: text = NULL, if_held: boolean = false,
    ) -> [tasks] => release_impl;
    "bury" as bury, pg_finfo_bury(
        queue: queue, id: key = [NULL], update: jsonb = NULL, ttl: interval = NULL,
        if_held: boolean = false,
    ) -> [tasks] => bury_impl;
    "touch" as touch, pg_finfo_touch(
        queue: queue, id: key = [NULL], increment: interval = NULL, if_held: boolean = false,
    ) -> [tasks] => touch_impl;
}

fn ack_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let delay = argument::interval(call, arg::ack::delay, true)?;
    run(call, Verb::Ack, (arg::ack::queue, arg::ack::id), |plan, queue| {
        plan.if_held = call.get(arg::ack::if_held) == Some(true);
        if delay.is_some() && !queue.features().zombies() {
            return Err(not_enabled("zombie", queue));
        }
        plan.give(delay, StepOption::Delay);
        if let Some(attempt) = call.value(arg::ack::attempt) {
            if queue.features().tries().is_none() {
                return Err(not_enabled("retry", queue));
            }
            plan.give(Some(attempt), StepOption::Attempt);
        }
        if call.value(arg::ack::update).is_some() && queue.sql.ack_deletes(delay.is_some()) {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
                "an ack that deletes the task cannot update it",
            )
            .detail(format!("Queue \"{}\".", queue.name))
            .hint("Acked tasks stay with feature keep, or for a time with zombie."));
        }
        plan.update(call.value(arg::ack::update), queue)
    })
}

fn release_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let delay = argument::interval(call, arg::release::delay, false)?;
    let ttl = argument::interval(call, arg::release::ttl, true)?;
    // A delay of zero also overrides the delay between attempts.
    let at_once = delay.is_none() && call.value(arg::release::delay).is_some();
    run(call, Verb::Release, (arg::release::queue, arg::release::id), |plan, queue| {
        plan.if_held = call.get(arg::release::if_held) == Some(true);
        plan.step.at_once = at_once;
        plan.step.unused = call.get(arg::release::failed) == Some(false);
        let error = call.value(arg::release::error);
        if error.is_some() && queue.features().tries().is_none() {
            return Err(not_enabled("retry", queue));
        }
        plan.give(error, StepOption::Error);
        plan.postpone(delay, ttl, queue)?;
        plan.update(call.value(arg::release::update), queue)
    })
}

fn bury_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let ttl = argument::interval(call, arg::bury::ttl, true)?;
    run(call, Verb::Bury, (arg::bury::queue, arg::bury::id), |plan, queue| {
        plan.if_held = call.get(arg::bury::if_held) == Some(true);
        if !queue.features().buries() {
            return Err(not_enabled("buried", queue));
        }
        plan.postpone(None, ttl, queue)?;
        plan.update(call.value(arg::bury::update), queue)
    })
}

fn touch_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let Some(increment) = argument::interval(call, arg::touch::increment, false)? else {
        // Zero and NULL extend nothing.
        Output::open(call);
        return Ok(None);
    };
    run(call, Verb::Touch, (arg::touch::queue, arg::touch::id), |plan, queue| {
        plan.if_held = call.get(arg::touch::if_held) == Some(true);
        if !queue.features().has_deadlines() && !queue.features().expires() {
            return Err(not_enabled("ttr", queue));
        }
        plan.arguments.set(Parameter::Increment, increment);
        Ok(())
    })
}

/// An optional argument of a step.
#[derive(Clone, Copy)]
pub enum StepOption {
    Delay,
    Ttl,
    Attempt,
    Error,
}

/// A step with tasks, and the arguments of the call.
pub struct Plan<'m> {
    step: Step,
    arguments: Arguments<'m>,
    /// A task that this session does not hold is no error.
    if_held: bool,
}

impl<'m> Plan<'m> {
    pub fn new(verb: Verb) -> Result<Plan<'m>> {
        let mut arguments = Arguments::default();
        if verb.applies().own {
            arguments.set(Parameter::Session, Value::uuid(session::current()?));
        }
        Ok(Plan { step: Step::new(verb), arguments, if_held: false })
    }

    pub fn give(&mut self, value: Option<Value<'m>>, option: StepOption) {
        let Some(value) = value else { return };
        let (is_given, parameter) = match option {
            StepOption::Delay => (&mut self.step.delay, Parameter::Delay),
            StepOption::Ttl => (&mut self.step.ttl, Parameter::Ttl),
            StepOption::Attempt => (&mut self.step.attempt, Parameter::Attempt),
            StepOption::Error => (&mut self.step.error, Parameter::Error),
        };
        *is_given = true;
        self.arguments.set(parameter, value);
    }

    /// Sets a delay and a time to live; refuses each if its feature is off.
    pub fn postpone(
        &mut self,
        delay: Option<Value<'m>>,
        ttl: Option<Value<'m>>,
        queue: &Queue,
    ) -> Result<()> {
        if delay.is_some() && !queue.features().delays() {
            return Err(not_enabled("delayed", queue));
        }
        if ttl.is_some() && !queue.features().expires() {
            return Err(not_enabled("ttl", queue));
        }
        self.give(delay, StepOption::Delay);
        self.give(ttl, StepOption::Ttl);
        Ok(())
    }

    /// Sets columns in the same statement, given as a jsonb object.
    fn update(&mut self, update: Option<Value<'m>>, queue: &Queue) -> Result<()> {
        let Some(update) = update else { return Ok(()) };
        let values = Values::of(update, queue)?.ok_or_else(|| {
            Error::invalid("update must be a jsonb object")
                .hint("Give an object whose members are columns: {\"progress\": 50}.")
        })?;
        for column in values.columns() {
            let is_key = queue.is_key_column(column.number);
            if is_key || queue.is_own_column(column.number) {
                let why = if is_key { "it is part of the key" } else { "it belongs to the queue" };
                return Err(Error::invalid(format!(
                    "column \"{}\" of queue \"{}\" cannot be updated: {why}",
                    column.name, queue.name
                ))
                .hint("Leave it out of update."));
            }
        }
        context::hinted(|| hint(queue), || values.bind(&mut self.arguments))?;
        (self.step.update, self.step.plain) = (values.numbers(), values.is_plain());
        Ok(())
    }

    /// Applies the step to all the tasks; fails if one of them is not in the required state, unless `if_held` passes
    /// over it.
    pub fn settle(
        mut self,
        queue: &Queue,
        keys: &[Key<'m>],
        mut deliver: impl FnMut(&Rows) -> Result<()>,
    ) -> Result<()> {
        let keys = &keys[self.ack_directly(queue, keys, &mut deliver)?..];
        // A task named twice is settled twice.
        if keys.len() < 2 || !queue.has_simple_key || has_duplicates(keys, queue) {
            return keys.iter().try_for_each(|key| {
                self.arguments.set_key(key);
                self.settle_some(queue, std::slice::from_ref(key), &mut deliver)
            });
        }
        let base = queue.key[0].base;
        let keys_together = Value::array(keys.iter().flatten().copied(), base);
        self.arguments.set(Parameter::Keys, keys_together);
        self.step.many = true;
        self.settle_some(queue, keys, &mut deliver)
    }

    /// Acks the leading tasks on the direct path; returns their number.
    fn ack_directly(
        &self,
        queue: &Queue,
        keys: &[Key],
        deliver: &mut impl FnMut(&Rows) -> Result<()>,
    ) -> Result<usize> {
        let session = self.arguments.get(Parameter::Session).map(Value::to_uuid);
        let is_plain = self.deletes(queue) && !self.step.attempt;
        let Some(session) = session.filter(|_| is_plain) else { return Ok(0) };
        let rows = direct::ack(queue, keys, session);
        if !rows.is_empty() {
            deliver(&rows)?;
        }
        Ok(rows.len())
    }

    /// Returns whether the step is an ack that deletes the task.
    fn deletes(&self, queue: &Queue) -> bool {
        self.step.verb == Verb::Ack && queue.sql.ack_deletes(self.step.delay)
    }

    /// Refuses tasks whose state a trigger of the table has kept from changing.
    fn refuse_unchanged(&self, queue: &Queue, rows: &Rows) -> Result<()> {
        let verb = self.step.verb;
        let is_right = |status| match verb {
            // A waiting task can be delayed again.
            Verb::Restart if self.step.delay => !matches!(status, Status::Zombie | Status::Done),
            Verb::Switch(to) => status == to,
            _ => !verb.applies().states.include(status),
        };
        match verb {
            Verb::Touch | Verb::Delete => Ok(()),
            Verb::Ack if self.deletes(queue) => Ok(()),
            _ => unchanged::refuse(queue, rows, is_right),
        }
    }

    /// Applies the step to these tasks in one statement.
    fn settle_some(
        &mut self,
        queue: &Queue,
        keys: &[Key<'m>],
        deliver: &mut impl FnMut(&Rows) -> Result<()>,
    ) -> Result<()> {
        let verb = self.step.verb;
        let statement = Statement::Step(self.step.clone());
        let plain = self.step.plain;
        spi::connect(|spi| {
            counting::run(queue, kind(&self.step), || {
                let run = || queue.run(spi, &statement, &self.arguments);
                // Non-plain values are parsed within the statement, so its errors get the hint.
                let hinted = || context::hinted_of_arguments(|| hint(queue), run);
                let rows = if plain { run() } else { hinted() };
                for key in left_out(keys, &rows, queue) {
                    self.arguments.set_key(key);
                    let found = FoundTask::look_up(spi, queue, key, &self.arguments);
                    let attempt = self.arguments.get(Parameter::Attempt);
                    if !self.if_held || found.as_ref().is_some_and(|task| task.is_held(attempt)) {
                        return Err(task_error::explain(spi, queue, key, found, (verb, attempt)));
                    }
                }
                self.refuse_unchanged(queue, &rows)?;
                deliver(&rows)?;
                Ok(rows.len())
            })
        })?;
        Ok(())
    }
}

/// Returns the keys for which the statement found no task.
fn left_out<'keys, 'm>(keys: &'keys [Key<'m>], rows: &Rows, queue: &Queue) -> Vec<&'keys Key<'m>> {
    if rows.len() == keys.len() {
        return vec![];
    }
    let found = (0..rows.len()).map(|row| queue.key_hash([rows.value(row, 2)].into_iter()));
    let found: HashSet<u64> = found.collect();
    keys.iter().filter(|key| !found.contains(&hash(key, queue))).collect()
}

fn has_duplicates(keys: &[Key], queue: &Queue) -> bool {
    let distinct: HashSet<u64> = keys.iter().map(|key| hash(key, queue)).collect();
    distinct.len() < keys.len()
}

fn hash(key: &Key, queue: &Queue) -> u64 {
    queue.key_hash(key.iter().copied().map(Some))
}

fn hint(queue: &Queue) -> String {
    format!("Each member of update is a column of {} and has its type.", queue.name)
}

/// Runs a step for the tasks named by a call. `prepare` sets the call's arguments and refuses arguments whose features
/// are off.
pub fn run<'call>(
    call: &'call Call,
    verb: Verb,
    (queue, id): (Argument<sql_type::queue>, Argument<sql_type::key>),
    prepare: impl FnOnce(&mut Plan<'call>, &Queue) -> Result<()>,
) -> Result<Option<Value<'call>>> {
    let target = Target::of(call, queue)?;
    let queue = target.open(LockMode::RowExclusive)?;
    let output = target.output(call, &queue)?;
    let mut plan = Plan::new(verb)?;
    prepare(&mut plan, &queue)?;
    let keys = named_keys(call, id, &target, &queue)?;
    plan.settle(&queue, &keys, |rows| {
        queue.show(&output, rows, target.form);
        Ok(())
    })?;
    Ok(None)
}

/// Returns the keys named by a call: by an argument, or else by the row given as the queue.
pub fn named_keys<'call>(
    call: &'call Call,
    id: Argument<sql_type::key>,
    target: &Target,
    queue: &Queue,
) -> Result<Vec<Key<'call>>> {
    match (call.value(id), target.row) {
        (None, Some(row)) => Ok(vec![argument::key_of_row(row, queue)?]),
        _ => argument::keys(call, id, queue),
    }
}

fn kind(step: &Step) -> CallKind {
    match step.verb {
        Verb::Ack => CallKind::Ack,
        Verb::Release if step.unused => CallKind::GiveBack,
        Verb::Release => CallKind::Release,
        Verb::Bury => CallKind::Bury,
        Verb::Touch => CallKind::Touch,
        Verb::Dig => CallKind::Kick,
        Verb::Switch(_) => CallKind::Switch,
        Verb::Snatch => CallKind::Snatch,
        Verb::Restart => CallKind::Restart,
        Verb::Delete => CallKind::Delete,
    }
}
