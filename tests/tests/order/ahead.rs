//! Candidates that one take reads ahead for others are hints: each take gets the first tasks that are ready and free,
//! no matter what happened to the rows since.

use xqueue_tests::*;

/// Makes a queue with this number of tasks.
fn queue(tasks: i64) -> Queue {
    let mut q = Queue::with("ahead", COLUMNS, &json!({}));
    q.sql(&format!("INSERT INTO {{q}} (id) SELECT n * 10 FROM generate_series(1, {tasks}) n"));
    q
}

/// Makes a queue, takes the first task, and thereby reads the others ahead.
fn read_ahead(tasks: i64) -> Queue {
    let mut q = queue(tasks);
    assert_eq!(next(&mut q), Some(10));
    q
}

/// Takes the next task and returns its key.
#[track_caller]
fn next(q: &mut Queue) -> Option<i64> {
    q.takes(1).pop()
}

/// Takes the next task of a tube and returns its key.
#[track_caller]
fn next_of(q: &mut Queue, tube: &str) -> Option<i64> {
    let sql = format!("SELECT xqueue.take('{{q}}', tube => '{tube}')->'id'");
    q.ask(&sql).pop().and_then(|id| id.as_i64())
}

/// Asserts that the next tasks are exactly these.
#[track_caller]
fn finds(q: &mut Queue, expected: &[i64]) {
    let found: Vec<i64> = std::iter::from_fn(|| next(q)).collect();
    assert_eq!(found, expected);
    q.verify();
}

/// Another transaction locks a task, or changes its key for a moment.
#[test]
fn a_task_that_is_held_is_passed_over_until_it_is_free() {
    for (hold, end) in [
        ("SELECT FROM {q} WHERE id = 20 FOR UPDATE", "COMMIT"),
        ("UPDATE {q} SET id = 95 WHERE id = 20", "ROLLBACK"),
    ] {
        let mut q = read_ahead(6);
        let mut other = q.session();
        other.sql(&format!("BEGIN; {hold}"));
        assert_eq!((next(&mut q), next(&mut q)), (Some(30), Some(40)));
        other.sql(end);
        finds(&mut q, &[20, 50, 60]);
    }
}

/// Rows that have been read ahead, or not, change their places.
#[test]
fn a_task_that_was_changed_is_in_its_place() {
    let many: Vec<i64> = (4800..5000).collect();
    let cases: [(i64, &[&str], &[i64]); 6] = [
        // A lock and a change that was rolled back leave a multixact in the row's xmax.
        (
            5,
            &["BEGIN; SELECT FROM {q} WHERE id = 20 FOR UPDATE; SAVEPOINT before;
               UPDATE {q} SET payload = '1' WHERE id = 20; ROLLBACK TO before; COMMIT"],
            &[20, 30, 40, 50],
        ),
        // New versions of the row in its page, and in another page.
        (
            6,
            &[
                "UPDATE {q} SET payload = '1' WHERE id = 20",
                "UPDATE {q} SET payload = to_jsonb(repeat('x', 7900)) WHERE id = 30",
                "UPDATE {q} SET id = 45 WHERE id = 50",
                "UPDATE {q} SET status = 'T', owner = xqueue.identify() WHERE id = 40",
                "UPDATE {q} SET status = 'R', owner = NULL WHERE id = 40",
            ],
            &[20, 30, 40, 45, 60],
        ),
        (300, &["DELETE FROM {q} WHERE id > 20 AND id < 2990"], &[20, 2990, 3000]),
        (50, &["DELETE FROM {q} WHERE id IN (20, 40) OR id > 50", "VACUUM FULL {q}"], &[30, 50]),
        (50, &["TRUNCATE {q}", "INSERT INTO {q} (id) VALUES (7), (3)"], &[3, 7]),
        // The server truncates empty pages, and reuses the line pointers of deleted rows.
        (
            500,
            &[
                "UPDATE {q} SET payload = to_jsonb(repeat('x', 500)) WHERE id > 10",
                "SELECT xqueue.take('{q}')",
                "DELETE FROM {q}",
                "VACUUM {q}",
                "SELECT xqueue.take('{q}')",
                "INSERT INTO {q} (id) SELECT 5000 - n FROM generate_series(1, 200) n",
            ],
            &many,
        ),
    ];
    for (tasks, changes, expected) in cases {
        for mut q in [read_ahead(tasks), queue(tasks)] {
            q.sql("DELETE FROM {q} WHERE id = 10");
            changes.iter().for_each(|change| q.sql(change));
            finds(&mut q, expected);
        }
    }
}

#[test]
fn many_locks_in_turn() {
    let mut q = read_ahead(12);
    let mut others = [20, 30, 40, 50, 60, 70, 80].map(|id| {
        let mut other = q.session();
        other.sql(&format!("BEGIN; SELECT FROM {{q}} WHERE id = {id} FOR NO KEY UPDATE"));
        other
    });
    assert_eq!((next(&mut q), next(&mut q)), (Some(90), Some(100)));
    others[3].sql("ROLLBACK");
    assert_eq!((next(&mut q), next(&mut q)), (Some(50), Some(110)));
    drop(others);
    repeat_until("the first task is free", || match next(&mut q) {
        Some(20) => true,
        found => {
            found.iter().for_each(|id| drop(release(&mut q.admin, &q.name, *id)));
            false
        }
    });
}

/// The end of a prepared transaction is not reported.
#[test]
fn a_task_of_a_prepared_transaction() {
    let mut q = read_ahead(5);
    let prepared = q.name.clone();
    q.sql(&format!("BEGIN; INSERT INTO {{q}} (id) VALUES (15); PREPARE TRANSACTION '{prepared}'"));
    assert_eq!(next(&mut q), Some(20));
    q.sql(&format!("COMMIT PREPARED '{prepared}'"));
    finds(&mut q, &[15, 30, 40, 50]);
}

/// A foreign key of another table locks only the key of the task.
#[test]
fn a_task_that_is_referred_to_is_taken() {
    let mut q = read_ahead(3);
    q.sql("CREATE TABLE {q}_parts (task bigint REFERENCES {q})");
    assert_eq!(next(&mut q), Some(20));
    let mut others = [q.session(), q.session()];
    others.iter_mut().for_each(|other| other.sql("BEGIN; INSERT INTO {q}_parts VALUES (30)"));
    assert_eq!(next(&mut q), Some(30));
    others.iter_mut().for_each(|other| other.sql("COMMIT"));
}

/// Makes a queue whose tasks go to these tubes in turn.
fn in_tubes(tasks: i64, tubes: &[&str]) -> Queue {
    let mut q = Queue::with("ahead", COLUMNS, &json!({"features": {"tube": true}}));
    q.sql(&format!(
        "INSERT INTO {{q}} (id, tube) SELECT n, (ARRAY['{}'])[1 + n % {}] FROM generate_series(1, {tasks}) n",
        tubes.join("', '"),
        tubes.len()
    ));
    q
}

/// Returns the number of index scans of a take.
fn searches_of_take(q: &mut Queue, arguments: &str) -> i64 {
    let take = format!("SELECT xqueue.take('{}'{arguments})", q.name);
    Reads::of(&mut q.admin, &q.name, &take, "COMMIT").searches
}

/// Each tube has its candidates, and takes of candidates scan no index.
#[test]
fn takes_of_several_tubes_in_turn_are_all_read_ahead() {
    const TUBES: [&str; 3] = ["a", "b", "c"];
    let mut q = in_tubes(600, &TUBES);
    let mut searches = |rounds: usize| -> i64 {
        let tubes = (0..rounds).flat_map(|_| TUBES);
        tubes.map(|tube| searches_of_take(&mut q, &format!(", tube => '{tube}'"))).sum()
    };
    searches(2);
    let more = searches(15);
    // Candidates are read again once a second.
    assert!(more < 20, "{more} searches for 45 takes");
    assert_eq!(q.counted()["taken"], json!(51));
}

/// A take of a tube holds a task that a take of any tube skips; then the first take is rolled back.
#[test]
fn a_task_that_several_rings_have_comes_back_in_all() {
    let mut q = in_tubes(40, &["a", "b"]);
    assert_eq!((next(&mut q), next_of(&mut q, "a")), (Some(1), Some(2)));
    let mut other = q.session();
    other.sql("BEGIN");
    assert_eq!(next_of(&mut other, "a"), Some(4));
    assert_eq!((next(&mut q), next(&mut q), next(&mut q)), (Some(3), Some(5), Some(6)));
    other.sql("ROLLBACK");
    assert_eq!(next(&mut q), Some(4));
    // A take of any tube holds the task that the take of a tube skips.
    other.sql("BEGIN");
    assert_eq!(other.takes(2), [7, 8]);
    assert_eq!(next_of(&mut q, "a"), Some(10));
    other.sql("ROLLBACK");
    assert_eq!((next_of(&mut q, "a"), next(&mut q)), (Some(8), Some(7)));
    // Tasks that come before the candidates.
    q.sql("SELECT xqueue.put('{q}', '{\"id\": 0}', tube => 'a'); SELECT xqueue.release('{q}', 8)");
    assert_eq!((next_of(&mut q, "a"), next(&mut q)), (Some(0), Some(8)));
}

/// The last task of a batch cannot be converted to JSON for this role. The take notices it after it has changed the
/// other rows. Batches are taken one by one, and by a statement, which reports its changes only at its end.
#[test]
fn tasks_whose_take_fails_in_the_middle_come_first_again() {
    for many in [50, 250] {
        let mut q = Queue::with("ahead", COLUMNS, &json!({}));
        q.sql(&format!(
            "CREATE TYPE {{q}}_kind AS ENUM ('good', 'bad'); \
             CREATE FUNCTION {{q}}_json({{q}}_kind) RETURNS json LANGUAGE plpgsql AS $$ BEGIN \
               IF $1 = 'bad' THEN \
                   PERFORM pg_advisory_xact_lock('{{q}}'::regclass::bigint); \
                   RAISE 'a bad one' USING ERRCODE = 'insufficient_privilege'; \
               END IF; \
               RETURN to_json($1::text); \
             END $$; \
             CREATE CAST ({{q}}_kind AS json) WITH FUNCTION {{q}}_json({{q}}_kind); \
             ALTER TABLE {{q}} ADD kind {{q}}_kind DEFAULT 'good'; \
             INSERT INTO {{q}} (id, kind) SELECT n, CASE n WHEN {many} THEN 'bad'::{{q}}_kind ELSE 'good' END \
               FROM generate_series(1, {many} + 3) n"
        ));
        let mut holder = q.session();
        holder.sql("SELECT pg_advisory_lock('{q}'::regclass::bigint)");
        let take = format!("SELECT xqueue.take('{}', count => {many})", q.name);
        let failing = Waiter::start(q.client(), &take);
        failing.wait_for_lock(&mut q);
        assert_eq!((next(&mut q), next(&mut q)), (Some(many + 1), Some(many + 2)));
        holder.sql("SELECT pg_advisory_unlock_all()");
        assert_eq!(failing.error().1.message(), "a bad one");
        assert_eq!((next(&mut q), next(&mut q)), (Some(1), Some(2)));
    }
}

/// Takes check priorities without known tasks last, and scan no index for them.
#[test]
fn priorities_without_tasks() {
    let mut q = Queue::with("ahead", COLUMNS, &json!({"features": {"priority": true}}));
    q.sql("INSERT INTO {q} (id, priority) SELECT n, n % 4 FROM generate_series(1, 4000) n");
    for _ in 0..15 {
        assert_eq!(q.takes(200).len(), 200);
    }
    // Only tasks of the last priority are left.
    let mut searches = || -> i64 { (0..200).map(|_| searches_of_take(&mut q, "")).sum() };
    searches();
    // Candidates are read once a second, and a mark is raised occasionally.
    let few = searches();
    assert!(few < 100, "{few} searches for 200 takes");
    for priority in [2, 0, 1] {
        q.sql(&format!("INSERT INTO {{q}} (id, priority) VALUES ({priority} + 5000, {priority})"));
        assert_eq!(next(&mut q), Some(priority + 5000));
    }
}
