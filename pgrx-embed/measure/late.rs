//! How late delayed tasks are when many become due.

use std::time::SystemTime;

use crate::effort::{DUE_PER_SECOND, Effort};
use crate::numbers::Sample;
use crate::report::{Section, row};
use crate::{Result, database};

/// A queue is still a table, and can have user triggers: this one notes when a task was due and when the worker
/// promoted it.
const TABLE: &str = r#"
    SELECT xqueue.create('measure.delayed', '{"features": {"delayed": true}}');
    ALTER TABLE measure.delayed ADD due timestamptz, ADD ready timestamptz;
    CREATE FUNCTION measure.note_ready() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        NEW.due := OLD.runat;
        NEW.ready := clock_timestamp();
        RETURN NEW;
    END $$;
    CREATE TRIGGER note_ready BEFORE UPDATE ON measure.delayed FOR EACH ROW
        WHEN (OLD.status = 'W' AND NEW.status = 'R') EXECUTE FUNCTION measure.note_ready();"#;
/// The keys have the order in which the tasks become due, because tasks are taken in the order of their keys.
const PUT: &str = "
    SELECT count(*)
    FROM generate_series(1, $3::int) AS n,
         xqueue.put('measure.delayed', '{}', make_interval(secs => $1 + n / $2::float8))";
const TAKE: &str = "SELECT due, ready FROM xqueue.take(NULL::measure.delayed, '10s', 100)";
/// Seconds between the put and the first due task.
const HEAD_START: f64 = 3.0;

pub fn measure(effort: &Effort) -> Result<Section> {
    let mut db = database::connect("xqueue measure")?;
    db.batch_execute(TABLE)?;
    db.execute(PUT, &[&HEAD_START, &(DUE_PER_SECOND as f64), &(effort.delayed as i32)])?;
    let take = db.prepare(TAKE)?;
    let (mut promoted, mut taken) = (Sample::default(), Sample::default());
    while taken.len() < effort.delayed {
        let tasks = db.query(&take, &[])?;
        let now = SystemTime::now();
        if tasks.is_empty() {
            return Err("delayed tasks do not become ready".into());
        }
        for task in tasks {
            let (due, ready): (SystemTime, SystemTime) = (task.get(0), task.get(1));
            promoted.add(microseconds_since(due, ready));
            taken.add(microseconds_since(due, now));
        }
    }
    Ok(Section {
        title: "A delayed task is late",
        header: vec!["later than runat", "n", "median", "p99", "max"],
        rows: vec![
            row("the worker changes the task", promoted.cells()),
            row("a waiting consumer has it in hand", taken.cells()),
        ],
        notes: vec![format!(
            "{DUE_PER_SECOND} tasks became due per second; one consumer took what was ready, \
             synchronous_commit on: two commits are in the second line."
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
