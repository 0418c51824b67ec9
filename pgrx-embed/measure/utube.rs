//! Sub-queues, with one task in flight each: the two benchmarks published for the utube of tarantool/queue, with and
//! without its ready_buffer.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use crate::effort::Effort;
use crate::report::Section;
use crate::{Result, database, watchdog};

/// Published results for many sub-queues: put, then take and ack.
const MANY_PUBLISHED: [&str; 2] = ["0.27 s", "1.7 s"];
/// Tasks of each of the few sub-queues, and the published results: with ready_buffer and without.
const SIZES: [(i64, &str, &str); 4] = [
    (1000, "0.45 s", "53 s"),
    (10_000, "4.7 s", "1.5 h"),
    (50_000, "26 s", "100 h"),
    (150_000, "72 s", "1000 h"),
];
const MANY: i64 = 30_000;
const FEW: i64 = 10;
/// Tasks in a put.
const BATCH: i64 = 1000;

const CREATE: &str = "
    DROP TABLE IF EXISTS measure.utube;
    SELECT xqueue.create('measure.utube', '{\"features\": {\"utube\": true}}');";
/// Puts the tasks with numbers $1 to $2, distributed over $3 sub-queues in turn.
const PUT: &str = "
    SELECT count(*) FROM xqueue.put('measure.utube', (
        SELECT jsonb_agg(jsonb_build_object('payload', n, 'tube', n % $3))
        FROM generate_series($1::bigint, $2::bigint) AS n))";
const TAKE: &str = "SELECT id FROM xqueue.take(NULL::measure.utube, '1 s')";
const ACK: &str = "SELECT count(*) FROM xqueue.ack(NULL::measure.utube, $1::bigint)";
const TAKE_MANY: &str = "SELECT id FROM xqueue.take(NULL::measure.utube, count => 100)";
const ACK_MANY: &str = "SELECT count(*) FROM xqueue.ack(NULL::measure.utube, $1::bigint[])";
const NEXT: &str = "CALL xqueue.next('measure.utube', '0.1 s', task => $1::text::jsonb)";

/// How consumers work.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    TakeAndAck,
    Next,
    /// A hundred tasks in a call.
    Batches,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::TakeAndAck => "take, ack",
            Way::Next => "CALL next",
            Way::Batches => "take and ack of 100",
        }
    }
}

pub fn measure(effort: &Effort) -> Result<Section> {
    let mut rows = Vec::new();
    for commit in ["on", "off"] {
        for way in [Way::TakeAndAck, Way::Next, Way::Batches] {
            watchdog::enter(format!("{MANY} sub-queues, {}, {commit}", way.name()));
            let put = fill(MANY, MANY, commit)?;
            let taken = empty(1, MANY, way, commit)?;
            rows.push(vec![
                format!("{MANY} × 1"),
                "1".into(),
                way.name().into(),
                commit.into(),
                seconds(put),
                seconds(taken),
                format!("{:.0}", MANY as f64 / taken),
                format!("put {}, take + ack {}", MANY_PUBLISHED[0], MANY_PUBLISHED[1]),
            ]);
        }
        for (size, with, without) in SIZES.into_iter().filter(|(size, ..)| *size <= effort.deepest)
        {
            // Millions of tasks take minutes, so only the fastest way runs them.
            let ways: &[Way] = match (size, commit) {
                (..=10_000, _) => &[Way::TakeAndAck, Way::Next],
                (_, "off") => &[Way::Next],
                _ => &[],
            };
            for way in ways.iter().copied() {
                watchdog::enter(format!("{FEW} sub-queues of {size}, {}, {commit}", way.name()));
                let put = fill(FEW * size, FEW, commit)?;
                let taken = empty(FEW as usize, FEW * size, way, commit)?;
                rows.push(vec![
                    format!("{FEW} × {size}"),
                    FEW.to_string(),
                    way.name().into(),
                    commit.into(),
                    seconds(put),
                    seconds(taken),
                    format!("{:.0}", (FEW * size) as f64 / taken),
                    format!("{with} ({without})"),
                ]);
            }
        }
    }
    Ok(Section {
        title: "Sub-queues (utube)",
        header: vec![
            "sub-queues × tasks",
            "consumers",
            "by",
            "synchronous_commit",
            "put",
            "take + ack",
            "tasks per second",
            "tarantool/queue with ready_buffer (without)",
        ],
        rows,
        notes: vec![format!(
            "Put by one client, {BATCH} tasks in a call; consumers are connections of one process, each \
             statement a transaction, \"next\" acks a task and takes another in one. The last column \
             holds the times published by the authors of tarantool/queue, measured on another machine \
             and inside the server, without a client in between; its tasks are in memory."
        )],
        plot: None,
    })
}

/// Puts tasks into this number of sub-queues, and returns the seconds that it took.
fn fill(tasks: i64, tubes: i64, commit: &str) -> Result<f64> {
    let mut db = connect(commit)?;
    db.batch_execute(CREATE)?;
    let put = db.prepare(PUT)?;
    let begin = Instant::now();
    for first in (0..tasks).step_by(BATCH as usize) {
        let last = (first + BATCH).min(tasks) - 1;
        db.query(&put, &[&first, &last, &tubes])?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    db.batch_execute("VACUUM ANALYZE measure.utube")?;
    db.batch_execute("CHECKPOINT")?;
    Ok(seconds)
}

/// Lets consumers take and ack all tasks, and returns the seconds that they took.
fn empty(consumers: usize, tasks: i64, way: Way, commit: &str) -> Result<f64> {
    let left = AtomicI64::new(tasks);
    let mut clients = Vec::new();
    for _ in 0..consumers {
        clients.push(connect(commit)?);
    }
    let begin = Instant::now();
    let outcomes: Vec<std::result::Result<(), String>> = std::thread::scope(|scope| {
        let consume = |db| {
            let left = &left;
            scope.spawn(move || consume(db, way, left).map_err(|error| crate::explain(&*error)))
        };
        let threads: Vec<_> = clients.into_iter().map(consume).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err("a consumer has panicked".into()))
        };
        threads.into_iter().map(join).collect()
    });
    let seconds = begin.elapsed().as_secs_f64();
    outcomes.into_iter().collect::<std::result::Result<(), String>>()?;
    Ok(seconds)
}

fn consume(mut db: postgres::Client, way: Way, left: &AtomicI64) -> Result<()> {
    let is_over = || left.load(Ordering::Relaxed) <= 0;
    match way {
        Way::TakeAndAck => {
            let (take, ack) = (db.prepare(TAKE)?, db.prepare(ACK)?);
            while !is_over() {
                for row in db.query(&take, &[])? {
                    db.query(&ack, &[&row.get::<_, i64>(0)])?;
                    left.fetch_sub(1, Ordering::Relaxed);
                }
            }
        }
        Way::Batches => {
            let (take, ack) = (db.prepare(TAKE_MANY)?, db.prepare(ACK_MANY)?);
            while !is_over() {
                let rows = db.query(&take, &[])?;
                let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
                db.query(&ack, &[&ids])?;
                left.fetch_sub(ids.len() as i64, Ordering::Relaxed);
            }
        }
        Way::Next => {
            let next = db.prepare(NEXT)?;
            let mut task: Option<Task> = None;
            while !is_over() || task.is_some() {
                let acked = i64::from(task.is_some());
                task = db.query_one(&next, &[&task.map(|task| task.0)])?.get(0);
                left.fetch_sub(acked, Ordering::Relaxed);
            }
        }
    }
    Ok(())
}

/// A task that the server sends as jsonb and accepts as text.
struct Task(String);

impl<'a> postgres::types::FromSql<'a> for Task {
    fn from_sql(
        _: &postgres::types::Type,
        raw: &'a [u8],
    ) -> std::result::Result<Task, Box<dyn std::error::Error + Sync + Send>> {
        // The first byte is the version of the format.
        let text = raw.get(1..).unwrap_or_default();
        Ok(Task(std::str::from_utf8(text)?.to_owned()))
    }

    fn accepts(kind: &postgres::types::Type) -> bool {
        *kind == postgres::types::Type::JSONB
    }
}

fn connect(commit: &str) -> Result<postgres::Client> {
    let mut db = database::connect("xqueue measure")?;
    db.batch_execute(&format!("SET synchronous_commit = {commit}"))?;
    Ok(db)
}

fn seconds(seconds: f64) -> String {
    format!("{seconds:.2} s")
}
