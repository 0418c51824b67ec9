//! How late delayed tasks are when many become due.

use std::time::SystemTime;

use crate::effort::{DUE_PER_SECOND, Effort};
use crate::numbers::Sample;
use crate::report::{Section, row};
use crate::{Result, database};

/// A queue is a table: a column of its own says when the task was due.
const TABLE: &str = r#"
    SELECT xqueue.create('measure.delayed', '{"features": {"delayed": true}}');
    ALTER TABLE measure.delayed ADD due timestamptz;"#;
/// The keys have the order in which the tasks become due, because tasks are taken in the order of their keys.
const PUT: &str = "
    INSERT INTO measure.delayed (payload, due, runat)
    SELECT '{}', due, due FROM generate_series(1, $3::int) AS n,
         make_interval(secs => $1 + n / $2::float8) AS wait, LATERAL (SELECT now() + wait) AS at(due)";
const TAKE: &str = "SELECT due FROM xqueue.take(NULL::measure.delayed, '10s', 100)";
/// Seconds between the put and the first due task.
const HEAD_START: f64 = 3.0;

pub fn measure(effort: &Effort) -> Result<Section> {
    let mut db = database::connect("xqueue measure")?;
    db.batch_execute(TABLE)?;
    db.execute(PUT, &[&HEAD_START, &(DUE_PER_SECOND as f64), &(effort.delayed as i32)])?;
    let take = db.prepare(TAKE)?;
    let mut taken = Sample::default();
    while taken.len() < effort.delayed {
        let tasks = db.query(&take, &[])?;
        let now = SystemTime::now();
        if tasks.is_empty() {
            return Err("delayed tasks do not become ready".into());
        }
        for task in tasks {
            taken.add(microseconds_since(task.get(0), now));
        }
    }
    Ok(Section {
        title: "A delayed task is late",
        header: vec!["later than runat", "n", "median", "p99", "max"],
        rows: vec![row("a waiting consumer has it in hand", taken.cells())],
        notes: vec![format!(
            "{DUE_PER_SECOND} tasks became due per second; one consumer took what was ready, \
             synchronous_commit on: the commits of the worker and of the take are in the time."
        )],
        plot: None,
    })
}

fn microseconds_since(earlier: SystemTime, later: SystemTime) -> f64 {
    match later.duration_since(earlier) {
        Ok(duration) => duration.as_secs_f64() * 1e6,
        Err(error) => -error.duration().as_secs_f64() * 1e6,
    }
}
