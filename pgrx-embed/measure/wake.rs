//! How long a waiting consumer takes to have a task in hand, after the commit of its put; beside
//! it, in turn, what LISTEN, NOTIFY and SQL written by hand take.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use postgres::Client;
use postgres::fallible_iterator::FallibleIterator;

use crate::effort::Effort;
use crate::numbers::Sample;
use crate::report::{Section, row};
use crate::{Result, database};

const TABLES: &str = "
    SELECT xqueue.create('measure.woken');
    CREATE TABLE measure.notified (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                                   payload jsonb, status \"char\" NOT NULL DEFAULT 'R', owner int);
    CREATE INDEX ON measure.notified (id) WHERE status = 'R';";
/// synchronous_commit of the producer and of the consumer. Where only the producer's is on, its
/// task is safe and the consumer's own flush is not measured.
const COMMITS: [(&str, &str); 3] = [("on", "on"), ("on", "off"), ("off", "off")];
const PATIENCE: Duration = Duration::from_secs(30);
/// So that, each time, everybody sleeps before the put.
const LULL: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, PartialEq)]
enum Method {
    Xqueue,
    Notify,
}

impl Method {
    const ALL: [Method; 2] = [Method::Xqueue, Method::Notify];

    fn name(self) -> &'static str {
        match self {
            Method::Xqueue => "xqueue.take('q', '30s')",
            Method::Notify => "LISTEN + UPDATE … SKIP LOCKED",
        }
    }

    fn put(self) -> &'static str {
        match self {
            Method::Xqueue => "SELECT xqueue.put('measure.woken', '{\"payload\": {\"n\": 1}}')",
            Method::Notify => {
                "WITH new AS (INSERT INTO measure.notified (payload) VALUES ('{\"n\": 1}'))
                 SELECT pg_notify('measure', '')"
            }
        }
    }

    fn take(self) -> &'static str {
        match self {
            Method::Xqueue => {
                "SELECT (task->>'id')::bigint FROM xqueue.take('measure.woken', '30s') task"
            }
            Method::Notify => {
                "UPDATE measure.notified SET status = 'T', owner = pg_backend_pid()
                 WHERE id = (SELECT id FROM measure.notified WHERE status = 'R' ORDER BY id
                             FOR UPDATE SKIP LOCKED LIMIT 1)
                 RETURNING id, payload"
            }
        }
    }

    fn ack(self) -> &'static str {
        match self {
            Method::Xqueue => "SELECT xqueue.ack('measure.woken', $1::bigint)",
            Method::Notify => "DELETE FROM measure.notified WHERE id = $1 RETURNING id",
        }
    }
}

pub fn measure(effort: &Effort) -> Result<Section> {
    let mut db = database::connect("xqueue measure")?;
    db.batch_execute(TABLES)?;
    let mut rows = Vec::new();
    for commits in COMMITS {
        let mut racers = Vec::new();
        for method in Method::ALL {
            racers.push(Racer::new(method, commits)?);
        }
        for _ in 0..effort.wakes {
            for racer in &mut racers {
                racer.round(&mut db)?;
            }
        }
        for racer in racers {
            let (method, sent, returned) = racer.finish()?;
            for (since, sample) in [("sent", sent), ("returned", returned)] {
                let settings = [commits.0, commits.1, since].map(String::from);
                rows.push(row(method.name(), settings.into_iter().chain(sample.cells())));
            }
        }
    }
    Ok(Section {
        title: "A waiting consumer has the task that was put",
        header: vec![
            "consumer",
            "put's commit",
            "take's commit",
            "since COMMIT was",
            "n",
            "median",
            "p99",
            "max",
        ],
        rows,
        notes: vec![
            "Until the consumer's statement has returned with the task: the commit of the take (and \
             its flush, with synchronous_commit on) is in it. The commits: synchronous_commit of the \
             producer and of the consumer. Negative: the consumer had the task before the producer \
             knew that its commit was done. The methods alternate."
                .into(),
        ],
    })
}

/// A producer and a waiting consumer, and what was measured of them.
struct Racer {
    method: Method,
    producer: Client,
    start: Sender<()>,
    taken: Receiver<Instant>,
    consumer: JoinHandle<std::result::Result<(), String>>,
    sent: Sample,
    returned: Sample,
}

impl Racer {
    fn new(method: Method, commits: (&str, &str)) -> Result<Racer> {
        let setting = |commit| format!("SET synchronous_commit = {commit}");
        let mut producer = database::connect("xqueue measure producer")?;
        let mut consumer = database::connect("xqueue measure consumer")?;
        producer.batch_execute(&setting(commits.0))?;
        consumer.batch_execute(&setting(commits.1))?;
        let (start, started) = mpsc::channel();
        let (take, taken) = mpsc::channel();
        let consumer = thread::spawn(move || {
            consume(method, &mut consumer, &started, &take).map_err(|error| error.to_string())
        });
        let (sent, returned) = (Sample::default(), Sample::default());
        Ok(Racer { method, producer, start, taken, consumer, sent, returned })
    }

    fn round(&mut self, db: &mut Client) -> Result<()> {
        self.start.send(())?;
        if self.method == Method::Xqueue {
            until_waiting(db)?;
        }
        sleep(LULL);
        let mut transaction = self.producer.transaction()?;
        transaction.execute(self.method.put(), &[])?;
        let sent = Instant::now();
        transaction.commit()?;
        let returned = Instant::now();
        let taken = self.taken.recv_timeout(PATIENCE)?;
        self.sent.add(signed(taken, sent));
        self.returned.add(signed(taken, returned));
        Ok(())
    }

    fn finish(self) -> Result<(Method, Sample, Sample)> {
        drop(self.start);
        self.consumer.join().map_err(|_| "the consumer panicked")??;
        Ok((self.method, self.sent, self.returned))
    }
}

fn consume(
    method: Method,
    db: &mut Client,
    started: &Receiver<()>,
    taken: &Sender<Instant>,
) -> Result<()> {
    let (take, ack) = (db.prepare(method.take())?, db.prepare(method.ack())?);
    if method == Method::Notify {
        db.batch_execute("LISTEN measure")?;
    }
    while started.recv().is_ok() {
        if method == Method::Notify {
            let notice = db.notifications().timeout_iter(PATIENCE).next()?;
            notice.ok_or("no notification came")?;
        }
        let task = db.query_one(&take, &[])?;
        let now = Instant::now();
        db.execute(&ack, &[&task.get::<_, i64>(0)])?;
        taken.send(now)?;
    }
    Ok(())
}

fn until_waiting(db: &mut Client) -> Result<()> {
    let begin = Instant::now();
    loop {
        let stats = "SELECT (xqueue.stats('measure.woken')->>'consumers')::int";
        if db.query_one(stats, &[])?.get::<_, i32>(0) > 0 {
            return Ok(());
        }
        if begin.elapsed() > PATIENCE {
            return Err("the consumer does not wait".into());
        }
    }
}

/// Microseconds from `earlier` to `later`, less than zero if it was the other way round.
fn signed(later: Instant, earlier: Instant) -> f64 {
    let before = earlier.saturating_duration_since(later).as_secs_f64();
    (later.saturating_duration_since(earlier).as_secs_f64() - before) * 1e6
}
