//! Producers and consumers that do not know the current features of the queue.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use postgres::{Error, Statement};
use rand::Rng;
use rand::rngs::StdRng;
use xqueue_tests::*;

/// Number of open tasks beyond which producers pause.
const ENOUGH: usize = 150;

/// State shared by all threads.
pub struct Place {
    q: String,
    /// The tasks whose puts and acks are committed.
    pub put: Mutex<BTreeSet<i64>>,
    pub acked: Mutex<BTreeSet<i64>>,
    is_closed: AtomicBool,
    /// Number of calls so far.
    pub calls: AtomicUsize,
}

/// Ends the threads when it is dropped.
pub struct Close<'place>(pub &'place Place);

impl Drop for Close<'_> {
    fn drop(&mut self) {
        self.0.is_closed.store(true, Ordering::SeqCst);
    }
}

impl Place {
    pub fn of(q: &Queue) -> Place {
        Place {
            q: q.name.clone(),
            put: Mutex::default(),
            acked: Mutex::default(),
            is_closed: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
        }
    }

    /// Counts a call, and returns false once the test is ending.
    fn is_open(&self) -> bool {
        self.calls.fetch_add(1, Ordering::SeqCst);
        !self.is_closed.load(Ordering::SeqCst)
    }

    /// Returns the number of tasks put and not yet acked.
    fn open(&self) -> usize {
        self.put.lock().unwrap().len().saturating_sub(self.acked.lock().unwrap().len())
    }

    fn note_ack(&self, task: i64) {
        assert!(self.acked.lock().unwrap().insert(task), "task {task} was acked before");
    }
}

/// Asserts that the error is a switched-off feature, the only error that is allowed.
#[track_caller]
fn allow_off(e: &Error) {
    let is_off = code(e) == "0A000" && db_error(e).message().ends_with("is not enabled");
    assert!(is_off, "thrown out: {e:?}");
}

fn some<'a>(random: &mut StdRng, options: &[&'a str]) -> &'a str {
    if random.random_bool(0.5) { "" } else { options[random.random_range(0..options.len())] }
}

pub fn produce(place: &Place, mut random: StdRng) {
    let (mut c, q) = (connect(), &place.q);
    let plain = c.prepare("SELECT xqueue.put($1::text, $2::jsonb)").expect("it can be prepared");
    let options = [
        ", delay => '20 milliseconds'",
        ", delay => '1 hour'",
        ", ttl => '1 hour'",
        ", ttr => '1 hour'",
        ", priority => -1",
        ", tube => 'a'",
    ];
    while place.is_open() {
        if place.open() > ENOUGH {
            // The consumers have to catch up.
            c.run("SELECT pg_sleep(0.003)");
            continue;
        }
        let put = match random.random_range(0..3) {
            0 => c.query(&plain, &[q, &json!([{}, {"payload": 1}])]),
            1 => c.query(&format!("INSERT INTO {q} DEFAULT VALUES RETURNING to_jsonb({q})"), &[]),
            _ => {
                let option = some(&mut random, &options);
                c.query(&format!("SELECT xqueue.put('{q}', '{{}}'{option})"), &[])
            }
        };
        match put {
            Ok(rows) => place.put.lock().unwrap().extend(rows.iter().map(|row| id(&row.get(0)))),
            Err(e) => allow_off(&e),
        }
    }
}

struct Consumer<'place> {
    place: &'place Place,
    c: Client,
    take: Statement,
    ack: Statement,
}

/// Works until the test ends; the tasks that the consumer still has come back.
pub fn consume(place: &Place, mut random: StdRng) {
    let (mut consumer, mut mine) = (Consumer::new(place), vec![]);
    while place.is_open() {
        match random.random_range(0..100) {
            0 => (consumer, mine) = (Consumer::new(place), vec![]),
            1..6 => consumer.take_and_ack(random.random_bool(0.7)),
            6..8 => consumer.kick(),
            _ if mine.len() < 3 => mine.extend(consumer.take(&mut random)),
            _ => {
                let task = mine.swap_remove(random.random_range(0..mine.len()));
                mine.extend(consumer.settle(task, &mut random));
            }
        }
    }
}

impl Consumer<'_> {
    fn new(place: &Place) -> Consumer<'_> {
        let mut c = connect();
        let take = "SELECT xqueue.take($1::text, $2::text::interval, $3)";
        let ack = "SELECT xqueue.ack($1::text, $2::bigint)";
        Consumer {
            place,
            take: c.prepare(take).expect("it can be prepared"),
            ack: c.prepare(ack).expect("it can be prepared"),
            c,
        }
    }

    fn take(&mut self, random: &mut StdRng) -> Vec<i64> {
        let q = &self.place.q;
        let count = random.random_range(1..3);
        let tasks = if random.random_bool(0.6) {
            let timeout = if random.random_bool(0.5) { "0" } else { "20 milliseconds" };
            self.c.query(&self.take, &[q, &timeout, &count])
        } else {
            let options =
                [", tube => 'a'", ", ttr => '1 hour'", ", timeout => '10ms', tube => 'b'"];
            let option = some(random, &options);
            let (queue, task) = if random.random_bool(0.5) {
                (format!("'{q}'"), "t")
            } else {
                (format!("NULL::{q}"), "to_jsonb(t)")
            };
            let sql =
                format!("SELECT {task} FROM xqueue.take({queue}, count => {count}{option}) AS t");
            self.c.query(&sql, &[])
        };
        match tasks {
            Ok(tasks) => return tasks.iter().map(|row| id(&row.get(0))).collect(),
            // Columns were added between planning the query and running it.
            Err(e) if db_error(&e).message().ends_with("changed since this query was planned") => {
                assert_eq!(code(&e), "0A000", "{e:?}");
            }
            Err(e) => allow_off(&e),
        }
        vec![]
    }

    /// Ends a task in some way, or prolongs it. Returns the task if the consumer still has it.
    fn settle(&mut self, task: i64, random: &mut StdRng) -> Option<i64> {
        let q = &self.place.q;
        let call = match random.random_range(0..10) {
            0 => format!("ack('{q}', {task}, delay => '20 milliseconds')"),
            1 => format!("release('{q}', {task}, delay => '20 milliseconds')"),
            2 => format!("release('{q}', {task})"),
            3 => format!("touch('{q}', {task}, '1 hour')"),
            4 => format!("bury('{q}', {task}, '{{\"payload\": 2}}')"),
            5 => format!("release('{q}', {task}, ttl => '1 hour')"),
            _ => "ack".into(),
        };
        let done = match call.as_str() {
            "ack" => self.c.query(&self.ack, &[q, &task]),
            call => self.c.query(&format!("SELECT xqueue.{call}"), &[]),
        };
        match done {
            Ok(rows) => assert_eq!(rows.len(), 1, "{call}"),
            Err(e) => {
                allow_off(&e);
                return Some(task);
            }
        }
        if call.starts_with("ack") {
            self.place.note_ack(task);
        }
        call.starts_with("touch").then_some(task)
    }

    /// Takes and acks in one transaction, which makes a switch wait.
    fn take_and_ack(&mut self, commits: bool) {
        let q = &self.place.q;
        let mut transaction = self.c.transaction().expect("BEGIN");
        let _stats = transaction.query("SELECT xqueue.stats($1::text)", &[q]).expect("stats");
        let tasks = transaction.query(&self.take, &[q, &"0", &2]).expect("it is not thrown out");
        let tasks: Vec<i64> = tasks.iter().map(|row| id(&row.get(0))).collect();
        for task in &tasks {
            let acked = transaction.query(&self.ack, &[q, task]).expect("it is not thrown out");
            assert_eq!(acked.len(), 1);
        }
        if commits {
            transaction.commit().expect("COMMIT");
            tasks.into_iter().for_each(|task| self.place.note_ack(task));
        }
    }

    /// Revives buried tasks.
    fn kick(&mut self) {
        let kick = format!("SELECT xqueue.kick('{}', 5)", self.place.q);
        try_sql(&mut self.c, &kick).unwrap_or_else(|e| allow_off(&e));
    }
}

/// Runs the hot reload of definitions, the check and the statistics, all the time.
pub fn watch(place: &Place, _: StdRng) {
    let (mut c, q) = (connect(), &place.q);
    while place.is_open() {
        c.run(&format!("SELECT xqueue.upgrade('{q}')"));
        let _stats: Value = scalar(&mut c, "SELECT xqueue.stats($1::text)", &[q]);
        let check: Value = scalar(&mut c, "SELECT xqueue.check($1::text)", &[q]);
        // A switch can hold the table's lock at this moment.
        let is_busy = check["problems"][0].as_str().is_some_and(|first| first.starts_with("busy"));
        assert!(is_busy || check["ok"] == json!(true), "{check}");
    }
}
