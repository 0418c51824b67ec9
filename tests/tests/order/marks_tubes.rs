//! Low-water marks of the tubes of a queue with priorities never hide a ready task, no matter how it became ready
//! before them, even if there are more tubes and priorities than marks. A take does not walk over the index entries of
//! removed tasks. by_column_random has states that are rolled back, and marks_buried has prepared transactions.

use super::tubes::COMES_BACK;
use xqueue_tests::*;

/// More tubes than there are marks.
const TUBES: i64 = 64;

#[test]
fn a_take_does_not_walk_over_what_was_there() {
    let mut t = Tubes::new(&json!({}));
    // There were more priorities than have marks.
    t.q.sql("INSERT INTO {q} (id, tube, priority) SELECT 200 + n, 'a', -n FROM generate_series(1, 40) n");
    t.scan_priorities("a");
    t.q.sql("DELETE FROM {q} WHERE id < 1000");
    t.scan_priorities("a");
    t.raise("a");
    t.q.sql("SET xqueue.direct_path = off");
    t.scan_priorities("a");
    t.raise("a");
    // A take from a tube without ready tasks reads no index entry.
    t.q.sql("DELETE FROM {q} WHERE tube = 'a'");
    t.raise("a");
    assert_eq!(t.walked("a"), 0);
    t.q.sql("SET xqueue.direct_path = on");
    t.scan_priorities("a");
    t.raise("a");
    assert_eq!(t.walked("a"), 0);
    // Another tube has marks of its own.
    assert!(t.walked("b") > 500);
    t.scan_priorities("b");
    t.raise("b");
}

#[test]
fn what_is_known_of_the_queue_is_known_of_its_tubes() {
    let mut t = Tubes::new(&json!({}));
    for count in std::iter::repeat_n(1, t.enough).chain([t.enough; 4]) {
        t.q.sql(&format!("BEGIN; SELECT xqueue.take('{{q}}', count => {count}); ROLLBACK"));
    }
    assert!(t.walked("b") < FEW);
    assert_eq!(t.walked("of no task") / FEW, 0);
}

#[test]
fn tasks_that_are_put() {
    let mut t = Tubes::new(&json!({}));
    for (id, put) in [
        (8, "SELECT xqueue.put('{q}', '{\"id\": 8}', tube => 'a', priority => 1)"),
        (9, "SELECT xqueue.put('{q}', '{\"id\": 9}', tube => 'a', front => true)"),
        (10, "COPY {q} (id, tube, priority) FROM PROGRAM 'printf \"10\\ta\\t-7\\n\"'"),
        (
            11,
            "INSERT INTO {q} (id, tube) VALUES (9000, 'b') ON CONFLICT DO NOTHING; \
             INSERT INTO {q} (id) VALUES (9000) ON CONFLICT (id) DO UPDATE SET id = 11, tube = 'a', priority = -8",
        ),
    ] {
        t.q.sql(put);
        t.finds(id);
        t.q.sql(&format!("DELETE FROM {{q}} WHERE id = {id}"));
        t.raise("a");
    }
    t.q.sql("TRUNCATE {q}");
    assert_eq!(t.take("a"), None);
    t.q.sql("INSERT INTO {q} (id, tube, priority) VALUES (4, 'a', 2), (3, NULL, 1), (2, 'b', 1)");
    t.finds(4);
}

#[test]
fn tasks_that_come_back() {
    let mut t = Tubes::new(&json!({"buried": true, "delayed": true, "keep": true, "ttr": true}));
    for priority in [0, 2] {
        for back in COMES_BACK {
            t.q.sql(&format!(
                "DELETE FROM {{q}} WHERE id = 5; \
                 INSERT INTO {{q}} (id, tube, priority) VALUES (5, 'a', {priority})"
            ));
            t.finds(5);
            t.raise("a");
            t.q.sql(back);
            t.q.wait_for("taken", 0);
            t.q.wait_for("waiting", 0);
            t.finds(5);
        }
    }
}

#[test]
fn what_is_not_committed() {
    let mut t = Tubes::new(&json!({}));
    for (id, priority) in [(5, 2), (6, 1)] {
        let (mut other, row) = (t.q.session(), format!("({id}, 'a', {priority})"));
        other.sql(&format!("BEGIN; INSERT INTO {{q}} (id, tube, priority) VALUES {row}"));
        t.raise("a");
        other.sql("COMMIT");
        t.finds(id);
        t.q.sql(&format!("SELECT xqueue.release('{{q}}', {id})"));
        other.sql("BEGIN; SELECT xqueue.take('{q}', tube => 'a')");
        // The task is still ready for all others: the mark stays before it.
        t.scan_priorities("a");
        other.sql("ROLLBACK");
        t.finds(id);
    }
    // A transaction finds what it has put itself.
    for undo in ["ROLLBACK", "ROLLBACK TO s; COMMIT"] {
        t.q.sql("BEGIN; SAVEPOINT s; INSERT INTO {q} (id, tube, priority) VALUES (4, 'a', 0)");
        assert_eq!(t.take("a"), Some(4));
        t.q.sql(undo);
        assert!(t.take("a") > Some(1000));
    }
}

/// Features are switched off and on, and a column becomes nullable: marks found before are not used.
#[test]
fn features_switched_meanwhile() {
    let mut t = Tubes::new(&json!({}));
    for switch in [
        json!({"features": {"priority": false}}),
        json!({"features": {"priority": true}}),
        json!({"features": {"tube": false}}),
        json!({"features": {"tube": true}}),
    ] {
        t.q.upgrade(&switch);
        t.q.sql("INSERT INTO {q} (id, tube, priority) VALUES (5, 'a', 2)");
        if switch["features"]["tube"] != json!(false) {
            t.finds(5);
            t.scan_priorities("a");
        }
        t.q.sql("DELETE FROM {q} WHERE id = 5");
    }
    t.q.sql("ALTER TABLE {q} ALTER priority DROP NOT NULL; INSERT INTO {q} (id, tube, priority) VALUES (5, 'a', NULL)");
    t.scan_priorities("a");
    t.q.sql("DELETE FROM {q} WHERE id > 1000 AND tube = 'a'");
    assert_eq!(t.take("a"), Some(5));
}

/// The server's hash functions give both labels of a pair the same hash for every seed. The two integers once collided
/// in a hash of our own.
#[test]
fn labels_of_the_same_hash() {
    for (label, one, other) in [
        ("jsonb", "[[1], 2]", "[[1, 2]]"),
        ("text[]", "{{a,b},{c,d}}", "{a,b,c,d}"),
        ("bigint", "8233161835963349326", "-4840171929588241355"),
    ] {
        let columns = format!("{COLUMNS}, label {label}");
        let options = json!({"fields": {"tube": "label"}, "features": {"tube": true}});
        let mut q = Queue::with("marks_tubes", &columns, &options);
        let hash = |of: &str| format!("hash_array_extended(ARRAY['{of}'::{label}], 7)");
        let same = format!("SELECT {} = {}", hash(one), hash(other));
        assert_eq!(scalar::<bool>(&mut q.admin, &same, &[]), label != "bigint", "{label}");
        q.sql(&format!(
            "INSERT INTO {{q}} (id, label) SELECT n, CASE n WHEN 1 THEN '{one}'::{label} ELSE '{other}' END \
             FROM generate_series(1, 1000) n"
        ));
        let mut take =
            |of: &str| ids(&q.ask(&format!("SELECT xqueue.take('{{q}}', tube => '{of}')")));
        for id in 2..700 {
            assert_eq!(take(other), [id], "{label}");
        }
        assert_eq!(take(one), [1], "{label}");
        q.sql("SELECT xqueue.release_all('{q}')");
    }
}

#[test]
fn the_least_and_the_greatest_priority() {
    let columns = format!("{COLUMNS}, priority bigint NOT NULL DEFAULT 0");
    let options =
        json!({"fields": {"priority": "priority"}, "features": {"priority": true, "tube": true}});
    let mut t = Tubes::of(Queue::with("marks_tubes", &columns, &options));
    t.q.sql(
        "INSERT INTO {q} (id, tube, priority) VALUES (5, 'a', 9223372036854775807), (6, 'a', -9223372036854775808)",
    );
    // A priority scan has to find the priorities: the upgrade discards those known from the commit.
    t.q.upgrade(&json!({"features": {"buried": true}}));
    t.scan_priorities("a");
    t.finds(6);
    t.q.sql("DELETE FROM {q} WHERE id > 1000");
    t.finds(5);
}

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
        if turn % 10 == 1 {
            t.q.sql(&format!(
                "DELETE FROM {{q}} WHERE id < 1000; INSERT INTO {{q}} (id, tube, priority) \
                 SELECT 500 + n, 'tube ' || n, 1 FROM generate_series(0, {TUBES} - 1) n"
            ));
        }
        for n in 0..TUBES {
            assert!(t.take(&format!("tube {n}")).is_some());
        }
    }
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
