//! Many random writers run, and in the end the counters of the queue and of its tubes equal the table's contents.
//! XQUEUE_SEED repeats a run.

use std::sync::atomic::{AtomicBool, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use xqueue_tests::*;

use crate::tube_stats::assert_tubes_exact;

/// Returns one or a few statements that change the table in some way. Only a deadlock can make a statement fail.
fn change(random: &mut StdRng, q: &str, depth: u32) -> Vec<String> {
    let n = random.random_range(1..6);
    let status = ["R", "R", "R", "B", "D", "Z"][random.random_range(0..6)];
    let tube = ["a", "b", "c"][random.random_range(0..3)];
    let one = match random.random_range(0..if depth < 3 { 17 } else { 13 }) {
        0 | 1 => format!("INSERT INTO {q} (status, tube) SELECT '{status}', '{tube}' FROM generate_series(1, {n})"),
        2 | 3 => format!(
            "SELECT xqueue.put('{q}', (SELECT jsonb_agg('{{}}'::jsonb) FROM generate_series(1, {n})), tube => '{tube}')"
        ),
        4 => format!("SELECT xqueue.put('{q}', '{{}}', '{} milliseconds')", random.random_range(1..50)),
        5 => format!(
            "UPDATE {q} SET status = '{status}' WHERE id IN
             (SELECT id FROM {q} WHERE status <> 'T' ORDER BY random() LIMIT {n} FOR UPDATE SKIP LOCKED)"
        ),
        6 => format!(
            "DELETE FROM {q} WHERE id IN (SELECT id FROM {q} ORDER BY random() LIMIT {n} FOR UPDATE SKIP LOCKED)"
        ),
        7 => format!("UPDATE {q} SET tube = '{tube}' WHERE id = (SELECT max(id) FROM {q})"),
        8 | 9 => format!("SELECT xqueue.take('{q}', '0', {n})"),
        10 => some_mine(q, "ack"),
        11 => some_mine(q, "release"),
        12 => format!(
            "INSERT INTO {q} (id) SELECT max(id) FROM {q} HAVING count(*) > 0 ON CONFLICT (id) DO UPDATE SET status = EXCLUDED.status
             WHERE {q}.status <> 'T'"
        ),
        13 | 14 => {
            let end = if random.random_bool(0.5) { "RELEASE" } else { "ROLLBACK TO" };
            let inner = (0..n).flat_map(|_| change(random, q, depth + 1));
            let begin = [format!("SAVEPOINT s{depth}")].into_iter();
            return begin.chain(inner).chain([format!("{end} s{depth}")]).collect();
        }
        15 if random.random_bool(0.1) => format!("TRUNCATE {q}"),
        _ => format!(
            "DO $$ BEGIN INSERT INTO {q} (status) VALUES ('{status}'); PERFORM xqueue.take('{q}');
             PERFORM 1 / {}; EXCEPTION WHEN division_by_zero THEN NULL; END $$",
            n % 2
        ),
    };
    vec![one]
}

/// Calls a function on some tasks of this session, locked so that nothing changes them before the call.
fn some_mine(q: &str, call: &str) -> String {
    format!(
        "SELECT xqueue.{call}('{q}', id) FROM
         (SELECT id FROM {q} WHERE status = 'T' AND owner = xqueue.identify() LIMIT 2 FOR UPDATE SKIP LOCKED) AS t"
    )
}

/// Runs many transactions. Only a deadlock is expected, and the refusal to prepare a transaction that has
/// taken tasks.
fn writer(mut c: Client, q: &str, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    for n in 0..60 {
        let count = random.random_range(1..6);
        let body: Vec<String> = (0..count).flat_map(|_| change(&mut random, q, 0)).collect();
        let gid = format!("{q}_{seed}_{n}");
        let ends = match random.random_range(0..10) {
            0..3 => vec!["ROLLBACK".to_owned()],
            3 => {
                let end = if random.random_bool(0.5) { "COMMIT" } else { "ROLLBACK" };
                vec![format!("PREPARE TRANSACTION '{gid}'"), format!("{end} PREPARED '{gid}'")]
            }
            _ => vec!["COMMIT".to_owned()],
        };
        for sql in ["BEGIN".to_owned()].into_iter().chain(body).chain(ends) {
            let Err(e) = try_sql(&mut c, &sql) else { continue };
            let is_refusal = code(&e) == "0A000" && sql.starts_with("PREPARE");
            assert!(is_refusal || ["40P01", "40001"].contains(&code(&e)), "{sql}\n{e:?}");
            c.run("ROLLBACK");
            break;
        }
    }
}

#[test]
fn eight_writers() {
    let seed = seed();
    let options = json!({"features": {"delayed": true}, "tube_stats": ["a", "b"]});
    let mut q = Queue::with("random", COLUMNS, &options);
    let running = AtomicBool::new(true);
    let name = q.name.clone();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|n| {
                let (c, name) = (q.client(), &name);
                scope.spawn(move || writer(c, name, seed.wrapping_add(n)))
            })
            .collect();
        // Other lists of counted tubes, the check and the statistics come all the time, and each must finish.
        let mut watcher = q.client();
        let (running, name) = (&running, &name);
        scope.spawn(move || {
            watcher.run("SET deadlock_timeout = '10s'");
            while running.load(Ordering::Relaxed) {
                let _stats: Value = scalar(&mut watcher, "SELECT xqueue.stats($1::text)", &[name]);
                let _check: Value = scalar(&mut watcher, "SELECT xqueue.check($1::text)", &[name]);
                for tubes in [json!(["b", "c", "a"]), json!(["a", "b"])] {
                    let upgrade =
                        format!(r#"SELECT xqueue.upgrade('{name}', '{{"tube_stats": {tubes}}}')"#);
                    if let Err(e) = try_sql(&mut watcher, &upgrade) {
                        assert_eq!(code(&e), "40P01", "{e:?}");
                    }
                }
            }
        });
        let results: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        running.store(false, Ordering::Relaxed);
        if let Some(panic) = results.into_iter().find_map(Result::err) {
            std::panic::resume_unwind(panic);
        }
    });
    q.wait_for("taken", 0);
    q.wait_for("waiting", 0);
    assert_tubes_exact(&mut q, &["a", "b"]);
    for call in ["put", "take", "ack", "release"] {
        assert!(q.calls(call) > 0, "no {call} has come about");
    }
}
