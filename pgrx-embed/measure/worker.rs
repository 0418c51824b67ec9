//! The worker: a million tasks due in the same instant while other tasks are taken, and idle queues.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use postgres::Client;

use crate::effort::Effort;
use crate::numbers::{Sample, milliseconds};
use crate::report::{Section, row};
use crate::{Result, database, watchdog};

/// Ready tasks have greater keys than the delayed ones, and are taken meanwhile.
const FLOOD: &str = "
    SELECT xqueue.create('measure.flood', '{\"features\": {\"delayed\": true}}');
    INSERT INTO measure.flood (payload, runat)
    SELECT '{}', now() + interval '{lead} seconds' FROM generate_series(1, {count});
    INSERT INTO measure.flood (payload) SELECT '{}' FROM generate_series(1, 10000);";
const WAITING: &str = "SELECT (xqueue.stats('measure.flood')->'tasks'->>'waiting')::bigint";
const IDLE: &str =
    "SELECT count(xqueue.create('measure.idle_' || n)) FROM generate_series(1, $1::int) n";
const WORKERS: &str = "SELECT pid FROM pg_stat_activity WHERE backend_type LIKE 'xqueue%'";
/// Pause between two counts of the waiting tasks.
const LOOK: Duration = Duration::from_millis(5);

pub fn flood(effort: &Effort) -> Result<Section> {
    let mut db = database::connect("xqueue measure")?;
    let count = effort.deep;
    // Long enough for the INSERT to end before the first task is due.
    let lead = 5 + count / 40_000;
    let sql = FLOOD.replace("{count}", &count.to_string()).replace("{lead}", &lead.to_string());
    db.batch_execute(&sql)?;
    db.batch_execute("VACUUM ANALYZE measure.flood")?;
    if waiting(&mut db)? < i64::from(count) {
        return Err("the first tasks were due before the last was put".into());
    }
    let quiet = takes(Duration::from_secs(effort.seconds.into()))?;
    watchdog::enter("waiting for the flood");
    while waiting(&mut db)? == i64::from(count) {
        sleep(LOOK);
    }
    let begin = Instant::now();
    let over = AtomicBool::new(false);
    let (promoted, busy) = thread::scope(|scope| -> Result<_> {
        let taker = scope.spawn(|| {
            takes_until(|| over.load(Ordering::Relaxed)).map_err(|error| error.to_string())
        });
        watchdog::enter("the flood");
        let outcome = drain(&mut db);
        over.store(true, Ordering::Relaxed);
        let busy = taker.join().map_err(|_| "the consumer panicked")??;
        outcome?;
        Ok((begin.elapsed(), busy))
    })?;
    let rate = f64::from(count) / promoted.as_secs_f64();
    db.batch_execute("DROP TABLE measure.flood")?;
    Ok(Section {
        title: "Many tasks due at once",
        header: vec!["a take and its commit", "n", "median", "p99", "max"],
        rows: vec![row("before", quiet.cells()), row("meanwhile", busy.cells())],
        notes: vec![format!(
            "{count} tasks were due at the same time; they were ready {} later: {rate:.0} per second. One \
             consumer takes and acks, synchronous_commit off.",
            milliseconds(promoted.as_secs_f64() * 1e6)
        )],
        plot: None,
    })
}

fn waiting(db: &mut Client) -> Result<i64> {
    Ok(db.query_one(WAITING, &[])?.get(0))
}

fn drain(db: &mut Client) -> Result<()> {
    while waiting(db)? > 0 {
        sleep(LOOK);
    }
    Ok(())
}

fn takes(time: Duration) -> Result<Sample> {
    let begin = Instant::now();
    takes_until(|| begin.elapsed() > time)
}

/// Returns the latency of each take.
fn takes_until(over: impl Fn() -> bool) -> Result<Sample> {
    let mut db = database::connect("xqueue measure consumer")?;
    db.batch_execute("SET synchronous_commit = off")?;
    let take = db.prepare("SELECT id FROM xqueue.take(NULL::measure.flood)")?;
    let ack = db.prepare("SELECT id FROM xqueue.ack(NULL::measure.flood, $1::bigint)")?;
    let mut times = Sample::default();
    while !over() {
        let begin = Instant::now();
        let task = db.query_opt(&take, &[])?;
        times.add_duration(begin.elapsed());
        if let Some(task) = task {
            db.execute(&ack, &[&task.get::<_, i64>(0)])?;
        }
    }
    Ok(times)
}

pub fn idle(effort: &Effort) -> Result<Section> {
    let mut db = database::connect("xqueue measure")?;
    let mut rows = Vec::new();
    for queues in [0, effort.idle_queues] {
        db.execute(IDLE, &[&queues])?;
        // Lets the worker count the new queues first.
        sleep(Duration::from_secs(2));
        let (before, begin) = (processor_time(&mut db)?, Instant::now());
        sleep(Duration::from_secs(u64::from(effort.seconds) * 2));
        let used = processor_time(&mut db)? - before;
        let share = 100.0 * used / begin.elapsed().as_secs_f64();
        rows.push(vec![queues.to_string(), format!("{share:.2} %")]);
    }
    for n in 1..=effort.idle_queues {
        db.batch_execute(&format!("DROP TABLE measure.idle_{n}"))?;
    }
    Ok(Section {
        title: "Queues in which nothing happens",
        header: vec!["queues more", "processor time of all workers"],
        rows,
        notes: vec!["Of one processor.".into()],
        plot: None,
    })
}

/// Returns the processor seconds of the extension's workers, in steps of 10 ms.
fn processor_time(db: &mut Client) -> Result<f64> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let mut ticks = 0.0;
    for worker in db.query(WORKERS, &[])? {
        let stat = fs::read_to_string(format!("/proc/{}/stat", worker.get::<_, i32>(0)))?;
        // The name in parentheses can contain spaces. User and system time are the 12th and 13th field after it.
        let (_, fields) = stat.rsplit_once(')').ok_or("/proc has no name of a process")?;
        for field in fields.split_whitespace().skip(11).take(2) {
            ticks += field.parse::<f64>()?;
        }
    }
    Ok(ticks / TICKS_PER_SECOND)
}
