//! `wait` and `put_wait`: wait for the outcome of a task.

use crate::api::argument::{self, Key, Target};
use crate::api::producer::Put;
use crate::api::settle::named_keys;
use crate::api::waiting::{gone_or, refuse_fixed_snapshot};
use crate::error::{Error, Result};
use crate::parts::waiters::Want;
use crate::parts::waiters::wait::{self, Deadline, News, WaitEntry};
use crate::queue::{Arguments, Queue, Statement};
use crate::server::function::Call;
use crate::server::jsonb::{self, Shape, shape};
use crate::server::memory::Memory;
use crate::server::relation::LockMode;
use crate::server::spi;
use crate::server::value::Value;
use crate::server::xact::{self, Verdict};
use crate::sql_functions;
use crate::write::reservation;
use pgrx::PgSqlErrorCode;
use xqueue_core::change::Outcome;
use xqueue_core::form::Form;
use xqueue_core::slot_id::SlotId;
use xqueue_core::status::Status;

sql_functions! {
    "wait" as wait_task, pg_finfo_wait_task(
        queue: queue, id: key = [NULL], timeout: interval = NULL,
    ) -> text => wait_impl;
    "put_wait" as put_wait, pg_finfo_put_wait(
        queue: queue, task: jsonb, timeout: interval = NULL, &mut outcome: text = NULL,
        &mut id: jsonb = NULL,
    ) => put_wait_impl;
}

/// Time for the report of an end that is visible already (µs). Unreported ends, such as those by prepared transactions,
/// are seen to be gone after it.
const REPORT_DELAY: i64 = 200_000;

/// State of a task, seen by a process that waits for its outcome.
enum Sight {
    Outcome(Outcome),
    Gone,
    Open,
}

impl Sight {
    /// Returns the outcome's name; None while the task is still to be processed.
    fn word(&self) -> Option<&'static str> {
        match self {
            Sight::Outcome(outcome) => Some(outcome.name()),
            Sight::Gone => Some("gone"),
            Sight::Open => None,
        }
    }
}

fn wait_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let target = Target::of(call, arg::wait_task::queue)?;
    let timeout = argument::duration(call, arg::wait_task::timeout)?.map(|(_, length)| length);
    if timeout != Some(0) {
        refuse_fixed_snapshot("a task")?;
    }
    let deadline = Deadline::after(timeout);
    let Watched { slot, name, hash, sight, is_hint: is_vague } = watched(call, &target)?;
    if let Some(word) = sight.word() {
        return Ok(Some(Value::text(word)));
    }
    // Joins the wait queue before the second lookup, so that no event in between is missed.
    let place = WaitEntry::join(slot, &name, Want::End { hash, is_vague })?;
    let look = || {
        let again = watched(call, &target).map_err(|error| gone_or(error, &target, &name))?;
        Ok((again.sight, again.is_hint))
    };
    let (sight, is_hint) = look()?;
    let word = match told_or_seen(&place, &name, None, &sight)? {
        None => watch(&place, &name, deadline, is_hint, look)?,
        word => word,
    };
    Ok(word.map(Value::text))
}

/// Waits until a task has ended; None if the deadline passes first. `look` reads the task; it returns its state, and
/// whether a reported end only means that the task must be looked up again. `is_hint` is that flag from the first
/// lookup.
fn watch(
    place: &WaitEntry,
    name: &str,
    deadline: Deadline,
    mut is_hint: bool,
    mut look: impl FnMut() -> Result<(Sight, bool)>,
) -> Result<Option<&'static str>> {
    loop {
        let told = match place.watch(deadline, is_hint, name)? {
            News::Ended(outcome) => return Ok(Some(outcome.name())),
            News::None => return Ok(None),
            News::Check(told) => told,
        };
        let seen = look()?;
        is_hint = seen.1;
        if let Some(word) = told_or_seen(place, name, told, &seen.0)? {
            return Ok(Some(word));
        }
    }
}

/// The task that `wait` watches.
struct Watched {
    slot: SlotId,
    name: String,
    /// Hash of the task's key.
    hash: u64,
    sight: Sight,
    /// A reported end only means that the task must be looked up again: it can be hidden from the caller, or another
    /// task's key can have the same hash.
    is_hint: bool,
}

/// Returns the outcome of a task seen to have ended. An outcome reported by wake-up, before the lookup or since, is
/// more precise than the fact that the task is gone.
fn told_or_seen(
    place: &WaitEntry,
    name: &str,
    told: Option<Outcome>,
    sight: &Sight,
) -> Result<Option<&'static str>> {
    if !matches!(sight, Sight::Gone) {
        return Ok(sight.word());
    }
    let news = match (place.news(name)?, told) {
        (News::Check(_) | News::None, None) => {
            place.watch(Deadline::after(Some(REPORT_DELAY)), false, name)?
        }
        (news, _) => news,
    };
    Ok(match news {
        News::Ended(outcome) => Some(outcome.name()),
        News::Check(_) | News::None => told.map(Outcome::name).or(sight.word()),
    })
}

/// Reads a task and releases all locks, because the caller can wait afterwards.
fn watched(call: &Call, target: &Target) -> Result<Watched> {
    let mut seen = Err(wait::gone(""));
    xact::in_subtransaction(|| {
        seen = target.open(LockMode::AccessShare).and_then(|queue| {
            let keys = named_keys(call, arg::wait_task::id, target, &queue)?;
            let [key] = keys.as_slice() else {
                return Err(Error::invalid("wait takes one task").hint("Wait for them one by one."));
            };
            let hash = queue.key_hash(key.iter().copied().map(Some));
            Ok(Watched {
                slot: queue.slot,
                name: queue.name.clone(),
                hash,
                sight: look(&queue, key),
                is_hint: queue.has_vague_ends(),
            })
        });
        Verdict::<()>::Undo
    });
    seen
}

/// Outcome of a task that was not put because the queue stayed full until the timeout.
const FULL: &str = "full";

fn put_wait_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let target = Target::of(call, arg::put_wait::queue)?;
    let task = jsonb::unpacked(call.require(arg::put_wait::task)?);
    let timeout = argument::duration(call, arg::put_wait::timeout)?.map(|(_, length)| length);
    if call.is_atomic() {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_INVALID_TRANSACTION_TERMINATION,
            "put_wait cannot run inside a transaction",
        )
        .detail("The task has to be committed before anybody can take it.")
        .hint("CALL it outside of BEGIN … COMMIT and of functions, or use put, COMMIT and wait."));
    }
    if shape(task) != Shape::Object {
        return Err(Error::invalid("put_wait takes one task, a jsonb object")
            .hint("Use put for many, and wait for them one by one."));
    }
    let deadline = Deadline::after(timeout);
    let memory = Memory::current();
    let mut id = None;
    let word = spi::connect_nonatomic(|spi| -> Result<Option<&'static str>> {
        let mut put = None;
        let mut run = || {
            spi.ensure_snapshot();
            let queue = target.open(LockMode::RowExclusive)?;
            Put::new(&queue, Form::Json).run(Some(task), None, |rows| {
                put = rows.value(0, 1).map(|put| memory.run(|| put.copied()));
                Ok(())
            })
        };
        let lack = run()?;
        let again = |name: &str| run().map_err(|error| gone_or(error, &target, name));
        if !reservation::wait(lack, deadline, again, || spi.commit())? {
            return Ok(Some(FULL));
        }
        let queue = target.open(LockMode::RowExclusive)?;
        let Some(put) = put else { return Ok(Sight::Gone.word()) };
        id = Some(memory.run(|| argument::id_of_object(put, &queue)));
        let key = argument::key_of_object(put, &queue)?;
        let hash = queue.key_hash(key.into_iter().map(Some));
        let (slot, name, is_hint) = (queue.slot, queue.name.clone(), queue.has_vague_ends());
        // No event is missed: the task cannot be taken before the commit.
        let place = WaitEntry::join(slot, &name, Want::End { hash, is_vague: is_hint })?;
        place.over_transaction_end(|| spi.commit());
        watch(&place, &name, deadline, is_hint, || {
            spi.ensure_snapshot();
            let queue = target.open(LockMode::AccessShare);
            let queue = queue.map_err(|error| gone_or(error, &target, &name))?;
            let seen = look(&queue, &argument::key_of_object(put, &queue)?);
            let is_hint = queue.has_vague_ends();
            drop(queue);
            place.over_transaction_end(|| spi.rollback());
            Ok((seen, is_hint))
        })
    })?;
    Ok(Some(call.record([word.map(Value::text), id])))
}

/// Looks a task up in a fresh snapshot.
fn look(queue: &Queue, key: &Key) -> Sight {
    let mut arguments = Arguments::default();
    arguments.set_key(key);
    spi::connect(|spi| {
        let rows = queue.run(spi, &Statement::Holder, &arguments);
        if rows.is_empty() {
            return Sight::Gone;
        }
        match queue.status_read(rows.value(0, 1)) {
            Some(Status::Buried) => Sight::Outcome(Outcome::Buried),
            Some(Status::Done | Status::Zombie) => Sight::Outcome(Outcome::Acked),
            Some(Status::Ready | Status::Taken | Status::Waiting) | None => Sight::Open,
        }
    })
}
