//! Producers and consumers that do not know the current features of the queue.

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use postgres::{Error, Statement};
use rand::Rng;
use rand::rngs::StdRng;
use xqueue_tests::*;

use super::ledger::Ledger;

/// Number of open tasks beyond which producers pause.
const ENOUGH: usize = 150;

/// State shared by all threads.
pub struct Place {
    pub q: String,
    /// The key is (part, id).
    pub is_composite: bool,
    pub ledger: Ledger,
    /// Held for reading by working threads, for writing by a thread that needs all others stopped.
    pub gate: RwLock<()>,
    pub is_open: AtomicBool,
    /// Number of calls so far.
    pub calls: AtomicUsize,
}

impl Place {
    pub fn of(q: &mut Queue, is_composite: bool) -> Place {
        // A user trigger records the deleted tasks and their last states.
        q.sql(
            "CREATE TABLE {q}_gone (id bigint, status text);
             CREATE FUNCTION {q}_note() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN INSERT INTO public.{q}_gone VALUES (OLD.id, OLD.status); RETURN NULL; END $$;
             CREATE TRIGGER note AFTER DELETE ON {q} FOR EACH ROW EXECUTE FUNCTION {q}_note()",
        );
        Place {
            q: q.name.clone(),
            is_composite,
            ledger: Ledger::default(),
            gate: RwLock::new(()),
            is_open: AtomicBool::new(true),
            calls: AtomicUsize::new(0),
        }
    }

    /// Returns a task's key as an SQL expression.
    fn key(&self, id: impl std::fmt::Display) -> String {
        if self.is_composite { format!("ROW(0, {id})") } else { id.to_string() }
    }

    /// Counts a call, and returns false once the test is ending.
    fn is_open(&self) -> bool {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.is_open.load(Ordering::SeqCst)
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
    while place.is_open() {
        if place.ledger.open() > ENOUGH {
            // The consumers have to catch up.
            c.run("SELECT pg_sleep(0.003)");
            continue;
        }
        let _gate = place.gate.read().unwrap();
        let put = match random.random_range(0..3) {
            0 => c.query(&plain, &[q, &json!([{}, {"payload": 1}])]),
            1 => c.query(&format!("INSERT INTO {q} DEFAULT VALUES RETURNING to_jsonb({q})"), &[]),
            _ => {
                let options = [
                    ", delay => '20 milliseconds'",
                    ", delay => '1 hour'",
                    ", ttl => '1 hour'",
                    ", ttr => '1 hour'",
                    ", priority => -1",
                    ", tube => 'a'",
                ];
                let option = some(&mut random, &options);
                c.query(&format!("SELECT xqueue.put('{q}', '{{}}'{option})"), &[])
            }
        };
        match put {
            Ok(rows) => {
                let mut known = place.ledger.put.lock().unwrap();
                known.extend(rows.iter().map(|row| id(&row.get(0))));
            }
            Err(e) => allow_off(&e),
        }
    }
}

pub fn consume(place: &Place, random: StdRng) {
    Consumer::new(place, random).work();
}

struct Consumer<'place> {
    place: &'place Place,
    random: StdRng,
    c: Client,
    session: String,
    take: Statement,
    ack: Statement,
    mine: Vec<i64>,
}

impl Consumer<'_> {
    fn new(place: &Place, random: StdRng) -> Consumer<'_> {
        let mut c = connect();
        let take = "SELECT xqueue.take($1::text, $2::text::interval, $3)";
        let ack = format!("SELECT xqueue.ack($1::text, {})", place.key("$2::bigint"));
        Consumer {
            place,
            random,
            session: scalar(&mut c, "SELECT xqueue.identify()::text", &[]),
            take: c.prepare(take).expect("it can be prepared"),
            ack: c.prepare(&ack).expect("it can be prepared"),
            c,
            mine: vec![],
        }
    }

    /// Works until the test ends, then releases its tasks.
    fn work(mut self) {
        while self.place.is_open() {
            let _gate = self.place.gate.read().unwrap();
            match self.random.random_range(0..100) {
                0 => {
                    self.forget_all();
                    self = Consumer::new(self.place, self.random);
                }
                1..6 => self.transaction(),
                6..8 => self.dig(),
                _ if self.mine.len() < 3 => self.take(),
                _ => self.end_one(),
            }
        }
        self.forget_all();
    }

    fn forget_all(&mut self) {
        self.mine.drain(..).for_each(|id| self.place.ledger.end_lease(id));
    }

    fn take(&mut self) {
        let q = &self.place.q;
        let count = self.random.random_range(1..3);
        let tasks = if self.random.random_bool(0.6) {
            let timeout = if self.random.random_bool(0.5) { "0" } else { "20 milliseconds" };
            self.c.query(&self.take, &[q, &timeout, &count])
        } else {
            let options =
                [", tube => 'a'", ", ttr => '1 hour'", ", timeout => '10ms', tube => 'b'"];
            let option = some(&mut self.random, &options);
            let (queue, task) = if self.random.random_bool(0.5) {
                (format!("'{q}'"), "t")
            } else {
                (format!("NULL::{q}"), "to_jsonb(t)")
            };
            let sql =
                format!("SELECT {task} FROM xqueue.take({queue}, count => {count}{option}) AS t");
            self.c.query(&sql, &[])
        };
        match tasks {
            Ok(tasks) => {
                for task in tasks.iter().map(|row| id(&row.get(0))) {
                    self.place.ledger.lease(task, &self.session);
                    self.mine.push(task);
                }
            }
            // Columns were added between planning the query and running it.
            Err(e) if db_error(&e).message().ends_with("changed since this query was planned") => {
                assert_eq!(code(&e), "0A000", "{e:?}");
            }
            Err(e) => allow_off(&e),
        }
    }

    fn end_one(&mut self) {
        let (q, ledger) = (&self.place.q, &self.place.ledger);
        let task = self.mine.remove(self.random.random_range(0..self.mine.len()));
        if self.random.random_bool(0.4) {
            ledger.end_lease(task);
            self.c.query(&self.ack, &[q, &task]).unwrap_or_else(|e| panic!("thrown out: {e:?}"));
            ledger.ack(task);
            return;
        }
        let key = self.place.key(task);
        let call = match self.random.random_range(0..6) {
            0 => format!("ack('{q}', {key}, delay => '20 milliseconds')"),
            1 => format!("release('{q}', {key}, delay => '20 milliseconds')"),
            2 => format!("release('{q}', {key})"),
            3 => format!("touch('{q}', {key}, '1 hour')"),
            4 => format!("bury('{q}', {key}, '{{\"payload\": 2}}')"),
            _ => format!("release('{q}', {key}, ttl => '1 hour')"),
        };
        let ends = !call.starts_with("touch");
        if ends {
            ledger.end_lease(task);
        }
        let stays = match self.c.query(&format!("SELECT xqueue.{call}"), &[]) {
            Ok(rows) => {
                assert_eq!(rows.len(), 1, "{call}");
                if call.starts_with("ack") {
                    ledger.ack(task);
                }
                !ends
            }
            Err(e) => {
                allow_off(&e);
                true
            }
        };
        if stays {
            if ends {
                ledger.lease(task, &self.session);
            }
            self.mine.push(task);
        }
    }

    /// Takes, acks and commits in one transaction, which makes a switch wait.
    fn transaction(&mut self) {
        let (q, ledger) = (&self.place.q, &self.place.ledger);
        let mut transaction = self.c.transaction().expect("BEGIN");
        let _stats = transaction.query("SELECT xqueue.stats($1::text)", &[q]).expect("stats");
        let tasks = transaction.query(&self.take, &[q, &"0", &2]);
        let tasks = tasks.unwrap_or_else(|e| panic!("thrown out: {e:?}"));
        let tasks: Vec<i64> = tasks.iter().map(|row| id(&row.get(0))).collect();
        tasks.iter().for_each(|task| ledger.lease(*task, &self.session));
        for task in &tasks {
            let acked = transaction.query(&self.ack, &[q, task]);
            assert_eq!(acked.unwrap_or_else(|e| panic!("thrown out: {e:?}")).len(), 1);
        }
        tasks.iter().for_each(|task| ledger.end_lease(*task));
        if self.random.random_bool(0.7) {
            transaction.commit().expect("COMMIT");
            tasks.iter().for_each(|task| ledger.ack(*task));
        }
    }

    /// Revives buried tasks and tasks delayed by an hour.
    fn dig(&mut self) {
        let q = &self.place.q;
        if let Err(e) = try_sql(&mut self.c, &format!("SELECT xqueue.kick('{q}', 5)")) {
            allow_off(&e);
        }
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
