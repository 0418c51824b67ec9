//! The list of all metrics, for all formats. A new metric is an entry of [`FAMILIES`].

use crate::change::{CallKind, Calls};
use crate::histogram::Histogram;
use crate::status::{Status, Tasks};
use FamilyKind::{Counter, Gauge};

/// Counters of a queue at one instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    pub tasks: Tasks,
    pub calls: Calls,
    /// How long tasks had been ready when they were taken.
    pub waits: Histogram,
    /// How long tasks had been taken when they were acked.
    pub works: Histogram,
    pub consumers: u32,
    /// Producers that wait for room.
    pub producers: u32,
    pub capacity: Option<i64>,
    pub exact: bool,
}

/// A queue with its counters and other measured values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Names of the database, the schema and the table.
    pub names: [String; 3],
    pub counters: Counters,
    /// Tubes with statistics of their own.
    pub tubes: Vec<(String, Tasks)>,
    /// For how long the oldest task has been ready, in seconds.
    pub oldest_ready: Option<f64>,
    pub has_error: bool,
}

/// The measured values of the worker of a database.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredWorker {
    pub database: String,
    pub is_up: bool,
    /// How long it has owed a round or been missing, in seconds; None if this is unknown.
    pub lag: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyKind {
    Gauge,
    Counter,
    Histogram,
}

/// A metric.
pub struct Family {
    /// Ends with the unit, if there is one.
    pub name: &'static str,
    pub kind: FamilyKind,
    pub help: &'static str,
    /// Additional labels, after the labels that identify the queue or the database.
    pub labels: &'static [&'static str],
    /// Component of Graphite's path between the table and the labels' values; None if the metric is not sent there.
    pub graphite: Option<&'static str>,
    read: Read,
}

/// How to read the values of a family, with the values of its labels.
enum Read {
    Queue(fn(&Measured) -> Values),
    Lengths(fn(&Counters) -> &Histogram),
    Worker(fn(&MeasuredWorker) -> Option<f64>),
}

type Values = Vec<(Vec<String>, f64)>;

/// A value of a family.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Suffix to the name of the family.
    pub suffix: &'static str,
    /// The labels. The first ones identify the queue (three labels) or the database (one label).
    pub labels: Vec<(&'static str, String)>,
    pub value: f64,
}

const QUEUE: [&str; 3] = ["database", "schema", "queue"];
/// Calls that end an attempt without success.
const FAILURES: [CallKind; 4] =
    [CallKind::Release, CallKind::Bury, CallKind::Session, CallKind::Ttr];

#[rustfmt::skip]
pub const FAMILIES: [Family; 14] = [
    queue("xqueue_tasks", Gauge, "Tasks by state.", &["state"], Some(""),
        |queue| by_state(&queue.counters.tasks)),
    queue("xqueue_tube_tasks", Gauge, "Tasks of a tube by state.", &["tube", "state"], Some("tubes"), by_tube),
    queue("xqueue_calls", Counter, "Tasks that went through each kind of call.", &["call"], Some("calls"),
        |queue| by_call(&CallKind::ALL, queue)),
    queue("xqueue_failed_attempts", Counter, "Attempts that failed, by cause.", &["cause"], None,
        |queue| by_call(&FAILURES, queue)),
    lengths("xqueue_wait_seconds", "How long tasks had been ready when they were taken.", |of| &of.waits),
    lengths("xqueue_work_seconds", "How long tasks had been taken when they were acked.", |of| &of.works),
    queue("xqueue_oldest_ready_seconds", Gauge, "For how long the oldest task has been ready.", &[],
        Some("oldest_ready_seconds"), |queue| queue.oldest_ready.map_or(vec![], one)),
    queue("xqueue_consumers", Gauge, "Consumers that wait for a task.", &[], Some("consumers"),
        |queue| one(queue.counters.consumers)),
    queue("xqueue_capacity", Gauge, "How many tasks the queue may hold.", &[], None,
        |queue| queue.counters.capacity.map_or(vec![], |capacity| one(capacity as f64))),
    queue("xqueue_producers", Gauge, "Producers that wait for room.", &[], None,
        |queue| queue.counters.capacity.map_or(vec![], |_| one(queue.counters.producers))),
    queue("xqueue_exact", Gauge, "1 if the numbers are those of the table.", &[], None,
        |queue| one(queue.counters.exact)),
    queue("xqueue_error", Gauge, "1 if the view queues shows an error.", &[], None, |queue| one(queue.has_error)),
    worker("xqueue_worker_up", "1 if the database has a worker that works.", |worker| Some(worker.is_up.into())),
    worker("xqueue_worker_lag_seconds", "How long the worker should have begun a round.", |worker| worker.lag),
];

const fn queue(
    name: &'static str,
    kind: FamilyKind,
    help: &'static str,
    labels: &'static [&'static str],
    graphite: Option<&'static str>,
    read: fn(&Measured) -> Values,
) -> Family {
    Family { name, kind, help, labels, graphite, read: Read::Queue(read) }
}

const fn lengths(
    name: &'static str,
    help: &'static str,
    read: fn(&Counters) -> &Histogram,
) -> Family {
    let (kind, read) = (FamilyKind::Histogram, Read::Lengths(read));
    Family { name, kind, help, labels: &["le"], graphite: None, read }
}

const fn worker(
    name: &'static str,
    help: &'static str,
    read: fn(&MeasuredWorker) -> Option<f64>,
) -> Family {
    Family { name, kind: Gauge, help, labels: &[], graphite: None, read: Read::Worker(read) }
}

fn one(value: impl Into<f64>) -> Values {
    vec![(vec![], value.into())]
}

/// Returns the number of tasks in each state. Counters are negative after tasks have left that were not counted yet;
/// the metric is 0 then.
fn by_state(tasks: &Tasks) -> Values {
    let value = |state: Status| (vec![state.name().into()], tasks[state as usize].max(0) as f64);
    Status::ALL.map(value).to_vec()
}

fn by_tube(queue: &Measured) -> Values {
    let of_tube = |(tube, tasks): &(String, Tasks)| {
        by_state(tasks)
            .into_iter()
            .map(|(state, value)| ([vec![tube.clone()], state].concat(), value))
            .collect()
    };
    queue.tubes.iter().flat_map(of_tube as fn(&(String, Tasks)) -> Values).collect()
}

fn by_call(calls: &[CallKind], queue: &Measured) -> Values {
    let value =
        |call: &CallKind| (vec![call.name().into()], queue.counters.calls[*call as usize] as f64);
    calls.iter().map(value).collect()
}

/// Returns all metrics with their values. Metrics without a value are left out.
pub fn families(
    queues: &[Measured],
    workers: &[MeasuredWorker],
) -> Vec<(&'static Family, Vec<Sample>)> {
    const { &FAMILIES }
        .iter()
        .map(|family| (family, family.samples(queues, workers)))
        .filter(|(_, samples)| !samples.is_empty())
        .collect()
}

impl Family {
    fn samples(&self, queues: &[Measured], workers: &[MeasuredWorker]) -> Vec<Sample> {
        match self.read {
            Read::Queue(read) => {
                let suffix = if self.kind == Counter { "_total" } else { "" };
                let sample =
                    |queue: &Measured, (values, value)| self.sample(queue, suffix, values, value);
                queues
                    .iter()
                    .flat_map(|queue| {
                        read(queue).into_iter().map(move |value| sample(queue, value))
                    })
                    .collect()
            }
            Read::Lengths(read) => queues
                .iter()
                .flat_map(|queue| self.histogram(queue, read(&queue.counters)))
                .collect(),
            Read::Worker(read) => workers
                .iter()
                .filter_map(|worker| {
                    let labels = vec![("database", worker.database.clone())];
                    Some(Sample { suffix: "", labels, value: read(worker)? })
                })
                .collect(),
        }
    }

    fn sample(
        &self,
        queue: &Measured,
        suffix: &'static str,
        values: Vec<String>,
        value: f64,
    ) -> Sample {
        let own = QUEUE.into_iter().zip(queue.names.iter().cloned());
        let labels = own.chain(self.labels.iter().copied().zip(values)).collect();
        Sample { suffix, labels, value }
    }

    fn histogram(&self, queue: &Measured, lengths: &Histogram) -> Vec<Sample> {
        let bucket =
            |bound: String, count| self.sample(queue, "_bucket", vec![bound], count as f64);
        let total = lengths.total();
        let rest = [
            bucket("+Inf".into(), total),
            self.sample(queue, "_count", vec![], total as f64),
            self.sample(queue, "_sum", vec![], lengths.sum as f64 / 1e6),
        ];
        lengths
            .cumulative()
            .map(|(bound, count)| bucket(format!("{bound:?}"), count))
            .chain(rest)
            .collect()
    }
}
