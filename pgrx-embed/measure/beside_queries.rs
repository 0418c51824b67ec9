//! Jobs arrive at a steady rate while overlapping long queries hold snapshots, so VACUUM can remove little at any time.
//! Does the backlog stay near zero?

use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use crate::effort::{BesideQueries, Effort};
use crate::peer::{Apart, Peers, Work};
use crate::pgbench::{Bench, Length, Script};
use crate::plot::{Lines, Plot};
use crate::report::Section;
use crate::{Result, database, watchdog};

pub const CASE: &str = "beside-queries";
const PER_SECOND: u32 = 800;
const CONSUMERS: u32 = 4;
const PRODUCERS: u32 = 2;
const COMMIT: &str = "off";
const QUERIES: u32 = 3;
/// The queries read this table once, and then keep their snapshot as long as a scan of a large table would.
const FACTS: &str = "
    CREATE TABLE IF NOT EXISTS measure.facts AS SELECT n FROM generate_series(1, 100000) n";
const QUERY: &str = "SELECT sum(n) FROM measure.facts, pg_sleep($1)";

/// The results of a contender.
struct Course {
    name: String,
    put: f64,
    /// The number of tasks at the end of each period.
    backlogs: Vec<f64>,
}

pub fn measure(effort: &Effort, peers: &mut Peers) -> Result<Section> {
    let mut db = database::connect("xqueue measure")?;
    db.batch_execute(FACTS)?;
    let BesideQueries { seconds, period, query } = effort.beside_queries;
    let mut courses = Vec::new();
    peers.each(Work::TakeAndAck, |peer| {
        let Some(apart) = peer.apart() else { return Ok(()) };
        watchdog::enter(format!("{} beside {QUERIES} queries", peer.name()));
        peer.fill(0, COMMIT)?;
        let (put, backlogs) = course(&apart, effort.beside_queries)?;
        courses.push(Course { name: peer.name().to_owned(), put, backlogs });
        Ok(())
    });
    let rows = courses.iter().map(|Course { name, put, backlogs }| {
        let most = backlogs.iter().copied().fold(0.0, f64::max);
        let last = backlogs.last().copied().unwrap_or(f64::NAN);
        vec![name.clone(), format!("{put:.0}"), format!("{most:.0}"), format!("{last:.0}")]
    });
    Ok(Section {
        title: "Backlog during long queries",
        header: vec!["by", "put per second", "most in the queue", "at the end"],
        rows: rows.collect(),
        notes: vec![format!(
            "{PRODUCERS} clients put {PER_SECOND} tasks per second for {seconds} s, {CONSUMERS} take and ack them, and look \
             again after 5 ms where there is none; synchronous_commit {COMMIT}. Meanwhile {QUERIES} sessions run queries of \
             {query} s, of which one begins every {} s, so that there is an old snapshot at any time. Counted every \
             {period} s.",
            query / QUERIES
        )],
        plot: Some(Plot::Lines(Lines {
            unit: "tasks in the queue",
            labels: (1..=seconds / period).map(|n| format!("{} s", n * period)).collect(),
            lines: courses.into_iter().map(|course| (course.name, course.backlogs)).collect(),
        })),
    })
}

fn course(apart: &Apart, length: BesideQueries) -> Result<(f64, Vec<f64>)> {
    let BesideQueries { seconds, period, query } = length;
    let end = Instant::now() + Duration::from_secs(seconds.into());
    let (put, consume) = (Script::new(&apart.put)?, Script::new(&apart.consume)?);
    let bench = |clients| Bench { clients, commit: COMMIT, length: Length::Seconds(seconds) };
    thread::scope(|scope| {
        let queries: Vec<_> = (0..QUERIES)
            .map(|place| {
                let begin = Duration::from_secs((place * query / QUERIES).into());
                scope.spawn(move || told(run_queries(begin, query, end)))
            })
            .collect();
        let consumers = scope.spawn(|| told(bench(CONSUMERS).run(&consume, &[])));
        let producers = scope.spawn(|| told(bench(PRODUCERS).run_at(PER_SECOND, &put)));
        let backlogs = watch(&apart.count, seconds / period, period);
        let put = producers.join().map_err(|_| "the producers panicked")??;
        consumers.join().map_err(|_| "the consumers panicked")??;
        for session in queries {
            session.join().map_err(|_| "a query panicked")??;
        }
        Ok((put.per_second, backlogs?))
    })
}

/// Runs one query after the other. No query runs past the end.
fn run_queries(begin: Duration, seconds: u32, end: Instant) -> Result<()> {
    let mut db = database::connect("xqueue measure query")?;
    sleep(begin);
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        db.execute(QUERY, &[&left.as_secs_f64().min(seconds.into())])?;
    }
    Ok(())
}

/// Returns the number of tasks at the end of each period.
fn watch(count: &str, periods: u32, seconds: u32) -> Result<Vec<f64>> {
    let mut db = database::connect("xqueue measure")?;
    let begin = Instant::now();
    let mut counts = Vec::new();
    for period in 1..=periods {
        let at = begin + Duration::from_secs((period * seconds).into());
        sleep(at.saturating_duration_since(Instant::now()));
        counts.push(db.query_one(count, &[])?.get::<_, i64>(0) as f64);
    }
    Ok(counts)
}

/// Converts an error so that it can leave its thread.
fn told<T>(outcome: Result<T>) -> std::result::Result<T, String> {
    outcome.map_err(|error| error.to_string())
}
