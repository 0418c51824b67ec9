//! `stats`, `stats_reset`, `state`, and functions behind the views: the condition of the queues, at a cost independent
//! of the number of tasks. A view calls its function for each table of the registry that the query selects, so that
//! reading one queue costs the same for any number of queues.

use crate::api::argument::{self, Target, require_monitor, require_owner};
use crate::error::Result;
use crate::parts::counters::statistics::Statistics;
use crate::parts::leases::{session, store};
use crate::parts::schedule::status::{self, WorkerState, WorkerStatus};
use crate::parts::slot;
use crate::parts::waiters::Want;
use crate::queue::census::{self, Sight};
use crate::queue::{self, recount};
use crate::server::function::{Call, Output};
use crate::server::relation::{self, LockMode};
use crate::server::value::Value;
use crate::server::{jsonb, privileges, process, spi, time, types, xact};
use crate::sql_functions;
use pgrx::pg_sys::Oid;
use serde_json::{Map, Value as Json, json};
use xqueue_core::change::{CallKind, Calls, Transitions, named};
use xqueue_core::counters::tubes::TubeCounters;
use xqueue_core::slot_id::SlotId;
use xqueue_core::status::{Status, Tasks};

sql_functions! {
    "stats" as stats, pg_finfo_stats(queue: queue) -> jsonb => stats_impl;
    "stats" as stats_all, pg_finfo_stats_all() -> [jsonb] => stats_all_impl;
    "stats_reset" as stats_reset, pg_finfo_stats_reset(queue: queue) -> boolean => stats_reset_impl;
    "stats_reset" as stats_reset_all, pg_finfo_stats_reset_all() -> boolean => stats_reset_all_impl;
    "is_shown" as is_shown, pg_finfo_is_shown(queue: regclass) -> boolean => is_shown_impl;
    "call_counts" as call_counts, pg_finfo_call_counts(queue: regclass) -> [jsonb]
        => call_counts_impl;
    "holders" as holders, pg_finfo_holders(queue: regclass) -> [jsonb] => holders_impl;
    "waiting_consumers" as waiting_consumers, pg_finfo_waiting_consumers(queue: regclass) -> [jsonb]
        => waiting_consumers_impl;
    "waiting_producers" as waiting_producers, pg_finfo_waiting_producers(queue: regclass) -> [jsonb]
        => waiting_producers_impl;
    "state" as state, pg_finfo_state() -> text => state_impl;
    "database_workers" as database_workers, pg_finfo_database_workers() -> [jsonb]
        => database_workers_impl;
}

/// Maximum number of waiting processes, or of taken tasks, that the views show for a queue.
pub const SHOWN: usize = 10_000;

fn stats_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let table = Target::of(call, arg::stats::queue)?.table;
    require_monitor(table)?;
    let slot = match slot::find(process::database().into(), table.into()) {
        Some(slot) => slot,
        None => {
            argument::lock_at_once(table)?;
            queue::get(table)?.slot
        }
    };
    recount::hasten(slot);
    // The registry is read only if it has additional information.
    let is_listed =
        slot::lock(slot).is_some_and(|slot| slot.counters.counts_tubes() || slot.table.pauses());
    let listed = match is_listed || xact::in_recovery() {
        true => listed(table)?,
        false => Listed::default(),
    };
    described(table, slot, listed, &own_worker_error())
        .map(|value| Some(jsonb::from_value(&value)))
        .ok_or(queue::not_a_queue(table))
}

/// Returns the statistics of all queues that the caller is allowed to monitor.
fn stats_all_impl(call: &Call) -> Result<Option<Value<'_>>> {
    session::require_loaded()?;
    let output = Output::open(call);
    let of_worker = own_worker_error();
    for (table, listed) in all_listed() {
        let slot = shown_slot(table);
        if let Some(described) = slot.and_then(|slot| described(table, slot, listed, &of_worker)) {
            output.push(jsonb::from_value(&described));
        }
    }
    Ok(None)
}

fn stats_reset_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let table = Target::of(call, arg::stats_reset::queue)?.table;
    require_owner(table)?;
    relation::lock(table, LockMode::AccessShare);
    reset(queue::get(table)?.slot);
    Ok(Some(Value::boolean(true)))
}

/// Resets the statistics of all queues that the caller owns.
fn stats_reset_all_impl(_: &Call) -> Result<Option<Value<'_>>> {
    session::require_loaded()?;
    for table in queue::tables().into_iter().filter(|table| privileges::owns(*table)) {
        if let Some(slot) = slot::find(process::database().into(), table.into()) {
            reset(slot);
        }
    }
    Ok(Some(Value::boolean(true)))
}

fn reset(slot: SlotId) {
    if let Some(mut slot) = slot::lock(slot) {
        slot.counters().reset_statistics();
    }
}

/// Returns whether the views show a table to the caller: it is a queue that has been used, or can be used.
fn is_shown_impl(call: &Call) -> Result<Option<Value<'_>>> {
    session::require_loaded()?;
    let table = call.require(arg::is_shown::queue)?;
    Ok(Some(Value::boolean(shown_slot(table).is_some())))
}

/// Returns the slot of a queue that the caller is allowed to monitor.
pub fn shown_slot(table: Oid) -> Option<SlotId> {
    if privileges::may_monitor(table) { slot_of(table) } else { None }
}

/// Returns the rows of view `xqueue.calls` for a queue.
fn call_counts_impl(call: &Call) -> Result<Option<Value<'_>>> {
    session::require_loaded()?;
    let output = Output::open(call);
    let slot = shown_slot(call.require(arg::call_counts::queue)?);
    let statistics = slot.and_then(slot::lock).map(|mut slot| slot.counters().statistics());
    for (call, tasks) in
        statistics.iter().flat_map(|statistics| by_call(&statistics.counters.calls))
    {
        output.push(jsonb::from_value(&json!({ "call": call, "tasks": tasks })));
    }
    Ok(None)
}

/// Returns the sessions that hold tasks of a queue, for view `xqueue.taken`.
fn holders_impl(call: &Call) -> Result<Option<Value<'_>>> {
    session::require_loaded()?;
    let output = Output::open(call);
    let sight = census::sight(call.require(arg::holders::queue)?, census::holders)?;
    let Sight::Seen(holders) = sight else { return Ok(None) };
    for (session, tasks) in holders {
        output.push(jsonb::from_value(&json!({
            "session": session.map(types::uuid_text),
            "pid": session.and_then(store::holder),
            "tasks": tasks,
        })));
    }
    Ok(None)
}

/// Returns a queue's slot without waiting for a lock, because the views serve to diagnose locks. A queue that has not
/// been used yet, for example on a standby, gets a slot if its table is not locked.
pub fn slot_of(table: Oid) -> Option<SlotId> {
    slot::find(process::database().into(), table.into()).or_else(|| {
        let is_free = relation::try_lock(table, LockMode::AccessShare);
        let queue = if is_free { queue::find(table).ok().flatten() } else { None };
        queue.map(|queue| queue.slot)
    })
}

/// Returns the rows of view `xqueue.consumers` for a queue.
fn waiting_consumers_impl(call: &Call) -> Result<Option<Value<'_>>> {
    show_waiting(call, call.require(arg::waiting_consumers::queue)?, Want::is_for_task)
}

/// Returns the rows of view `xqueue.producers` for a queue.
fn waiting_producers_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let is_producer = |want| matches!(want, Want::Capacity(_));
    show_waiting(call, call.require(arg::waiting_producers::queue)?, is_producer)
}

/// Returns the processes whose wait for a queue satisfies `wanted`.
fn show_waiting<'m>(
    call: &'m Call,
    table: Oid,
    wanted: fn(Want) -> bool,
) -> Result<Option<Value<'m>>> {
    session::require_loaded()?;
    let output = Output::open(call);
    if !privileges::may_monitor(table) {
        return Ok(None);
    }
    let mut waiting = Vec::with_capacity(SHOWN);
    let slot = slot::find(process::database().into(), table.into());
    if let Some(mut slot) = slot.and_then(slot::lock) {
        slot.waiters().waiting(wanted, &mut waiting);
    }
    for waiting in waiting {
        let mut shown = json!({
            "pid": waiting.pid,
            "session": types::uuid_text(waiting.session),
            "since": seconds(waiting.since),
        });
        if let Want::Capacity(tasks) = waiting.want {
            shown["tasks"] = tasks.into();
        }
        output.push(jsonb::from_value(&shown));
    }
    Ok(None)
}

/// Returns the state of the queue service in this database.
fn state_impl(_: &Call) -> Result<Option<Value<'_>>> {
    session::require_loaded()?;
    let state = match xact::in_recovery() {
        true => "WAITING",
        false => status::state(process::database().into()).name(),
    };
    Ok(Some(Value::text(state)))
}

/// Returns the rows of view `xqueue.workers` for all databases, like pg_stat_activity.
fn database_workers_impl(call: &Call) -> Result<Option<Value<'_>>> {
    session::require_loaded()?;
    let output = Output::open(call);
    let now = time::now();
    let since = |instant: i64| time::seconds_of(now.saturating_sub(instant));
    for known in status::all_workers() {
        output.push(jsonb::from_value(&json!({
            "database": known.database,
            "pid": known.worker.map(|(pid, _)| pid),
            "state": known.state.name(),
            "up": known.worker.map(|(_, begun)| since(begun)),
            "since_round": known.round_at.map(since),
            "lag": time::seconds_of(known.lag),
            "error": worker_error(&known).map(|(error, _)| error),
        })));
    }
    Ok(None)
}

/// Returns the error that keeps the worker of this database from its work, and its age.
pub fn own_worker_error() -> Option<(String, i64)> {
    status::worker_of(process::database().into()).as_ref().and_then(worker_error)
}

/// Returns the error that keeps the worker of a database from its work, and its age.
pub fn worker_error(known: &WorkerStatus) -> Option<(String, i64)> {
    let since = time::now().saturating_sub(known.lag);
    match (known.state, known.worker) {
        (WorkerState::NoWorker, _) => {
            Some(("there is no worker for this database: raise max_worker_processes".into(), since))
        }
        (WorkerState::Stalled, Some((pid, _))) => {
            Some((format!("the worker ({pid}) does not come round: it may be stopped"), since))
        }
        _ => None,
    }
}

/// Returns an instant as seconds since 1970.
fn seconds(instant: i64) -> f64 {
    time::unix_microseconds(instant) as f64 / 1e6
}

/// Formats the statistics of a queue. `of_worker`: the worker's error, which takes precedence over the queue's own.
fn described(
    table: Oid,
    slot: SlotId,
    listed: Listed,
    of_worker: &Option<(String, i64)>,
) -> Option<Json> {
    let statistics = slot::lock(slot)?.counters().statistics();
    let calls =
        by_call(&statistics.counters.calls).map(|(call, tasks)| (call.to_string(), tasks.into()));
    let mut described = json!({
        "queue": queue::display_name(table),
        "relation": u32::from(table),
        "tasks": by_state(&statistics.counters.tasks),
        "transitions": by_transition(&statistics.transitions),
        "calls": calls.collect::<Map<_, _>>(),
        "consumers": statistics.counters.consumers,
        "exact": statistics.counters.exact,
    });
    if let Some(capacity) = statistics.counters.capacity {
        described["capacity"] = capacity.into();
        described["reserved"] = statistics.reserved.into();
        described["producers"] = statistics.counters.producers.into();
    }
    if let Some(until) = listed.paused_until.filter(|until| *until > time::now()) {
        described["paused_until"] = match until {
            i64::MAX => "infinity".into(),
            until => seconds(until).into(),
        };
    }
    if !listed.tubes.is_empty() {
        let described_tube = |(name, tube): (String, &TubeCounters)| {
            let transitions = by_transition(&tube.transitions);
            (name, json!({ "tasks": by_state(&tube.tasks), "transitions": transitions }))
        };
        let tubes = listed.tubes.into_iter().zip(&statistics.tubes).map(described_tube);
        described["tubes"] = tubes.collect::<Map<_, _>>().into();
    }
    if let Some((error, at)) = error(&statistics, of_worker) {
        described["error"] = error.into();
        described["error_at"] = seconds(at).into();
    }
    Some(described)
}

/// Returns the error of a queue or of its worker, and its age.
pub fn error(statistics: &Statistics, of_worker: &Option<(String, i64)>) -> Option<(String, i64)> {
    let of_queue = || statistics.error.map(|(error, at)| (error.read(), at));
    of_worker.clone().or_else(of_queue)
}

fn by_call(calls: &Calls) -> impl Iterator<Item = (&'static str, i64)> {
    CallKind::ALL.iter().map(|call| (call.name(), calls[*call as usize]))
}

/// Formats the counters. A counter below zero is shown as zero: tasks can leave a state before the first count has
/// included them.
fn by_state(tasks: &Tasks) -> Map<String, Json> {
    let shown = tasks.map(|number| number.max(0));
    let count = |status: &Status| (status.name().to_string(), shown[*status as usize].into());
    let total = ("total".to_string(), shown.iter().sum::<i64>().into());
    Status::ALL.iter().map(count).chain([total]).collect()
}

fn by_transition(transitions: &Transitions) -> Map<String, Json> {
    named(transitions).map(|(name, count)| (name, count.into())).collect()
}

/// Additional information about a queue from the registry.
#[derive(Default)]
pub struct Listed {
    /// Tubes with separate statistics.
    pub tubes: Vec<String>,
    paused_until: Option<i64>,
}

fn listed(table: Oid) -> Result<Listed> {
    let entry = queue::read(table)?.ok_or_else(|| queue::not_a_queue(table))?;
    let tubes = entry.definition.options.tubes_counted().to_vec();
    Ok(Listed { tubes, paused_until: entry.paused_until })
}

/// Returns the registry's information about all queues of this database.
pub fn all_listed() -> Vec<(Oid, Listed)> {
    spi::connect(|spi| {
        let rows = spi.run(
            "SELECT relation::pg_catalog.oid, paused_until, \
             definition OPERATOR(pg_catalog.#>) '{options,tube_stats}' FROM xqueue.queue ORDER BY 1",
        );
        let listed = |row| {
            let tubes = rows.value(row, 3).map(jsonb::text).unwrap_or_default();
            let listed = Listed {
                tubes: serde_json::from_str(&tubes).unwrap_or_default(),
                paused_until: rows.value(row, 2).map(Value::to_instant),
            };
            Some((rows.value(row, 1)?.to_oid(), listed))
        };
        (0..rows.len()).filter_map(listed).collect()
    })
}
