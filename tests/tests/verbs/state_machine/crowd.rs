//! Many threads on one queue, and the conditions that must hold when they end.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use xqueue_tests::*;

const PRODUCERS: u64 = 3;
const CONSUMERS: u64 = 5;
/// Statements per producer.
const PUTS: usize = 60;

pub struct Crowd {
    seed: u64,
    q: Queue,
}

/// The committed work of the threads.
#[derive(Default)]
struct Ledger {
    put: Mutex<Vec<i64>>,
    acked: Mutex<Vec<i64>>,
    producers_left: AtomicUsize,
}

impl Ledger {
    fn is_done(&self) -> bool {
        self.producers_left.load(Ordering::SeqCst) == 0
            && self.put.lock().unwrap().len() <= self.acked.lock().unwrap().len()
    }
}

impl Crowd {
    pub fn new(seed: u64) -> Crowd {
        let features = json!({
            "delayed": true, "buried": true, "ttr": "60 milliseconds", "priority": true,
            "retry": {"limit": 6, "backoff": "2 milliseconds", "max": "20 milliseconds"},
        });
        Crowd { seed, q: Queue::with("crowd", COLUMNS, &json!({"features": features})) }
    }

    pub fn run(mut self) {
        let ledger = Ledger::default();
        ledger.producers_left.store(PRODUCERS as usize, Ordering::SeqCst);
        let name = self.q.name.clone();
        std::thread::scope(|scope| {
            let (ledger, name) = (&ledger, name.as_str());
            let seed = self.seed;
            let random = move |n: u64| StdRng::seed_from_u64(seed.wrapping_add(n));
            let mut threads = Vec::new();
            for n in 0..PRODUCERS {
                threads.push(scope.spawn(move || produce(connect(), name, random(n), ledger)));
            }
            for n in 0..CONSUMERS {
                threads.push(scope.spawn(move || consume(name, random(100 + n), ledger)));
            }
            threads.push(scope.spawn(move || administrate(connect(), name, random(200), ledger)));
            let results: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
            if let Some(panic) = results.into_iter().find_map(Result::err) {
                std::panic::resume_unwind(panic);
            }
        });
        let (put, acked) = (ledger.put.into_inner().unwrap(), ledger.acked.into_inner().unwrap());
        let distinct: BTreeSet<i64> = acked.iter().copied().collect();
        assert_eq!(distinct.len(), acked.len(), "a task was acked twice");
        assert_eq!(distinct, put.iter().copied().collect(), "acked (left) and put (right)");
        self.q.assert_tasks(&[("total", 0)]);
        let kinds =
            ["put", "ack", "take", "release", "give_back", "bury", "session", "ttr", "snatch"];
        let calls = kinds.map(|kind| self.q.calls(kind));
        assert_eq!(calls[..2], [put.len() as i64, put.len() as i64]);
        let buried_after_limit = self.q.stats()["transitions"]["T-B"].as_i64().unwrap_or(0);
        println!("{kinds:?}: {calls:?}, T-B {buried_after_limit}");
        assert_eq!(
            calls[2],
            calls[1] + calls[3..].iter().sum::<i64>(),
            "every take came to one end"
        );
    }
}

fn produce(mut c: Client, q: &str, mut random: StdRng, ledger: &Ledger) {
    for _ in 0..PUTS {
        let n = random.random_range(1..4);
        let task = "{\"payload\": 1}";
        let tasks = vec![task; n].join(", ");
        let priority = random.random_range(-2..3);
        let sql = match random.random_range(0..4) {
            0 => format!(
                "INSERT INTO {q} (payload) SELECT '2' FROM generate_series(1, {n}) RETURNING to_jsonb({q})"
            ),
            1 => format!("SELECT xqueue.put('{q}', '{task}', delay => '5 milliseconds')"),
            _ => format!("SELECT xqueue.put('{q}', '[{tasks}]', priority => {priority})"),
        };
        let mut transaction = c.transaction().expect("BEGIN");
        let put = transaction.query(&sql, &[]).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        let put = put.iter().map(|row| id(&row.get(0)));
        if random.random_bool(0.9) {
            // Recorded before the commit: no task must be acked before it is recorded as put.
            ledger.put.lock().unwrap().extend(put);
            transaction.commit().expect("COMMIT");
        }
    }
    ledger.producers_left.fetch_sub(1, Ordering::SeqCst);
}

fn consume(q: &str, mut random: StdRng, ledger: &Ledger) {
    let mut c = connect();
    while !ledger.is_done() {
        if random.random_bool(0.03) {
            c = connect();
        }
        if random.random_bool(0.1) {
            take_and_ack_at_once(&mut c, q, &mut random, ledger);
            continue;
        }
        for task in take(&mut c, q, "50ms", random.random_range(1..4)) {
            process(&mut c, q, id(&task), &mut random, ledger);
        }
    }
}

fn process(c: &mut Client, q: &str, id: i64, random: &mut StdRng, ledger: &Ledger) {
    let call = match random.random_range(0..20) {
        0 => return,
        1 => format!("bury('{q}', {id})"),
        2..4 => format!("release('{q}', {id}, delay => '3 milliseconds')"),
        4..7 => format!("release('{q}', {id}, '{{\"payload\": 3}}')"),
        7 => format!("touch('{q}', {id}, '20 milliseconds')"),
        _ => format!("ack('{q}', {id})"),
    };
    match try_sql(c, &format!("SELECT xqueue.{call}")) {
        Ok(()) if call.starts_with("ack") => ledger.acked.lock().unwrap().push(id),
        Ok(()) => {}
        // The ack is too late or the task was snatched: it is ready again, or another session has taken or acked it.
        Err(e) => assert!(["P0002", "55000", "55006"].contains(&code(&e)), "{call}: {e:?}"),
    }
}

fn take_and_ack_at_once(c: &mut Client, q: &str, random: &mut StdRng, ledger: &Ledger) {
    let mut transaction = c.transaction().expect("BEGIN");
    let sql = "SELECT id, (SELECT count(*) FROM xqueue.ack($1::text, id)) FROM
        (SELECT (t->>'id')::bigint AS id FROM xqueue.take($1::text, '0', 3) AS t) AS taken";
    let acked = transaction.query(sql, &[&q]).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    let acked: Vec<i64> = acked.iter().map(|row| row.get(0)).collect();
    if random.random_bool(0.7) {
        transaction.commit().expect("COMMIT");
        ledger.acked.lock().unwrap().extend(acked);
    }
}

fn administrate(mut c: Client, q: &str, mut random: StdRng, ledger: &Ledger) {
    while !ledger.is_done() {
        let n = random.random_range(1..4);
        let sql = match random.random_range(0..4) {
            0 => format!("SELECT xqueue.kick('{q}', {n})"),
            1 => format!("SELECT xqueue.plow('{q}', {n}, '1 millisecond')"),
            2 => format!("SELECT xqueue.snatch('{q}', id) FROM {q} WHERE status = 'T' LIMIT 1"),
            _ => format!("SELECT xqueue.restart('{q}', id) FROM {q} WHERE status = 'W' LIMIT 1"),
        };
        if let Err(e) = try_sql(&mut c, &sql) {
            assert!(["P0002", "55000"].contains(&code(&e)), "{sql}: {e:?}");
        }
        // The administrator works throughout, but with pauses.
        try_sql(&mut c, "SELECT pg_sleep(0.003)").expect("a pause");
    }
}
