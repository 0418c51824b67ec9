//! More tubes and priorities than there are low-water marks, and random takes and puts: no ready task is hidden.
//! XQUEUE_SEED repeats a run.

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
