//! Producers and consumers at work on a queue at the same time: no mark hides a task, and each is processed once.
//! Sub-queues keep their order. XQUEUE_SEED repeats their choices.

use std::sync::atomic::{AtomicBool, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use xqueue_tests::*;

const CONSUMERS: u64 = 3;
const PUTS: i64 = 600;
/// A consumer ends when this many takes in a row have found no task after the end of the producers.
const IDLE: usize = 300;

/// Columns and options of a queue, the {n}th put of a producer, and a take. {r} stands for a random number.
const CROWDS: [(&str, &str, &str, &str); 9] = [
    // Old keys among rising ones.
    (
        COLUMNS,
        "{}",
        "SELECT xqueue.put('{q}', jsonb_build_object('id',
             (CASE {n} % 7 WHEN 0 THEN 1000000 - {n} ELSE 2000000 + {n} END) * 10 + {producer}))",
        "SELECT xqueue.take('{q}')",
    ),
    // Batches of tasks that other takes have read ahead.
    (
        COLUMNS,
        "{}",
        "INSERT INTO {q} SELECT FROM generate_series(1, 5)",
        "SELECT xqueue.take('{q}', count => (ARRAY[1, 3, 33, 100, 150, 200])[1 + {r} % 6])",
    ),
    // First few priorities, then more than have marks.
    (
        COLUMNS,
        r#"{"features": {"priority": true}}"#,
        "SELECT xqueue.put('{q}', '{}', priority => {r} % CASE WHEN {n} < 350 THEN 8 ELSE 40 END)",
        "SELECT xqueue.take('{q}', count => 1 + {r} % 3)",
    ),
    (
        COLUMNS,
        r#"{"features": {"tube": true}}"#,
        "SELECT xqueue.put('{q}', jsonb_build_object('id', {r}), tube => 'tube ' || {r} % 3)",
        "SELECT xqueue.take('{q}', tube => 'tube ' || {r} % 3)",
    ),
    (
        COLUMNS,
        r#"{"features": {"priority": true, "tube": true}}"#,
        "SELECT xqueue.put('{q}', jsonb_build_object('id', {r}),
             tube => 'tube ' || {r} % CASE WHEN {n} < 350 THEN 4 ELSE 12 END,
             priority => {r} / 100 % CASE WHEN {n} < 450 THEN 5 ELSE 40 END)",
        "SELECT xqueue.take('{q}', tube => 'tube ' || {r} % 12, count => 1 + {r} / 100 % 3)",
    ),
    // Buried tasks, old keys among rising ones, are dug out and taken.
    (
        COLUMNS,
        r#"{"features": {"buried": true}}"#,
        "INSERT INTO {q} (id, status) VALUES
             ((CASE {n} % 7 WHEN 0 THEN -{n} ELSE 9100 + {n} END) * 10 + {producer}, 'B')",
        "SELECT t FROM xqueue.kick('{q}', 1 + {r} % 3) AS dug, LATERAL xqueue.take('{q}', count => dug + 1) AS t",
    ),
    (
        "id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n bigserial",
        r#"{"fields": {"order": "n"}}"#,
        "SELECT xqueue.put('{q}', '{}')",
        "SELECT xqueue.take('{q}')",
    ),
    // Sub-queues of each producer, so that their tasks are committed in the order of their keys.
    (
        COLUMNS,
        r#"{"features": {"utube": true}}"#,
        "SELECT xqueue.put('{q}', '{}', tube => '{producer}.' || {r} % 4)",
        "SELECT xqueue.take('{q}', count => 1 + {r} % 3)",
    ),
    (
        COLUMNS,
        r#"{"features": {"utube": {"strict": true}, "delayed": true, "priority": true}}"#,
        "SELECT xqueue.put('{q}', '{}', tube => '{producer}.' || {r} % 4, priority => {r} / 4 % 5,
             delay => interval '3 ms' * ({r} / 20 % 5 / 4))",
        "SELECT xqueue.take('{q}', count => 1 + {r} % 3)",
    ),
];

/// Refuses a take if another task of the sub-queue stands before the task, or is in flight. The STABLE function sees the
/// snapshot of the take itself.
const JUDGE: &str = "
    CREATE FUNCTION {q}_judge() RETURNS trigger LANGUAGE plpgsql STABLE AS $$
    BEGIN
        IF EXISTS (SELECT FROM {q} t WHERE t.tube = NEW.tube AND t.id <> NEW.id
                   AND (t.status = 'T' OR t.status IN ('R', 'W') AND ({order}) < ({order of new}))) THEN
            RAISE 'task % of % is out of turn', NEW.id, NEW.tube;
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER judge BEFORE UPDATE ON {q} FOR EACH ROW
        WHEN (OLD.status = 'R' AND NEW.status = 'T') EXECUTE FUNCTION {q}_judge()";

fn number(sql: &str, random: &mut StdRng) -> String {
    sql.replace("{r}", &random.random_range(0..1_000_000_000).to_string())
}

/// Makes puts, each in a transaction of its own, and rolls some back.
fn produce(mut c: Client, queue: &str, put: &str, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    for n in 0..PUTS {
        let end = if n % 12 == 0 { "ROLLBACK" } else { "COMMIT" };
        let put = number(put, &mut random).replace("{n}", &n.to_string()).replace("{q}", queue);
        c.run(&format!("BEGIN; {put}; {end}"));
    }
}

/// Takes until no task is found after the end of the producers. The last consumer acks all tasks, the others also
/// release some, or roll back.
fn consume(c: &mut Client, queue: &str, take: &str, seed: u64, done: &AtomicBool, is_last: bool) {
    let (mut random, mut idle) = (StdRng::seed_from_u64(seed), 0);
    while idle < IDLE {
        let was_done = done.load(Ordering::SeqCst);
        c.run("BEGIN");
        let tasks = ask(c, queue, &number(take, &mut random));
        idle = if tasks.is_empty() && was_done { idle + 1 } else { 0 };
        // The take is committed before its tasks end, or together with them.
        let ending = if is_last { 9 } else { random.random_range(0..10) };
        if ending < 5 {
            c.run("COMMIT");
        }
        let verb = if matches!(ending, 0 | 5) { "release" } else { "ack" };
        for task in &tasks {
            values(c, &format!("SELECT xqueue.{verb}($1::text, $2::jsonb)"), &[&queue, task]);
        }
        if ending >= 5 {
            c.run(if ending == 6 { "ROLLBACK" } else { "COMMIT" });
        }
    }
}

#[test]
fn nothing_is_hidden_from_a_crowd() {
    let seed = seed();
    for (columns, options, put, take) in CROWDS {
        let options: Value = serde_json::from_str(options).expect("options");
        let mut q = Queue::with("crowd", columns, &options);
        if !options["features"]["utube"].is_null() {
            let has_priority = options["features"]["priority"] == json!(true);
            let order = if has_priority { "t.priority, t.id" } else { "t.id" };
            let judge = JUDGE.replace("{order}", order);
            q.sql(&judge.replace("{order of new}", &order.replace("t.", "NEW.")));
        }
        let (name, done) = (q.name.clone(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let producers = [0, 1, 2].map(|n| {
                let (c, name) = (q.client(), &name);
                let put = put.replace("{producer}", &n.to_string());
                scope.spawn(move || produce(c, name, &put, seed.wrapping_add(n)))
            });
            for consumer in 0..CONSUMERS {
                let (mut c, name, done) = (q.client(), &name, &done);
                let seed = seed.wrapping_add(100 + consumer);
                scope.spawn(move || consume(&mut c, name, take, seed, done, false));
            }
            producers.into_iter().for_each(|producer| producer.join().expect("a producer"));
            done.store(true, Ordering::SeqCst);
        });
        q.wait_for("waiting", 0);
        // Tasks that a consumer has rolled back or released after the others had ended.
        consume(&mut q.admin, &name, take, seed, &done, true);
        q.assert_tasks(&[("total", 0)]);
    }
}
