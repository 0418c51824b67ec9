//! `metrics`, and the functions behind the views `queues`, `latency` and `metric`: measured values of the queues that
//! the caller is allowed to monitor.

use crate::api::monitor::{Listed, all_listed, error, own_worker_error, shown_slot, worker_error};
use crate::error::{OrRaise, Result};
use crate::parts::counters::statistics::Statistics;
use crate::parts::leases::session;
use crate::parts::schedule::status;
use crate::parts::slot;
use crate::queue::census::{self, Sight};
use crate::server::function::{Call, Output};
use crate::server::value::Value;
use crate::server::{catalog, jsonb, process, time, xact};
use crate::sql_functions;
use pgrx::pg_sys::Oid;
use serde_json::{Map, Value as Json, json};
use xqueue_core::histogram::Histogram;
use xqueue_core::metrics::{Measured, MeasuredWorker, families, open_metrics};
use xqueue_core::status::Status;

sql_functions! {
    "metrics" as metrics, pg_finfo_metrics() -> text => metrics_impl;
    "metric_rows" as metric_rows, pg_finfo_metric_rows() -> [jsonb] => metric_rows_impl;
    "condition" as condition, pg_finfo_condition(queue: regclass) -> [jsonb] => condition_impl;
    "measures" as measures, pg_finfo_measures(queue: regclass) -> [jsonb] => measures_impl;
}

/// Returns the metrics in the text format of OpenMetrics.
fn metrics_impl(_: &Call) -> Result<Option<Value<'_>>> {
    session::require_loaded()?;
    Ok(Some(Value::text(&open_metrics(&families(&measured(), &measured_worker())))))
}

/// Returns the metrics as rows.
fn metric_rows_impl(call: &Call) -> Result<Option<Value<'_>>> {
    session::require_loaded()?;
    let output = Output::open(call);
    for (family, samples) in families(&measured(), &measured_worker()) {
        for sample in samples {
            let labels = sample.labels.into_iter();
            let labels: Map<String, Json> =
                labels.map(|(label, value)| (label.into(), value.into())).collect();
            output.push(jsonb::from_value(&json!({
                "name": format!("{}{}", family.name, sample.suffix),
                "labels": labels,
                "value": sample.value,
            })));
        }
    }
    Ok(None)
}

/// Returns the values that the view `queues` shows for a queue.
fn condition_impl(call: &Call) -> Result<Option<Value<'_>>> {
    session::require_loaded()?;
    let output = Output::open(call);
    let table = call.require(arg::condition::queue)?;
    let Some(statistics) = statistics_of(table) else { return Ok(None) };
    let oldest = oldest_ready(table, &statistics)?;
    let error = error(&statistics, &own_worker_error()).map(|(error, _)| error);
    let busy = matches!(oldest, Sight::Busy).then(|| census::BUSY.to_string());
    let mut condition = json!({
        "oldest_ready": oldest.seen().flatten(),
        "put": statistics.last_minute.put,
        "done": statistics.last_minute.done,
        "consumers": statistics.counters.consumers,
        "error": error.or(busy),
    });
    for status in states_shown() {
        condition[status.name()] = statistics.counters.tasks[status as usize].max(0).into();
    }
    output.push(jsonb::from_value(&condition));
    Ok(None)
}

/// Returns the states whose numbers of tasks the view `queues` shows.
fn states_shown() -> impl Iterator<Item = Status> {
    Status::ALL.into_iter().filter(|status| !status.is_over())
}

/// Returns the values that the view `latency` shows for a queue.
fn measures_impl(call: &Call) -> Result<Option<Value<'_>>> {
    session::require_loaded()?;
    let output = Output::open(call);
    if let Some(statistics) = statistics_of(call.require(arg::measures::queue)?) {
        output.push(jsonb::from_value(&json!({
            "waits": described(&statistics.counters.waits),
            "works": described(&statistics.counters.works),
        })));
    }
    Ok(None)
}

fn described(histogram: &Histogram) -> Json {
    let quantile = |share| histogram.quantile(share).map(|bound| bound as f64 / 1e6);
    json!({
        "count": histogram.total(),
        "p50": quantile(0.5),
        "p95": quantile(0.95),
        "p99": quantile(0.99),
    })
}

/// Returns the statistics of a queue, if the caller is allowed to monitor it.
fn statistics_of(table: Oid) -> Option<Statistics> {
    Some(slot::lock(shown_slot(table)?)?.counters().statistics())
}

/// Returns for how long the oldest task of a queue has been ready, in seconds; None if no task is.
fn oldest_ready(table: Oid, statistics: &Statistics) -> Result<Sight<Option<f64>>> {
    let is_empty =
        statistics.counters.exact && statistics.counters.tasks[Status::Ready as usize] == 0;
    if is_empty || xact::in_recovery() {
        return Ok(Sight::Seen(None));
    }
    census::sight(table, |queue| Ok(census::oldest_ready(queue)?.map(time::seconds_of)))
}

/// Measures the queues that the caller is allowed to monitor.
fn measured() -> Vec<Measured> {
    let database = catalog::database_name(process::database());
    let worker_fails = own_worker_error().is_some();
    let measured = |(table, listed): (Oid, Listed)| {
        let statistics = statistics_of(table)?;
        let (schema, name) = catalog::table_name(table)?;
        let oldest = oldest_ready(table, &statistics).or_raise();
        let is_busy = matches!(oldest, Sight::Busy);
        let oldest_ready = oldest.seen().flatten();
        let mut measured =
            statistics.measured([database.clone(), schema, name], listed.tubes, oldest_ready);
        measured.has_error |= worker_fails || is_busy;
        Some(measured)
    };
    all_listed().into_iter().filter_map(measured).collect()
}

/// Measures the worker of this database. A standby has no worker.
fn measured_worker() -> Vec<MeasuredWorker> {
    if xact::in_recovery() {
        return vec![];
    }
    let known = status::worker_of(process::database().into());
    let works =
        |state| matches!(state, status::WorkerState::Running | status::WorkerState::Resting);
    vec![MeasuredWorker {
        database: catalog::database_name(process::database()),
        is_up: known.is_some_and(|known| works(known.state) && worker_error(&known).is_none()),
        lag: known.map(|known| time::seconds_of(known.lag)),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_view_queues_has_a_column_for_each_state_that_is_shown() {
        let views = include_str!("../../sql/views.sql");
        let view = views.split(';').find(|sql| sql.contains("CREATE VIEW xqueue.queues"));
        let columns = view.expect("the view").lines().map(str::trim);
        let expected = states_shown().map(|status| status.name());
        let expected = expected.map(|name| format!("(c->>'{name}')::bigint AS {name},"));
        let shown = columns.skip_while(|line| !line.contains("AS queue")).skip(1);
        let shown: Vec<_> = shown.take_while(|line| !line.contains("oldest_ready")).collect();
        assert_eq!(shown, expected.collect::<Vec<_>>());
    }
}
