//! Candidates that one take reads ahead for others are hints: each take gets the first task that is ready and free, no
//! matter what happened to the rows since.

use xqueue_tests::*;

/// Makes a queue with this number of tasks, takes the first one, and thereby reads the others ahead.
fn read_ahead(tasks: i64, features: &Value) -> Queue {
    let mut q = Queue::with("ahead", COLUMNS, features);
    q.sql(&format!("INSERT INTO {{q}} (id) SELECT n * 10 FROM generate_series(1, {tasks}) n"));
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

#[test]
fn a_task_that_is_locked_is_passed_over_until_it_is_free() {
    let mut q = read_ahead(6, &json!({}));
    let mut other = q.session();
    other.sql("BEGIN; SELECT FROM {q} WHERE id = 20 FOR UPDATE");
    assert_eq!((next(&mut q), next(&mut q)), (Some(30), Some(40)));
    other.sql("COMMIT");
    finds(&mut q, &[20, 50, 60]);
}

#[test]
fn many_locks_in_turn() {
    let mut q = read_ahead(12, &json!({}));
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

/// A lock and a change that was rolled back leave a multixact in the row's xmax.
#[test]
fn a_task_whose_change_was_rolled_back_is_in_its_place() {
    let mut q = Queue::with("ahead", COLUMNS, &json!({}));
    q.sql("INSERT INTO {q} (id) SELECT n * 10 FROM generate_series(1, 5) n");
    q.sql(
        "BEGIN; SELECT FROM {q} WHERE id = 10 FOR UPDATE; SAVEPOINT before; \
         UPDATE {q} SET payload = '1' WHERE id = 10; ROLLBACK TO before; COMMIT",
    );
    finds(&mut q, &[10, 20, 30, 40, 50]);
}

/// The end of a prepared transaction is not reported.
#[test]
fn a_task_of_a_prepared_transaction() {
    let mut q = read_ahead(5, &json!({}));
    let prepared = q.name.clone();
    q.sql(&format!("BEGIN; INSERT INTO {{q}} (id) VALUES (15); PREPARE TRANSACTION '{prepared}'"));
    assert_eq!(next(&mut q), Some(20));
    q.sql(&format!("COMMIT PREPARED '{prepared}'"));
    finds(&mut q, &[15, 30, 40, 50]);
}

/// A change of the key is rolled back.
#[test]
fn a_task_that_was_moved_for_a_moment() {
    let mut q = read_ahead(5, &json!({}));
    q.sql("BEGIN; UPDATE {q} SET id = 95 WHERE id = 20");
    let mut other = q.session();
    assert_eq!(other.takes(1), [30]);
    q.sql("ROLLBACK");
    finds(&mut q, &[20, 40, 50]);
}

/// A foreign key of another table locks only the key of the task.
#[test]
fn a_task_that_is_referred_to_is_taken() {
    let mut q = read_ahead(3, &json!({}));
    q.sql("CREATE TABLE {q}_parts (task bigint REFERENCES {q})");
    assert_eq!(next(&mut q), Some(20));
    let mut others = [q.session(), q.session()];
    others.iter_mut().for_each(|other| other.sql("BEGIN; INSERT INTO {q}_parts VALUES (30)"));
    assert_eq!(next(&mut q), Some(30));
    others.iter_mut().for_each(|other| other.sql("COMMIT"));
}

#[test]
fn a_task_that_was_changed_by_hand_is_in_its_place() {
    let mut q = read_ahead(6, &json!({}));
    // New versions of the row in its page, and in another page.
    q.sql("UPDATE {q} SET payload = '1' WHERE id = 20");
    q.sql("UPDATE {q} SET payload = to_jsonb(repeat('x', 7900)) WHERE id = 30");
    q.sql("UPDATE {q} SET id = 45 WHERE id = 50");
    q.sql("UPDATE {q} SET status = 'T', owner = xqueue.identify() WHERE id = 40");
    q.sql("UPDATE {q} SET status = 'R', owner = NULL WHERE id = 40");
    finds(&mut q, &[20, 30, 40, 45, 60]);
}

#[test]
fn tasks_that_are_gone() {
    let mut q = read_ahead(300, &json!({}));
    q.sql("DELETE FROM {q} WHERE id > 20 AND id < 2990");
    finds(&mut q, &[20, 2990, 3000]);
}

/// The server truncates empty pages, and reuses the line pointers of deleted rows.
#[test]
fn places_that_are_not_there_any_more() {
    let mut q = read_ahead(500, &json!({}));
    q.sql("UPDATE {q} SET payload = to_jsonb(repeat('x', 500)) WHERE id > 10");
    assert_eq!(next(&mut q), Some(20));
    q.sql("DELETE FROM {q}");
    q.sql("VACUUM {q}");
    finds(&mut q, &[]);
    q.sql("INSERT INTO {q} (id) SELECT 5000 - n FROM generate_series(1, 200) n");
    let expected: Vec<i64> = (4800..5000).collect();
    finds(&mut q, &expected);
}

#[test]
fn a_table_that_is_written_anew() {
    let mut q = read_ahead(50, &json!({}));
    q.sql("DELETE FROM {q} WHERE id IN (20, 40)");
    q.sql("VACUUM FULL {q}");
    assert_eq!((next(&mut q), next(&mut q)), (Some(30), Some(50)));
    q.sql("TRUNCATE {q}");
    q.sql("INSERT INTO {q} (id) VALUES (7), (3)");
    finds(&mut q, &[3, 7]);
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

/// Each tube has its candidates, and takes of candidates scan no index.
#[test]
fn takes_of_several_tubes_in_turn_are_all_read_ahead() {
    const TUBES: [&str; 3] = ["a", "b", "c"];
    let mut q = in_tubes(600, &TUBES);
    let name = q.name.clone();
    let searches = |c: &mut Client, rounds: usize| -> i64 {
        let of_tube = |tube| {
            let take = format!("SELECT xqueue.take('{name}', tube => '{tube}')");
            Reads::of(c, &name, &take, "COMMIT").searches
        };
        (0..rounds).flat_map(|_| TUBES).map(of_tube).sum()
    };
    searches(&mut q.admin, 2);
    let more = searches(&mut q.admin, 15);
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
    // A lock is noted in the candidate ring of the take that met it.
    other.sql("BEGIN; SELECT FROM {q} WHERE id = 12 FOR UPDATE");
    assert_eq!(next_of(&mut q, "a"), Some(14));
    assert_eq!((next(&mut q), next(&mut q), next(&mut q)), (Some(9), Some(11), Some(13)));
    other.sql("COMMIT");
    assert_eq!((next(&mut q), next_of(&mut q, "a")), (Some(12), Some(16)));
    // Tasks that come before the candidates.
    q.sql("SELECT xqueue.put('{q}', '{\"id\": 0}', tube => 'a'); SELECT xqueue.release('{q}', 12)");
    assert_eq!((next_of(&mut q, "a"), next(&mut q)), (Some(0), Some(12)));
}

/// More tubes than candidate rings.
#[test]
fn many_tubes_in_turn() {
    const TUBES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
    let mut q = in_tubes(140, &TUBES);
    let mut rest: Vec<i64> = (1..=140).collect();
    for round in 0..120 {
        let tube = round * 3 % 8;
        let is_of = |id: &i64| tube == 7 || id % 7 == tube as i64;
        let found = match TUBES.get(tube) {
            Some(tube) => next_of(&mut q, tube),
            None => next(&mut q),
        };
        let first = rest.iter().position(is_of).map(|place| rest.remove(place));
        assert_eq!(found, first, "round {round}");
    }
}

/// A backend that is terminated rolls back its takes.
#[test]
fn sessions_that_end_amid_many() {
    let mut q = read_ahead(400, &json!({}));
    let mut others: Vec<Queue> = (0..20).map(|_| q.session()).collect();
    for other in &mut others {
        other.sql("BEGIN");
        assert_eq!(other.takes(1).len(), 1);
    }
    let pids: Vec<i32> = others.iter_mut().step_by(2).map(|other| pid(&mut other.admin)).collect();
    q.sql(&format!("SELECT pg_terminate_backend(pid) FROM unnest(ARRAY{pids:?}) pid"));
    wait_until("they have ended", || {
        let there = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY ($1)";
        scalar::<i64>(&mut q.admin, there, &[&pids]) == 0
    });
    others.iter_mut().skip(1).step_by(2).for_each(|other| other.sql("COMMIT"));
    let expected = (2..=400).map(|n| n * 10).filter(|id| *id > 210 || (id / 10) % 2 == 0);
    let found: Vec<i64> = std::iter::from_fn(|| next(&mut q)).collect();
    assert_eq!(found, expected.collect::<Vec<_>>());
}
