//! More tubes and priorities than there are low-water marks, and random takes and puts: no ready task is hidden.
//! XQUEUE_SEED repeats a run.

use super::crowd::crowd;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use xqueue_tests::*;

/// More tubes than there are marks.
const TUBES: i64 = 64;

#[test]
fn more_tubes_than_have_marks() {
    let mut t = Tubes::new(&json!({}));
    for n in 0..TUBES {
        t.q.sql(&format!(
            "INSERT INTO {{q}} (id, tube, priority) \
             SELECT 10000 + n * {TUBES} + {n}, 'tube {n}', n % 2 FROM generate_series(1, 150) n"
        ));
        t.raise(&format!("tube {n}"));
    }
    assert!(t.walked("a") > FEW, "it has given way");
    for turn in 0..30 {
        for n in 0..TUBES {
            assert!(t.take(&format!("tube {n}")).is_some());
        }
        if turn % 10 == 0 {
            t.q.sql(&format!(
                "INSERT INTO {{q}} (id, tube, priority) \
                 SELECT 500 + n, 'tube ' || n, 1 FROM generate_series(0, {TUBES} - 1) n"
            ));
            t.q.sql("DELETE FROM {q} WHERE id < 1000 AND tube LIKE '% 1'");
            for n in 0..TUBES {
                assert!(t.take(&format!("tube {n}")).is_some());
            }
            t.q.sql("DELETE FROM {q} WHERE id < 1000");
        }
    }
}

#[test]
fn more_priorities_than_have_marks() {
    let mut t = Tubes::new(&json!({}));
    t.q.sql("INSERT INTO {q} (id, tube, priority) SELECT 200 + n, 'a', -n FROM generate_series(1, 40) n");
    t.scan_priorities("a");
    for n in 0..30 {
        t.finds(240 - n);
    }
    t.q.sql("INSERT INTO {q} (id, tube, priority) VALUES (5, 'a', -11), (6, 'a', -1000)");
    t.finds(6);
    t.finds(5);
    // Once there are few priorities again, marks are found again.
    t.q.sql("DELETE FROM {q} WHERE id < 1000");
    t.scan_priorities("a");
    t.raise("a");
}

#[test]
fn a_batch_over_many_tubes() {
    let mut t = Tubes::new(&json!({}));
    t.q.sql("INSERT INTO {q} (id, tube, priority) SELECT n, 'tube ' || n, n % 2 FROM generate_series(100, 900) n");
    // The marks survive: notes that name only a priority have room for all tubes.
    t.raise("a");
    for n in [100, 500, 900] {
        t.scan_priorities(&format!("tube {n}"));
        assert_eq!(t.take(&format!("tube {n}")), Some(n));
    }
    // For the last tubes only the priority is noted, and tube a can be one of them.
    t.q.sql(
        "INSERT INTO {q} (id, tube, priority) SELECT n + 1000, 'tube ' || n, -3 FROM generate_series(100, 900) n \
         UNION ALL SELECT 5, 'a', -3",
    );
    t.finds(5);
    // For these tasks nothing is noted.
    t.q.sql(
        "INSERT INTO {q} (id, tube, priority) SELECT n, 'tube ' || n, n FROM generate_series(2000, 3000) n \
         UNION ALL SELECT 7, 'a', 1",
    );
    t.finds(7);
}

/// `check` finds a task that was put without a report, in tubes with and without priorities.
#[test]
fn check_finds_what_is_hidden() {
    for priority in [true, false] {
        let mut t = Tubes::new(&json!({}));
        t.q.upgrade(&json!({"features": {"priority": priority}}));
        t.scan_priorities("a");
        t.raise("a");
        let switch = |to: char| {
            format!("UPDATE pg_trigger SET tgenabled = '{to}' WHERE tgrelid = '{{q}}'::regclass")
        };
        let put = "INSERT INTO {q} (id, tube, priority) VALUES (5, 'a', 2)";
        // A session that has not read the table yet does all of it in one transaction: the worker sees no disabled
        // trigger.
        let (off, on) = (switch('D'), switch('A'));
        t.q.session().sql(&format!("BEGIN; {off}; {put}; {on}; COMMIT"));
        let problems = t.q.ask("SELECT jsonb_array_elements(xqueue.check('{q}')->'problems')");
        let hidden = "task 5 is ready, but stands before the low-water mark of its tube";
        assert!(problems.contains(&json!(hidden)), "{problems:?}");
        t.q.sql("ALTER TABLE {q} DISABLE TRIGGER ALL; ALTER TABLE {q} ENABLE TRIGGER ALL; SELECT xqueue.upgrade('{q}')");
        t.finds(5);
    }
}

/// Returns a random change of tasks.
fn change(random: &mut StdRng, enough: usize) -> String {
    let id = random.random_range(1..400);
    let most = if random.random_bool(0.2) { 30 } else { 3 };
    let priority = random.random_range(0..most);
    let tube = ["'a'", "'a'", "'a'", "'b'", "'c'", "NULL"][random.random_range(0..6)];
    let some = format!(
        "WHERE id = (SELECT id FROM {{q}} WHERE id >= {id} AND status = 'R' ORDER BY id LIMIT 1)"
    );
    let mine = "(SELECT id FROM {q} WHERE status = 'T' ORDER BY id LIMIT 1)";
    match random.random_range(0..13) {
        0 | 1 => format!(
            "INSERT INTO {{q}} (id, tube, priority) VALUES ({id}, {tube}, {priority}) ON CONFLICT DO NOTHING"
        ),
        2 => format!("UPDATE {{q}} SET tube = {tube} {some}"),
        3 => format!("UPDATE {{q}} SET priority = {priority} {some}"),
        4 => format!("UPDATE {{q}} SET tube = {tube}, priority = {priority} {some}"),
        5 => format!("DELETE FROM {{q}} {some}"),
        6 | 7 => format!("SELECT xqueue.release('{{q}}', id) FROM {mine} AS t"),
        8 => format!("SELECT xqueue.ack('{{q}}', id) FROM {mine} AS t"),
        9 => format!(
            "SELECT xqueue.bury('{{q}}', id) FROM {mine} AS t; SELECT xqueue.kick('{{q}}', 1)"
        ),
        10 => format!(
            "UPDATE {{q}} SET id = {id} - 400, tube = {tube} {some} \
             AND NOT EXISTS (SELECT FROM {{q}} WHERE id = {id} - 400)"
        ),
        11 => format!(
            "BEGIN; UPDATE {{q}} SET tube = 'b'; SELECT xqueue.take('{{q}}', tube => {tube}); ROLLBACK"
        ),
        _ => {
            format!("BEGIN; SELECT xqueue.take('{{q}}', tube => 'a', count => {enough}); ROLLBACK")
        }
    }
}

#[test]
fn nothing_is_hidden_at_random() {
    let mut random = StdRng::seed_from_u64(seed());
    let mut t = Tubes::new(&json!({"delayed": true, "buried": true}));
    t.q.sql("DELETE FROM {q}");
    for turn in 0..1500 {
        if random.random_bool(0.3) {
            t.q.sql(&change(&mut random, t.enough));
        }
        if random.random_bool(0.2) {
            let first =
                "SELECT to_jsonb(id) FROM {q} WHERE status = 'R' ORDER BY priority, id LIMIT 1";
            assert_eq!(t.q.ask(first), t.q.ask("SELECT xqueue.take('{q}')->'id'"), "of any tube");
        } else {
            t.take(["a", "a", "a", "b", "c"][random.random_range(0..5)]);
        }
        if turn % 500 == 0 {
            t.q.verify();
        }
    }
}

/// Producers and consumers of random tubes and priorities: no task is left behind.
#[test]
fn nothing_is_hidden_from_a_crowd() {
    let features = json!({"priority": true, "tube": true, "delayed": true, "buried": true});
    let mut q = Queue::with("marks_tubes", COLUMNS, &json!({ "features": features }));
    let put = |random: &mut StdRng, _, n| {
        let key = random.random_range(0..1_000_000_000_i64);
        let tube = random.random_range(0..if n < 500 { 4 } else { 12 });
        let priority = random.random_range(0..if n < 700 { 5 } else { 40 });
        format!(
            "SELECT xqueue.put('{{q}}', '{{\"id\": {key}}}', tube => 'tube {tube}', priority => {priority})"
        )
    };
    crowd(&q, (2, 900), put, |random| {
        let (tube, count) = (random.random_range(0..12), random.random_range(1..4));
        format!("SELECT xqueue.take('{{q}}', tube => 'tube {tube}', count => {count})")
    });
    // A consumer that rolled back or released last can have left tasks behind.
    for tube in 0..12 {
        q.sql(&format!(
            "SELECT xqueue.ack('{{q}}', (t->>'id')::bigint) \
             FROM xqueue.take('{{q}}', tube => 'tube {tube}', count => 100000) t"
        ));
    }
    q.assert_tasks(&[("total", 0)]);
}
