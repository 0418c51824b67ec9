//! The time from the commit of a put until one of several waiting consumers holds the task. For comparison, in turn:
//! hand-written SQL with LISTEN and NOTIFY, and pgmq, which polls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use postgres::Client;
use postgres::fallible_iterator::FallibleIterator;

use crate::effort::Effort;
use crate::numbers::{Sample, milliseconds};
use crate::peer::Peers;
use crate::report::Section;
use crate::{Result, database, watchdog};

const TABLES: &str = "
    SELECT xqueue.create('measure.woken');
    CREATE TABLE measure.notified (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                                   payload jsonb, status \"char\" NOT NULL DEFAULT 'R', owner int);
    CREATE INDEX ON measure.notified (id) WHERE status = 'R';";
const CONSUMERS: [usize; 3] = [1, 16, 100];
/// synchronous_commit of all connections.
const COMMITS: [&str; 2] = ["on", "off"];
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest wait of a consumer before it checks for the end of the measurement.
const WAIT: Duration = Duration::from_secs(2);
/// Pause before each put, in which all consumers fall asleep.
const LULL: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, PartialEq)]
enum Method {
    Xqueue,
    Notify,
    Pgmq,
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Method::Xqueue => "xqueue.take('q', '2s')",
            Method::Notify => "LISTEN + UPDATE … SKIP LOCKED",
            Method::Pgmq => "pgmq.read_with_poll",
        }
    }

    fn put(self) -> &'static str {
        match self {
            Method::Xqueue => "SELECT xqueue.put('measure.woken', '{\"payload\": {\"n\": 1}}')",
            Method::Notify => {
                "WITH new AS (INSERT INTO measure.notified (payload) VALUES ('{\"n\": 1}'))
                 SELECT pg_notify('measure', '')"
            }
            Method::Pgmq => "SELECT pgmq.send('measure', '{\"n\": 1}'::jsonb)",
        }
    }

    fn take(self) -> &'static str {
        match self {
            Method::Xqueue => {
                "SELECT (task->>'id')::bigint FROM xqueue.take('measure.woken', '2s') task"
            }
            Method::Notify => {
                "UPDATE measure.notified SET status = 'T', owner = pg_backend_pid()
                 WHERE id = (SELECT id FROM measure.notified WHERE status = 'R' ORDER BY id
                             FOR UPDATE SKIP LOCKED LIMIT 1)
                 RETURNING id, payload"
            }
            Method::Pgmq => "SELECT msg_id, message FROM pgmq.read_with_poll('measure', 30, 1, 2)",
        }
    }

    fn ack(self) -> &'static str {
        match self {
            Method::Xqueue => "SELECT xqueue.ack('measure.woken', $1::bigint)",
            Method::Notify => "DELETE FROM measure.notified WHERE id = $1 RETURNING id",
            Method::Pgmq => "SELECT pgmq.delete('measure', $1::bigint)",
        }
    }
}

pub fn measure(effort: &Effort, peers: &mut Peers) -> Result<Section> {
    let mut db = database::connect("xqueue measure")?;
    db.batch_execute(TABLES)?;
    let mut methods = vec![Method::Xqueue, Method::Notify];
    if let Some(pgmq) = peers.named("pgmq") {
        pgmq.fill(0, "off")?;
        methods.push(Method::Pgmq);
    }
    let mut rows = Vec::new();
    for consumers in CONSUMERS {
        for commit in COMMITS {
            watchdog::enter(format!("{consumers} who wait, synchronous_commit {commit}"));
            for method in &methods {
                let mut crowd = Crowd::new(*method, consumers, commit)?;
                for _ in 0..effort.wakes {
                    crowd.round(&mut db)?;
                }
                let (sent, returned) = crowd.finish()?;
                let times = [sent.median(), sent.percentile(0.99)];
                let times = times.into_iter().chain([returned.median(), returned.percentile(0.99)]);
                let names = [method.name().into(), consumers.to_string(), commit.into()];
                rows.push(names.into_iter().chain(times.map(milliseconds)).collect());
            }
        }
    }
    Ok(Section {
        title: "A waiting consumer has the task that was put",
        header: vec![
            "consumer",
            "waiting",
            "synchronous_commit",
            "since COMMIT was sent: median",
            "p99",
            "since it returned: median",
            "p99",
        ],
        rows,
        notes: vec![format!(
            "{} tasks each, one at a time. Until the consumer's statement has returned with the task: the \
             commit of the take (and its flush, with synchronous_commit on) is in it. Negative: the consumer \
             had the task before the producer knew that its commit was done.",
            effort.wakes
        )],
        plot: None,
    })
}

/// Returns the median of xqueue's wake-ups since COMMIT was sent, in microseconds.
pub fn median(consumers: usize, commit: &str, wakes: usize) -> Result<f64> {
    let mut db = database::connect("xqueue measure")?;
    db.batch_execute(TABLES)?;
    let mut crowd = Crowd::new(Method::Xqueue, consumers, commit)?;
    for _ in 0..wakes {
        crowd.round(&mut db)?;
    }
    Ok(crowd.finish()?.0.median())
}

/// The result of a consumer's wake-up.
enum Event {
    Taken(Instant),
    InVain,
}

/// A producer and waiting consumers, and their measured times.
struct Crowd {
    method: Method,
    producer: Client,
    events: Receiver<Event>,
    over: Arc<AtomicBool>,
    consumers: Vec<JoinHandle<std::result::Result<(), String>>>,
    sent: Sample,
    returned: Sample,
}

impl Crowd {
    fn new(method: Method, size: usize, commit: &str) -> Result<Crowd> {
        let setting = format!("SET synchronous_commit = {commit}");
        let mut producer = database::connect("xqueue measure producer")?;
        producer.batch_execute(&setting)?;
        let over = Arc::new(AtomicBool::new(false));
        let (sender, events) = mpsc::channel();
        let mut consumers = Vec::new();
        for _ in 0..size {
            let mut db = database::connect("xqueue measure consumer")?;
            db.batch_execute(&setting)?;
            if method == Method::Notify {
                db.batch_execute("LISTEN measure")?;
            }
            let (over, sender) = (over.clone(), sender.clone());
            consumers.push(thread::spawn(move || {
                consume(method, &mut db, &over, &sender).map_err(|error| error.to_string())
            }));
        }
        let (sent, returned) = (Sample::default(), Sample::default());
        Ok(Crowd { method, producer, events, over, consumers, sent, returned })
    }

    fn round(&mut self, db: &mut Client) -> Result<()> {
        if self.method == Method::Xqueue {
            until_waiting(db, self.consumers.len())?;
        }
        sleep(LULL);
        let mut transaction = self.producer.transaction()?;
        transaction.execute(self.method.put(), &[])?;
        let sent = Instant::now();
        transaction.commit()?;
        let returned = Instant::now();
        // A notification wakes all listeners. The producer waits for all of them, so that they sleep before the next
        // put.
        let awake = if self.method == Method::Notify { self.consumers.len() } else { 1 };
        for _ in 0..awake {
            if let Event::Taken(taken) = self.events.recv_timeout(PATIENCE)? {
                self.sent.add(signed(taken, sent));
                self.returned.add(signed(taken, returned));
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<(Sample, Sample)> {
        self.over.store(true, Ordering::Relaxed);
        for consumer in self.consumers {
            consumer.join().map_err(|_| "a consumer panicked")??;
        }
        Ok((self.sent, self.returned))
    }
}

fn consume(
    method: Method,
    db: &mut Client,
    over: &AtomicBool,
    events: &Sender<Event>,
) -> Result<()> {
    let (take, ack) = (db.prepare(method.take())?, db.prepare(method.ack())?);
    while !over.load(Ordering::Relaxed) {
        if method == Method::Notify && db.notifications().timeout_iter(WAIT).next()?.is_none() {
            continue;
        }
        match db.query_opt(&take, &[])? {
            Some(task) => {
                let now = Instant::now();
                db.execute(&ack, &[&task.get::<_, i64>(0)])?;
                events.send(Event::Taken(now))?;
            }
            None if method == Method::Notify => events.send(Event::InVain)?,
            None => {}
        }
    }
    Ok(())
}

fn until_waiting(db: &mut Client, consumers: usize) -> Result<()> {
    let begin = Instant::now();
    loop {
        let stats = "SELECT (xqueue.stats('measure.woken')->>'consumers')::int";
        if db.query_one(stats, &[])?.get::<_, i32>(0) as usize == consumers {
            return Ok(());
        }
        if begin.elapsed() > PATIENCE {
            return Err("the consumers do not wait".into());
        }
    }
}

/// Returns the microseconds from `earlier` to `later`, negative in the reverse order.
fn signed(later: Instant, earlier: Instant) -> f64 {
    let before = earlier.saturating_duration_since(later).as_secs_f64();
    (later.saturating_duration_since(earlier).as_secs_f64() - before) * 1e6
}
