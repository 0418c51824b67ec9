//! What a server does to low-water marks is what their model permits: random work of many clients is traced (src/trace), and
//! the trace replayed by the rules that the model explores. A trace with one event dropped, doubled or in the wrong place is
//! refused, unless it could have been. Only builds for tests of races, which those for 18 are, trace anything. XQUEUE_SEED
//! repeats a run, as far as clients that run at once can.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Instant;
use xqueue_models::marks::replay::{self, Left};
use xqueue_models::marks::tampering::{is_harmless, tamperings};
use xqueue_models::marks::trace::{Event, Status, Verb, What, events};
use xqueue_tests::*;

const CLIENTS: u64 = 6;
const STEPS: usize = 160;
const QUEUES: [&str; 2] = ["jobs", "mails"];

/// A client, and the tasks that it holds.
struct Worker {
    name: u64,
    client: Client,
    held: Vec<(&'static str, i64)>,
    random: StdRng,
    /// How many transactions it has prepared.
    prepared: usize,
}

impl Worker {
    /// What was taken under another client's eyes may be gone, and so may what was taken before a rollback.
    fn try_to(&mut self, sql: &str) {
        let _is_refused = self.client.batch_execute(sql);
    }

    fn take(&mut self, queue: &'static str) {
        let count = self.random.random_range(1..30);
        let taken = format!("SELECT id FROM xqueue.take(NULL::{queue}, count => {count})");
        let taken = self.client.query(&taken, &[]).unwrap();
        self.held.extend(taken.iter().map(|task| (queue, task.get(0))));
    }

    fn some_held(&mut self) -> Option<(&'static str, i64)> {
        let place = self.random.random_range(0..self.held.len().max(1));
        (place < self.held.len()).then(|| self.held.swap_remove(place))
    }

    /// Ends a task that is held.
    fn end(&mut self, how: &str, more: &str) {
        if let Some((queue, id)) = self.some_held() {
            self.try_to(&format!("SELECT xqueue.{how}('{queue}', {id}{more})"));
        }
    }

    fn step(&mut self) {
        let queue = QUEUES[usize::from(self.random.random_bool(0.3))];
        match self.random.random_range(0..100) {
            0..20 => self.take(queue),
            20..48 => self.end("ack", ""),
            48..56 => self.end("release", ""),
            56..60 => self.end("release", ", delay => '20 ms'"),
            60..66 => self.end("bury", ""),
            66..69 => {
                let count = self.random.random_range(1..60);
                self.try_to(&format!("SELECT xqueue.kick('{queue}', {count})"));
            }
            69..84 => self.try_to(&format!("SELECT xqueue.put('{queue}', '[{{}}, {{}}, {{}}]')")),
            84..87 => {
                self.try_to(&format!("SELECT xqueue.put('{queue}', '{{}}', delay => '20 ms')"))
            }
            // The last take would raise the mark, but the tasks taken before them are hidden only until the rollback.
            87..92 => {
                self.try_to(&format!(
                    "BEGIN; SELECT xqueue.put('{queue}', '{{}}'); SELECT xqueue.take('{queue}', count => 20); \
                     SELECT xqueue.take('{queue}', count => {}); ROLLBACK",
                    enough_takes()
                ));
            }
            92..97 => {
                let (queue, id) = self.some_held().unwrap_or((queue, 0));
                self.try_to(&format!(
                    "BEGIN; SELECT xqueue.put('{queue}', '[{{}}, {{}}]'); SAVEPOINT s; \
                     SELECT xqueue.put('{queue}', '{{}}'); SELECT xqueue.release('{queue}', {id}); ROLLBACK TO s; \
                     SELECT xqueue.take('{queue}', count => 20); SELECT xqueue.put('{queue}', '{{}}'); COMMIT"
                ));
                self.try_to("ROLLBACK");
            }
            _ => self.prepare(queue),
        }
    }

    fn prepare(&mut self, queue: &str) {
        self.prepared += 1;
        let gid = format!("{}-{}", self.name, self.prepared);
        let end = if self.random.random() { "COMMIT" } else { "ROLLBACK" };
        let put =
            format!("BEGIN; SELECT xqueue.put('{queue}', '{{}}'); PREPARE TRANSACTION '{gid}'");
        self.client.batch_execute(&put).unwrap();
        self.try_to(&format!(
            "BEGIN; SELECT xqueue.take('{queue}', count => {}); ROLLBACK",
            enough_takes()
        ));
        self.client.batch_execute(&format!("{end} PREPARED '{gid}'")).unwrap();
    }
}

/// Until all is over each raise is held up that has found something, and often a task put before that: the rest of the work
/// seldom meets a raise.
fn put_beside_raises(mut client: Client, is_over: &AtomicBool) {
    const POINT: &str = "xqueue-mark-is-found";
    let waits = format!("SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = '{POINT}'");
    let mut id = 0;
    while !is_over.load(Ordering::Relaxed) {
        wait_until("a mark is raised", || {
            is_over.load(Ordering::Relaxed) || scalar(&mut client, &waits, &[])
        });
        id -= 1;
        // Every other one ends where it has found something.
        for queue in QUEUES.iter().filter(|_| id % 2 == 0) {
            client.batch_execute(&format!("INSERT INTO {queue} VALUES ({id})")).unwrap();
        }
        // There is none if all is over.
        let _is_there = client.batch_execute(&format!("SELECT injection_points_wakeup('{POINT}')"));
    }
}

/// Works on queues at random, and gives the trace and the tasks that are left; None where nothing is traced.
fn work(seed: u64) -> Option<(Vec<Event>, Left)> {
    let cluster = Cluster::with_environment("", &[("XQUEUE_TRACE", "1")]);
    cluster.wait_running();
    let mut admin = cluster.client();
    if scalar::<String>(&mut admin, "SHOW server_version_num", &[]).as_str() < "180000" {
        return None;
    }
    for queue in QUEUES {
        let options = json!({"features": {"delayed": true, "buried": true}});
        admin
            .batch_execute(&format!(
                "CREATE TABLE {queue} (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY)"
            ))
            .unwrap();
        scalar::<Value>(&mut admin, &format!("SELECT xqueue.upgrade('{queue}', $1)"), &[&options]);
    }
    let hold = "CREATE EXTENSION injection_points; SELECT injection_points_attach('xqueue-mark-is-found', 'wait')";
    admin.batch_execute(hold).unwrap();
    let is_over = AtomicBool::new(false);
    let is_over = &is_over;
    std::thread::scope(|scope| {
        let client = cluster.client();
        scope.spawn(move || put_beside_raises(client, is_over));
        let mut workers = vec![];
        for name in 0..CLIENTS {
            let random = StdRng::seed_from_u64(seed.wrapping_mul(CLIENTS).wrapping_add(name));
            let client = cluster.client();
            let mut worker = Worker { name, client, held: vec![], random, prepared: 0 };
            workers.push(scope.spawn(move || (0..STEPS).for_each(|_| worker.step())));
        }
        let all: Result<Vec<()>, _> = workers.into_iter().map(ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        all.unwrap();
    });
    admin.batch_execute("SELECT injection_points_detach('xqueue-mark-is-found')").unwrap();
    let alone = "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend'";
    wait_until("all clients have gone", || scalar(&mut admin, alone, &[]));
    let mut left = HashMap::new();
    for queue in QUEUES {
        let given_back = format!("SELECT count(*) = 0 FROM {queue} WHERE status IN ('T', 'W')");
        wait_until("all tasks have come back", || scalar(&mut admin, &given_back, &[]));
        let settled = format!("SELECT (xqueue.stats('{queue}')->>'exact')::bool");
        wait_until("the worker has seen all prepared transactions", || {
            scalar(&mut admin, &settled, &[])
        });
        // Enough that the mark of buried tasks is raised, if it has not been.
        let kick = format!("SELECT xqueue.kick('{queue}', {})", enough_kicks());
        (0..2).for_each(|_| admin.batch_execute(&kick).unwrap());
        // A step to be missed if the one before is.
        admin.batch_execute(&format!("SELECT xqueue.put('{queue}', '{{}}')")).unwrap();
        for task in
            admin.query(&format!("SELECT id::text, status::text FROM {queue}"), &[]).unwrap()
        {
            let status = match task.get(1) {
                "R" => Status::Ready,
                "B" => Status::Buried,
                other => panic!("a task in {other}"),
            };
            left.insert((queue, task.get::<_, String>(0)), status);
        }
    }
    drop(admin);
    cluster.stop("fast");
    cluster.assert_quiet();
    let trace = events(&cluster.log());
    let slot = |queue| {
        let slot = trace.iter().find_map(|event| match &event.what {
            What::Changed(change) if change.queue.contains(queue) => Some(change.slot),
            _ => None,
        });
        slot.expect("a change of the queue")
    };
    let left =
        left.into_iter().map(|((queue, task), status)| ((slot(queue), task), status)).collect();
    Some((trace, left))
}

/// What an event is, to count it.
fn kind(event: &Event) -> String {
    match &event.what {
        What::Changed(change) => {
            format!("{:?} to {:?}", change.from, change.to).replace("Some", "")
        }
        What::Prepared(_) => "prepared".into(),
        What::Step(step) => match &step.verb {
            Verb::Start { group, .. } => format!("Start {group:?}"),
            Verb::End { group, .. } => format!("End {group:?}"),
            Verb::Settle { found } => format!("Settle {found}"),
            Verb::Lower { .. } if step.before == step.after => "Lower in vain".into(),
            verb => format!("{verb:?}").chars().take_while(char::is_ascii_alphabetic).collect(),
        },
    }
}

#[test]
fn marks_are_what_the_model_permits() {
    let seed = seed();
    let began = Instant::now();
    let Some((trace, left)) = work(seed) else { return };
    let worked = began.elapsed();
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    trace.iter().for_each(|event| *kinds.entry(kind(event)).or_default() += 1);
    println!("{} events in {worked:?}: {kinds:?}", trace.len());
    let all: Vec<&Event> = trace.iter().collect();
    replay::run(&all, &left).unwrap_or_else(|why| panic!("{why}"));
    for kind in [
        "Start Ready",
        "End Ready",
        "Start Buried",
        "End Buried",
        "Lower",
        "Lower in vain",
        "Prepare",
        "prepared",
        "Clear",
        "Settle false",
        "None to (Ready)",
        "None to (Waiting)",
        "(Waiting) to (Ready)",
        "(Ready) to (Taken)",
        "(Taken) to None",
        "(Taken) to (Ready)",
        "(Taken) to (Waiting)",
        "(Taken) to (Buried)",
        "(Buried) to (Ready)",
    ] {
        assert!(kinds.contains_key(kind), "{kind:?} has not come about");
    }
    let (mut refused, mut harmless) = (0, 0);
    for tampering in tamperings(&trace) {
        let is_harmless = is_harmless(tampering, &trace);
        let replayed = replay::run(&tampering.of(&trace), &left);
        assert_eq!(replayed.is_ok(), is_harmless, "{tampering:?}: {replayed:?}");
        *(if is_harmless { &mut harmless } else { &mut refused }) += 1;
    }
    println!(
        "{refused} tampered traces refused, {harmless} could have been, in {:?}",
        began.elapsed() - worked
    );
}
