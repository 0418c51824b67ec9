//! Many threads on one queue, and the conditions that must hold when they end.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use xqueue_tests::*;

const PRODUCERS: u64 = 3;
const CONSUMERS: u64 = 5;
/// Statements per producer.
const PUTS: usize = 60;

struct Crowd {
    q: String,
    producers_left: AtomicU64,
    /// The tasks whose acks are committed.
    acked: Mutex<Vec<i64>>,
}

pub fn run(seed: u64) {
    let features = json!({
        "delayed": true, "buried": true, "ttr": "60 milliseconds", "priority": true,
        "retry": {"limit": 6, "backoff": "2 milliseconds", "max": "20 milliseconds"},
    });
    let mut q = Queue::with("crowd", COLUMNS, &json!({ "features": features }));
    let crowd = Crowd {
        q: q.name.clone(),
        producers_left: AtomicU64::new(PRODUCERS),
        acked: Mutex::default(),
    };
    std::thread::scope(|scope| {
        let crowd = &crowd;
        let spawn = |n: u64, work: fn(&Crowd, StdRng)| {
            let random = StdRng::seed_from_u64(seed.wrapping_add(n));
            scope.spawn(move || work(crowd, random));
        };
        (0..PRODUCERS).for_each(|n| spawn(n, Crowd::produce));
        (0..CONSUMERS).for_each(|n| spawn(100 + n, Crowd::consume));
        spawn(200, Crowd::administrate);
    });
    let acked = crowd.acked.into_inner().unwrap();
    let distinct: BTreeSet<i64> = acked.iter().copied().collect();
    assert_eq!(distinct.len(), acked.len(), "a task was acked twice");
    q.assert_tasks(&[("total", 0)]);
    let kinds = ["put", "ack", "take", "release", "give_back", "bury", "session", "ttr", "snatch"];
    let calls = kinds.map(|kind| q.calls(kind));
    println!("{kinds:?}: {calls:?}, T-B {}", q.transition("T-B"));
    assert_eq!(calls[..2], [acked.len() as i64; 2], "put and acked");
    let ends = calls[1] + calls[3..].iter().sum::<i64>();
    assert_eq!(calls[2], ends, "every take came to one end");
}

impl Crowd {
    fn is_done(&self, c: &mut Client) -> bool {
        let is_empty = format!("SELECT NOT EXISTS (SELECT FROM {})", self.q);
        self.producers_left.load(Ordering::SeqCst) == 0 && scalar(c, &is_empty, &[])
    }

    fn produce(&self, mut random: StdRng) {
        let (mut c, q) = (connect(), &self.q);
        for _ in 0..PUTS {
            let n = random.random_range(1..4);
            let priority = random.random_range(-2..3);
            let sql = match random.random_range(0..4) {
                0 => format!("INSERT INTO {q} (payload) SELECT '2' FROM generate_series(1, {n})"),
                1 => format!("SELECT xqueue.put('{q}', '{{}}', delay => '5 milliseconds')"),
                _ => format!(
                    "SELECT xqueue.put('{q}', '{}', priority => {priority})",
                    empty_tasks(n)
                ),
            };
            let end = if random.random_bool(0.9) { "COMMIT" } else { "ROLLBACK" };
            c.run(&format!("BEGIN; {sql}; {end}"));
        }
        self.producers_left.fetch_sub(1, Ordering::SeqCst);
    }

    fn consume(&self, mut random: StdRng) {
        let mut c = connect();
        while !self.is_done(&mut c) {
            if random.random_bool(0.03) {
                c = connect();
            }
            if random.random_bool(0.1) {
                self.take_and_ack_at_once(&mut c, &mut random);
                continue;
            }
            for task in take(&mut c, &self.q, "50ms", random.random_range(1..4)) {
                self.process(&mut c, id(&task), &mut random);
            }
        }
    }

    fn process(&self, c: &mut Client, id: i64, random: &mut StdRng) {
        let q = &self.q;
        let call = match random.random_range(0..20) {
            0 => return,
            1 => format!("bury('{q}', {id})"),
            2..4 => format!("release('{q}', {id}, delay => '3 milliseconds')"),
            4..7 => format!("release('{q}', {id}, '{{\"payload\": 3}}')"),
            7 => format!("touch('{q}', {id}, '20 milliseconds')"),
            _ => format!("ack('{q}', {id})"),
        };
        match try_sql(c, &format!("SELECT xqueue.{call}")) {
            Ok(()) if call.starts_with("ack") => self.acked.lock().unwrap().push(id),
            Ok(()) => {}
            // The ack is too late or the task was snatched: it is ready again, or another session has taken or acked
            // it.
            Err(e) => assert!(["P0002", "55000", "55006"].contains(&code(&e)), "{call}: {e:?}"),
        }
    }

    fn take_and_ack_at_once(&self, c: &mut Client, random: &mut StdRng) {
        c.run("BEGIN");
        let taken = ids(&take(c, &self.q, "0", 3));
        taken.iter().for_each(|id| drop(ack(c, &self.q, *id)));
        let commits = random.random_bool(0.7);
        c.run(if commits { "COMMIT" } else { "ROLLBACK" });
        if commits {
            self.acked.lock().unwrap().extend(taken);
        }
    }

    fn administrate(&self, mut random: StdRng) {
        let (mut c, q) = (connect(), &self.q);
        while !self.is_done(&mut c) {
            let n = random.random_range(1..4);
            let sql = match random.random_range(0..4) {
                0 => format!("SELECT xqueue.kick('{q}', {n})"),
                1 => format!("SELECT xqueue.plow('{q}', {n}, '1 millisecond')"),
                2 => format!("SELECT xqueue.snatch('{q}', id) FROM {q} WHERE status = 'T' LIMIT 1"),
                _ => {
                    format!("SELECT xqueue.restart('{q}', id) FROM {q} WHERE status = 'W' LIMIT 1")
                }
            };
            if let Err(e) = try_sql(&mut c, &sql) {
                assert!(["P0002", "55000"].contains(&code(&e)), "{sql}: {e:?}");
            }
            // The administrator works throughout, but with pauses.
            c.run("SELECT pg_sleep(0.003)");
        }
    }
}
