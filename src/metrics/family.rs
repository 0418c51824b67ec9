//! Counters as metric families, whatever the format.

use xqueue_core::histogram::Histogram;

/// What is measured of one queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    pub database: String,
    pub schema: String,
    pub table: String,
    /// Tasks by state.
    pub tasks: Vec<(&'static str, i64)>,
    /// The same of each tube with statistics of its own.
    pub tubes: Vec<(String, Vec<(&'static str, i64)>)>,
    pub calls: Vec<(&'static str, i64)>,
    /// How long tasks had been ready when they were taken, and taken when they were acked.
    pub waits: Histogram,
    pub works: Histogram,
    /// For how long the oldest task has been ready, in seconds.
    pub oldest_ready: Option<f64>,
    pub consumers: i64,
    /// The capacity, and how many producers wait for room.
    pub capacity: Option<(i64, i64)>,
    pub exact: bool,
    pub has_error: bool,
}

/// What is measured of the worker of a database.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredWorker {
    pub database: String,
    pub is_up: bool,
    /// How long it should have begun a round, or been there, in seconds; None if nothing is known of it.
    pub lag: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Gauge,
    Counter,
    Histogram,
}

/// A metric, with a sample for each combination of labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    pub name: &'static str,
    pub kind: Kind,
    pub help: &'static str,
    pub samples: Vec<Sample>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// What follows the name of the family.
    pub suffix: &'static str,
    pub labels: Vec<(&'static str, String)>,
    pub value: f64,
}

/// Kinds of calls that end an attempt without success, which are its causes.
const FAILURES: [&str; 4] = ["release", "bury", "ttr", "session"];

/// Returns the metrics of queues and workers; those without a sample are left out.
pub fn families(queues: &[Measured], workers: &[MeasuredWorker]) -> Vec<Family> {
    use Kind::{Counter, Gauge};
    let of_queues = |name, kind, help, samples: fn(&Measured) -> Vec<Sample>| Family {
        name,
        kind,
        help,
        samples: queues.iter().flat_map(samples).collect(),
    };
    let of_workers = |name, help, value: fn(&MeasuredWorker) -> Option<f64>| Family {
        name,
        kind: Gauge,
        help,
        samples: workers
            .iter()
            .filter_map(|worker| Some(of_worker(worker, value(worker)?)))
            .collect(),
    };
    let families = [
        of_queues("xqueue_tasks", Gauge, "Tasks by state.", |queue| {
            queue.tasks.iter().map(|(state, n)| queue.sample("", &[("state", state)], *n)).collect()
        }),
        of_queues("xqueue_tube_tasks", Gauge, "Tasks of a tube by state.", tubes),
        of_queues("xqueue_calls", Counter, "Tasks that went through each kind of call.", |queue| {
            let call = |(call, n): &(&str, i64)| queue.sample("_total", &[("call", call)], *n);
            queue.calls.iter().map(call).collect()
        }),
        of_queues("xqueue_failed_attempts", Counter, "Attempts that failed, by cause.", |queue| {
            let failures = queue.calls.iter().filter(|(call, _)| FAILURES.contains(call));
            failures.map(|(call, n)| queue.sample("_total", &[("cause", call)], *n)).collect()
        }),
        of_queues(
            "xqueue_wait_seconds",
            Kind::Histogram,
            "How long tasks had been ready when they were taken.",
            |queue| histogram(queue, &queue.waits),
        ),
        of_queues(
            "xqueue_work_seconds",
            Kind::Histogram,
            "How long tasks had been taken when they were acked.",
            |queue| histogram(queue, &queue.works),
        ),
        of_queues(
            "xqueue_oldest_ready_seconds",
            Gauge,
            "For how long the oldest task has been ready.",
            |queue| queue.oldest_ready.map(|age| queue.exactly("", &[], age)).into_iter().collect(),
        ),
        of_queues("xqueue_consumers", Gauge, "Consumers that wait for a task.", |queue| {
            vec![queue.sample("", &[], queue.consumers)]
        }),
        of_queues("xqueue_capacity", Gauge, "How many tasks the queue may hold.", |queue| {
            queue
                .capacity
                .map(|(capacity, _)| queue.sample("", &[], capacity))
                .into_iter()
                .collect()
        }),
        of_queues("xqueue_producers", Gauge, "Producers that wait for room.", |queue| {
            queue.capacity.map(|(_, waiting)| queue.sample("", &[], waiting)).into_iter().collect()
        }),
        of_queues("xqueue_exact", Gauge, "1 if the numbers are those of the table.", |queue| {
            vec![queue.sample("", &[], queue.exact.into())]
        }),
        of_queues("xqueue_error", Gauge, "1 if the view queues shows an error.", |queue| {
            vec![queue.sample("", &[], queue.has_error.into())]
        }),
        of_workers("xqueue_worker_up", "1 if the database has a worker that works.", |worker| {
            Some(f64::from(u8::from(worker.is_up)))
        }),
        of_workers(
            "xqueue_worker_lag_seconds",
            "How long the worker should have begun a round.",
            |worker| worker.lag,
        ),
    ];
    families.into_iter().filter(|family| !family.samples.is_empty()).collect()
}

impl Measured {
    fn sample(&self, suffix: &'static str, labels: &[(&'static str, &str)], value: i64) -> Sample {
        self.exactly(suffix, labels, value as f64)
    }

    fn exactly(&self, suffix: &'static str, labels: &[(&'static str, &str)], value: f64) -> Sample {
        let Measured { database, schema, table, .. } = self;
        let own = [("database", database.as_str()), ("schema", schema), ("queue", table)];
        let labels = own.iter().chain(labels);
        let labels = labels.map(|(label, value)| (*label, value.to_string())).collect();
        Sample { suffix, labels, value }
    }
}

fn tubes(queue: &Measured) -> Vec<Sample> {
    let of_tube = |(tube, tasks): &(String, Vec<(&'static str, i64)>)| {
        let sample = |(state, number): &(&str, i64)| {
            queue.sample("", &[("tube", tube), ("state", state)], *number)
        };
        tasks.iter().map(sample).collect::<Vec<_>>()
    };
    queue.tubes.iter().flat_map(of_tube).collect()
}

fn histogram(queue: &Measured, histogram: &Histogram) -> Vec<Sample> {
    let bucket = |(bound, count): (f64, u64)| {
        queue.exactly("_bucket", &[("le", &format!("{bound:?}"))], count as f64)
    };
    let total = histogram.total() as f64;
    let rest = [
        queue.exactly("_bucket", &[("le", "+Inf")], total),
        queue.exactly("_count", &[], total),
        queue.exactly("_sum", &[], histogram.sum as f64 / 1e6),
    ];
    histogram.cumulative().map(bucket).chain(rest).collect()
}

fn of_worker(worker: &MeasuredWorker, value: f64) -> Sample {
    Sample { suffix: "", labels: vec![("database", worker.database.clone())], value }
}
