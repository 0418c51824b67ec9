//! Marks of single priorities.

use super::*;
use rand::Rng;

/// A queue with priorities has a mark for each: no mark hides a task of another priority.
#[test]
fn priorities_have_their_own() {
    let mut q =
        Queue::with("marks", COLUMNS, &json!({"features": {"priority": true, "delayed": true}}));
    let name = q.name.clone();
    // Takes until the priorities are known, and the tasks of the first two are done.
    let (tasks, takes) = (5 * enough_takes(), 5 * enough_takes() / 2);
    q.sql(&format!(
        "INSERT INTO {{q}} (id, priority) SELECT 1000 + n, n % 5 FROM generate_series(1, {tasks}) n"
    ));
    for _ in 0..takes {
        let sql =
            format!("SELECT xqueue.ack('{name}', (t->>'id')::bigint) FROM xqueue.take('{name}') t");
        assert_eq!(values(&mut q.admin, &sql, &[]).len(), 1);
    }
    // Keys of tasks of the last two priorities.
    let (moved, named) = (999 + tasks as i64, 998 + tasks as i64);
    for (sql, id) in [
        ("SELECT xqueue.put('{q}', '{\"id\": 7}', priority => 0)", 7),
        ("SELECT xqueue.put('{q}', '{\"id\": 6}', priority => 1)", 6),
        ("INSERT INTO {q} (id, priority) VALUES (5, -3)", 5),
        ("UPDATE {q} SET priority = -1 WHERE id = {moved}", moved),
        ("UPDATE {q} SET id = 3, priority = 0 WHERE id = {named}", 3),
        ("SELECT xqueue.release('{q}', 6)", 6),
        ("SELECT xqueue.release('{q}', 7, delay => '1 ms')", 7),
        ("SELECT xqueue.snatch('{q}', 5)", 5),
    ] {
        let sql = sql.replace("{moved}", &moved.to_string()).replace("{named}", &named.to_string());
        q.sql(&sql);
        let first = format!(
            "SELECT EXISTS (SELECT FROM {name} WHERE id = {id} AND status = 'R' AND priority <= 1)"
        );
        wait_until("it is ready", || scalar(&mut q.admin, &first, &[]));
        finds(&mut q, id);
    }
    // A batch continues with the next priority.
    q.sql("INSERT INTO {q} (id, priority) VALUES (1, 0), (2, 1)");
    let batch = ids(&take(&mut q.admin, &name, "0", 4));
    assert_eq!(batch[..2], [1, 2]);
    assert_eq!(batch.len(), 4);
    let sql = "SELECT bool_and(priority = 2) FROM {q} WHERE id = ANY ($1)".replace("{q}", &name);
    assert!(scalar::<bool>(&mut q.admin, &sql, &[&batch[2..].to_vec()]));
    q.sql("SELECT xqueue.release('{q}', ARRAY[1, 2])");
    // More priorities than there are marks.
    q.sql(
        "INSERT INTO {q} (id, priority) SELECT 1000000 + n, 100 - n FROM generate_series(1, 40) n",
    );
    assert_eq!(ids(&take(&mut q.admin, &name, "0", 2)), [1, 2]);
    q.sql("UPDATE {q} SET priority = -1000 WHERE id = 1000040");
    finds(&mut q, 1000040);
}

/// Producers and consumers with random priorities: no task is hidden.
#[test]
fn nothing_is_hidden_from_a_crowd_by_priorities() {
    let mut q = Queue::with("marks", COLUMNS, &json!({"features": {"priority": true}}));
    let put = |_: &mut _, producer, n| {
        let priority = (n * 7 + producer * 3) % if n < 350 { 8 } else { 40 };
        format!("SELECT xqueue.put('{{q}}', '{{}}', priority => {priority})")
    };
    crowd(&q, (2, 700), put, |random| {
        format!("SELECT xqueue.take('{{q}}', count => {})", random.random_range(1..4))
    });
    assert_all_found(&mut q);
}
