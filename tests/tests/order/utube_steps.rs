//! Sessions run random operations on sub-queues step by step, with savepoints and by hand. After each step the
//! extension knows every task that can be taken. XQUEUE_SEED repeats a run.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use xqueue_tests::*;

const RUNS: u64 = 6;
const STEPS: usize = 150;
const SESSIONS: usize = 4;
const TUBES: [&str; 4] = ["'a'", "'b'", "'c'", "NULL"];
/// Expected errors: a row that another session has changed, a task that was deleted or that another session holds, a
/// second task in flight in a sub-queue, and a transaction that has failed.
const REFUSALS: [&str; 6] = ["55P03", "P0002", "55000", "55006", "23505", "25P02"];

struct Session {
    client: Client,
    in_transaction: bool,
}

fn statement(random: &mut StdRng, has_priority: bool) -> String {
    let tube = TUBES.choose(random).expect("a tube");
    let n = random.random_range(1..4);
    let mine = "ARRAY(SELECT id FROM {q} WHERE owner = xqueue.identify() ORDER BY id LIMIT 1)";
    let any = format!("(SELECT id FROM {{q}} ORDER BY hashint8(id + {n}) LIMIT 1)");
    let key = random.random_range(-50..50);
    match random.random_range(0..22) {
        0..3 => format!("SELECT xqueue.put('{{q}}', '[{{}}, {{}}]', tube => {tube})"),
        3 => format!("SELECT xqueue.put('{{q}}', '{{}}', tube => {tube}, delay => '1 hour')"),
        4 => format!("INSERT INTO {{q}} (id, tube) VALUES ({key}, {tube}) ON CONFLICT DO NOTHING"),
        5..9 => format!("SELECT xqueue.take('{{q}}', count => {n})"),
        9 => format!("SELECT xqueue.take('{{q}}', tube => {tube})"),
        10..13 => format!("SELECT xqueue.ack('{{q}}', {mine})"),
        13 => format!("SELECT xqueue.release('{{q}}', {mine})"),
        14 => format!("SELECT xqueue.release('{{q}}', {mine}, delay => '1 hour')"),
        15 => format!("SELECT xqueue.bury('{{q}}', {mine})"),
        16 => format!("SELECT xqueue.kick('{{q}}', {n})"),
        17 => format!("SELECT xqueue.restart('{{q}}', id) FROM {{q}} WHERE status = 'W' LIMIT {n}"),
        18 => format!("UPDATE {{q}} SET tube = {tube} WHERE id = {any}"),
        19 => format!("DELETE FROM {{q}} WHERE id = {any}"),
        20 if has_priority => format!("UPDATE {{q}} SET priority = {n} WHERE id = {any}"),
        20 => format!("UPDATE {{q}} SET id = id + 1000 WHERE id = {any}"),
        _ => format!("UPDATE {{q}} SET status = 'R', owner = NULL, runat = NULL WHERE id = {any}"),
    }
}

fn run(seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let has_priority = random.random_bool(0.3);
    let is_strict = random.random_bool(0.5);
    let utube = if is_strict { json!({"strict": true}) } else { json!(true) };
    let features =
        json!({"utube": utube, "delayed": true, "buried": true, "priority": has_priority});
    let mut q = Queue::with("utube_steps", COLUMNS, &json!({"features": features}));
    let open = |q: &Queue| {
        let mut client = q.client();
        client.batch_execute("SET lock_timeout = '20 ms'").unwrap();
        Session { client, in_transaction: false }
    };
    let mut sessions: Vec<Session> = (0..SESSIONS).map(|_| open(&q)).collect();
    let mut log = vec![];
    for _ in 0..STEPS {
        let at = random.random_range(0..SESSIONS);
        let may_end = sessions.iter().all(|session| !session.in_transaction);
        let session = &mut sessions[at];
        let sql = match random.random_range(0..20) {
            // The worker can release its tasks because their rows are not locked.
            0 if may_end => {
                log.push(format!("{at}: ends"));
                *session = open(&q);
                q.verify();
                continue;
            }
            0..4 if !session.in_transaction => "BEGIN; SAVEPOINT s".into(),
            0..3 if session.in_transaction => "ROLLBACK TO s".into(),
            3 if session.in_transaction => "RELEASE s; SAVEPOINT s".into(),
            4 if session.in_transaction => "ROLLBACK".into(),
            5..8 if session.in_transaction => "COMMIT".into(),
            _ => statement(&mut random, has_priority).replace("{q}", &q.name),
        };
        let result = session.client.batch_execute(&sql);
        log.push(format!("{at}: {sql} {:?}", result.as_ref().err().map(code)));
        match result {
            Ok(()) => match sql.as_str() {
                "COMMIT" | "ROLLBACK" => session.in_transaction = false,
                "BEGIN; SAVEPOINT s" => session.in_transaction = true,
                _ => {}
            },
            Err(error) => {
                assert!(REFUSALS.contains(&code(&error)), "{sql}: {error:?} after {log:#?}");
                if session.in_transaction {
                    session.client.batch_execute("ROLLBACK TO s").unwrap();
                }
            }
        }
        let report = q.ask_one("SELECT xqueue.check('{q}')");
        assert_eq!(report["problems"], json!([]), "{log:#?}");
    }
    let pids: Vec<i32> = sessions.iter_mut().map(|session| pid(&mut session.client)).collect();
    drop(sessions);
    let left = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY ($1)";
    wait_until("their transactions have ended", || {
        scalar::<i64>(&mut q.admin, left, &[&pids]) == 0
    });
    q.wait_for("taken", 0);
    // A take gets every available task, one of each sub-queue.
    let heads = "SELECT to_jsonb(count(*)) FROM (SELECT DISTINCT ON (tube) status FROM {q} \
                 WHERE status IN ({line}) ORDER BY tube, {order}) AS head WHERE status = 'R'";
    let heads = heads.replace("{line}", if is_strict { "'R', 'W'" } else { "'R'" });
    let heads = heads.replace("{order}", if has_priority { "priority, id" } else { "id" });
    let heads = q.ask_one(&heads);
    let taken = take(&mut q.admin, &q.name, "0", 100).len();
    assert_eq!(json!(taken), heads, "{log:#?}");
}

#[test]
fn whatever_can_be_taken_is_known_after_every_step() {
    let seed = seed();
    (0..RUNS).for_each(|number| run(u64::wrapping_add(seed, number)));
}
