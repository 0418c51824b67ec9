//! The server under test, and its database full of queues.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use postgres::{Client, Config, NoTls};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use xqueue_tests::{Cluster, additions, every_type, index_checks};

use crate::arguments::one_of;
use crate::queues::{Key, Make, QUEUES, Queue};

/// Errors are logged as JSON with their source location, and random statements do not wait long.
const SETTINGS: &str = "
    logging_collector = on
    log_destination = jsonlog
    log_filename = 'server.log'
    log_rotation_age = 0
    log_rotation_size = 0
    log_error_verbosity = verbose
    log_checkpoints = off
    autovacuum_naptime = 5s
    deadlock_timeout = 100ms
    max_wal_size = 512MB
    track_functions = all
    xqueue.max_sessions_per_role = 50";
/// Number of rows above which a queue is emptied.
const CROWD: u32 = 3000;
/// The worker must repair its queues within this time.
const PATIENCE: Duration = Duration::from_secs(90);

pub struct Site {
    pub cluster: Cluster,
}

impl Site {
    /// Prints the additions that `random` chooses for the queues' tables.
    pub fn new(random: &mut StdRng) -> Site {
        let cluster = Cluster::new(SETTINGS);
        cluster.wait_running();
        let site = Site { cluster };
        let mut client = site.client();
        client.batch_execute(every_type::TYPES).expect("the types");
        client.batch_execute(include_str!("database.sql")).expect("the database");
        site.make(|queue| !queue.is_oddly_named());
        client.batch_execute(additions::SHARED).expect("the shared objects of the additions");
        let made = QUEUES.iter().enumerate().filter(|(_, queue)| {
            matches!(queue.make, Make::Create(_) | Make::Unlogged(_)) && !queue.is_oddly_named()
        });
        for (number, queue) in made {
            let (names, sql) = additions::of(random, queue.name, number);
            client.batch_execute(&sql).unwrap_or_else(|e| panic!("{}: {e:?}", queue.name));
            let names = if names.is_empty() { "no additions" } else { &names };
            println!("# {} has {names}", queue.name);
        }
        client.batch_execute(include_str!("sqlsmith.sql")).expect("what sqlsmith sees");
        site
    }

    /// Makes the queues with odd names. sqlsmith would write them without quotes, so it must not see them.
    pub fn make_the_oddly_named(&self) {
        self.make(Queue::is_oddly_named);
    }

    fn make(&self, is_wanted: impl Fn(&Queue) -> bool) {
        let mut client = self.client();
        for queue in QUEUES.iter().filter(|queue| is_wanted(queue)) {
            let made = client.batch_execute(&queue.make());
            made.unwrap_or_else(|e| panic!("{}: {e:?}", queue.name));
            // Triggers and on_task_change refuse some rows.
            while let Err(e) = client.batch_execute(&queue.fill()) {
                assert_eq!(xqueue_tests::code(&e), "P0001", "{}: {e:?}", queue.name);
            }
            spread(&mut client, queue);
        }
    }

    /// Returns the number of calls of xqueue's functions so far.
    pub fn calls(&self) -> i64 {
        let sql = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_user_functions WHERE schemaname = 'xqueue'";
        xqueue_tests::scalar(&mut self.client(), sql, &[])
    }

    /// Returns the configuration of a connection with a short statement timeout.
    pub fn config(&self, name: &str) -> Config {
        let mut config = self.cluster.config();
        config
            .application_name(name)
            .options("-c statement_timeout=200ms -c client_min_messages=warning");
        config
    }

    pub fn client(&self) -> Client {
        self.cluster.client()
    }

    pub fn log(&self) -> PathBuf {
        PathBuf::from(self.cluster.folder()).join("data/log/server.json")
    }

    /// Returns the logs that are not in the JSON file.
    pub fn other_logs(&self) -> [String; 2] {
        let beside = self.log().with_extension("log");
        [self.cluster.log(), std::fs::read_to_string(beside).unwrap_or_default()]
    }
}

/// Brings tasks into every state: taken by a session that then ends, buried, done, and delayed.
fn spread(client: &mut Client, queue: &Queue) {
    let (name, literal) = (queue.name, queue.literal());
    let some = format!("(SELECT q FROM {name} q WHERE owner IS NOT NULL LIMIT 3) AS t");
    for sql in [
        format!("SELECT xqueue.take({literal}, count => 12)"),
        format!("SELECT xqueue.bury(q) FROM {some}"),
        format!("SELECT xqueue.ack(q) FROM {some}"),
        format!("SELECT xqueue.release(q, delay => '1 min') FROM {some}"),
    ] {
        // Not every queue has every state.
        drop(client.batch_execute(&sql));
    }
}

/// Takes, settles and puts tasks, and waits for tasks, until `is_open` is false. Returns the number of calls.
pub fn work(config: &Config, seed: u64, is_open: &AtomicBool) -> u64 {
    let (mut random, mut calls) = (StdRng::seed_from_u64(seed), 0);
    while is_open.load(Ordering::Relaxed) {
        let Ok(mut client) = config.clone().user("fuzz_consumer").connect(NoTls) else {
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        while is_open.load(Ordering::Relaxed) && !client.is_closed() {
            let queue = QUEUES.choose(&mut random).unwrap_or(&QUEUES[0]);
            let (name, literal) = (queue.name, queue.literal());
            let settle = one_of("ack|ack|release|bury|touch", &mut random);
            let sql = match random.random_range(0..6) {
                0 => format!("CALL xqueue.next({literal}, '50 ms')"),
                1 => format!("SELECT xqueue.take(NULL::{name}, '100 ms')"),
                2 if queue.key == Key::Number => {
                    format!("SELECT xqueue.wait({literal}, 7, '50 ms')")
                }
                _ => format!(
                    "SELECT xqueue.{settle}(t) FROM xqueue.take(NULL::{name}, '20 ms', count => 3) AS t"
                ),
            };
            // Queues are dropped, made and changed meanwhile.
            drop(client.batch_execute(&sql));
            calls += 1;
        }
    }
    calls
}

/// Makes dropped queues again, resumes paused ones, and keeps all of them from growing without bound.
pub fn keep_house(config: &Config, is_open: &AtomicBool) {
    let mut config = config.clone();
    // Other sessions can hold locks on the tables.
    config.options("-c statement_timeout=5s -c client_min_messages=warning");
    let mut begun = Instant::now();
    while is_open.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(50));
        if begun.elapsed() < Duration::from_secs(3) {
            continue;
        }
        begun = Instant::now();
        let Ok(mut client) = config.connect(NoTls) else { continue };
        make_again(&mut client);
        for queue in &QUEUES {
            let literal = queue.literal();
            drop(client.batch_execute(&format!("SELECT xqueue.resume({literal})")));
            let count = format!(
                "SELECT reltuples > {CROWD} FROM pg_class WHERE oid = to_regclass({literal})"
            );
            if client.query_opt(&count, &[]).is_ok_and(|row| row.is_some_and(|row| row.get(0))) {
                let delete = format!("DELETE FROM {} WHERE owner IS NULL", queue.name);
                drop(client.batch_execute(&delete));
                drop(client.batch_execute(&format!("ANALYZE {}", queue.name)));
            }
        }
    }
}

/// Makes tables that have lost their queue into queues again.
fn make_again(client: &mut Client) {
    for queue in &QUEUES {
        let is_there = format!(
            "SELECT EXISTS (SELECT FROM xqueue.queue WHERE relation = to_regclass({}))",
            queue.literal()
        );
        if client.query_one(&is_there, &[]).is_ok_and(|row| !row.get::<_, bool>(0)) {
            // The table can be in use, or reappear later.
            drop(client.batch_execute(&format!("DROP TABLE IF EXISTS {} CASCADE", queue.name)));
            drop(client.batch_execute(&queue.make()));
            drop(client.batch_execute(&queue.fill()));
        }
    }
}

/// Returns the problems of the queues and of their indexes after all activity has ended, and the numbers of checks.
pub fn problems(site: &Site) -> (Vec<String>, Vec<String>, usize, usize) {
    let mut client = site.client();
    for row in client.query("SELECT gid FROM pg_prepared_xacts", &[]).expect("what is prepared") {
        let gid: String = row.get(0);
        let rollback = format!("ROLLBACK PREPARED '{}'", gid.replace('\'', "''"));
        client.batch_execute(&rollback).expect("what is prepared is rolled back");
    }
    let queues = "SELECT relation::text, quote_literal(relation::text) FROM xqueue.queue";
    let (mut wrong, mut unsound) = (Vec::new(), Vec::new());
    let queues = client.query(queues, &[]).expect("the queues");
    for row in &queues {
        let (name, literal): (String, String) = (row.get(0), row.get(1));
        let check = format!("SELECT xqueue.check({literal})::text");
        let begun = Instant::now();
        loop {
            let report = match client.query_one(&check, &[]) {
                Ok(row) => row.get::<_, String>(0),
                Err(e) => format!("check fails: {e:?}"),
            };
            if report.contains("\"ok\": true") {
                break;
            }
            if begun.elapsed() > PATIENCE {
                let why =
                    format!("SELECT error FROM xqueue.queues WHERE queue = {literal}::regclass");
                let why = client.query_opt(&why, &[]).ok().flatten();
                let why: Option<String> = why.and_then(|row| row.get(0));
                wrong.push(format!("{name}: {report}; the worker: {why:?}"));
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    let tables = "SELECT oid::regclass::text, format('SELECT 1 / (count(*) = 0)::int FROM verify_heapam(%s::regclass)', oid)
                  FROM pg_class WHERE relkind = 'r' AND relam > 0 AND relpersistence <> 't'";
    let tables = client.query(tables, &[]).expect("the tables");
    let mut checks = index_checks(&mut client);
    checks.extend(tables.iter().map(|row| (row.get(0), row.get(1))));
    for (name, check) in &checks {
        if let Err(e) = client.batch_execute(check) {
            unsound.push(format!("{name}: {e:?}"));
        }
    }
    (wrong, unsound, queues.len(), checks.len())
}
