//! Verbs that change many tasks skip those that no UPDATE can write, and change the others.

use super::{COMPANY, REFUSALS, cases, fill, queue, taken};
use xqueue_tests::{Queue, ids, json};

const SHAPES: [(&str, &str); 4] = [
    ("id bigint PRIMARY KEY", r#"{"buried": true}"#),
    ("id bigint PRIMARY KEY", r#"{"buried": true, "priority": true, "tube": true, "ttr": 60}"#),
    ("id bigint, part int DEFAULT 1, PRIMARY KEY (id, part)", r#"{"buried": true}"#),
    ("id bigint PRIMARY KEY", r#"{"buried": true, "utube": true}"#),
];

/// Runs a test with each case. The refusals apply to tasks that become ready. Of 20 tasks, 1, 2 and 5 are bad. `begin`
/// runs before the table refuses, `go_on` after.
fn with_each<T>(begin: impl Fn(&mut Queue) -> T, go_on: impl Fn(&mut Queue, T, &str)) {
    for (shape, company, (refusal, state)) in cases(&SHAPES) {
        let mut q = queue(shape, company);
        fill(&mut q, &[], "bad", "{}", shape.1);
        let begun = begin(&mut q);
        // The bad tasks must have no bad version in state ready, because index builds include old versions.
        q.sql("UPDATE {q} SET payload = 'bad' WHERE id IN (1, 2, 5)");
        q.sql(&refusal.replace("'T'", "'R'"));
        go_on(&mut q, begun, state);
        q.sql("DELETE FROM {q}");
    }
}

fn in_state(q: &mut Queue, state: &str) -> Vec<i64> {
    let found =
        q.ask(&format!("SELECT to_jsonb(id) FROM {{q}} WHERE status = '{state}' ORDER BY id"));
    found.iter().filter_map(|id| id.as_i64()).collect()
}

/// Asserts that the queue's error names a bad task. `release_all` and `give_back` have no order.
#[track_caller]
fn assert_named(q: &mut Queue, what: &str) {
    let error = q.error();
    let names = |id: i64| {
        error.starts_with(&format!("task {id} cannot be {what}: "))
            || error.starts_with(&format!("task ({id}, 1) cannot be {what}: "))
    };
    assert!([1, 2, 5].into_iter().any(names) && error.contains("Mend or delete it"), "{error}");
}

#[test]
fn kick_and_plow_pass_over_what_no_update_can_write() {
    with_each(
        |q| q.sql("UPDATE {q} SET status = 'B'"),
        |q, (), state| {
            assert_eq!(q.ask_one("SELECT to_jsonb(xqueue.kick('{q}', 2))"), 2);
            assert_eq!(in_state(q, "R"), [3, 4]);
            assert_named(q, "kicked");
            assert_eq!(ids(&q.ask("SELECT xqueue.plow('{q}', 2)")), [6, 7]);
            assert_eq!(ids(&q.ask("SELECT xqueue.plow('{q}')")), (8..=20).collect::<Vec<_>>());
            assert_eq!(in_state(q, "B"), [1, 2, 5]);
            assert_eq!(q.calls("kick"), 17);
            for verb in ["kick('{q}', 1)", "plow('{q}')", "plow(NULL::{q}, 9)"] {
                q.fails(&format!("SELECT xqueue.{verb}"), state, "");
            }
            assert_eq!(q.ask_one("SELECT to_jsonb(xqueue.kick('{q}', 0))"), 0);
        },
    );
}

/// Returns a session that has taken all tasks.
fn holder(q: &mut Queue) -> Queue {
    let mut holder = q.session();
    assert_eq!(taken(&mut holder, ", count => 20").len(), 20);
    holder
}

#[test]
fn release_all_and_give_back_pass_over_what_no_update_can_write() {
    for (verb, call, what) in
        [("release_all", "snatch", "snatched"), ("give_back", "give_back", "given back")]
    {
        with_each(holder, |q, mut holder, state| {
            let sql = format!("SELECT to_jsonb(xqueue.{verb}('{{q}}'))");
            let c = if verb == "release_all" { &mut *q } else { &mut holder };
            assert_eq!(c.ask_one(&sql), 17);
            assert_eq!(in_state(q, "T"), [1, 2, 5]);
            assert_named(q, what);
            assert_eq!(q.calls(call), 17);
            holder.fails(&sql, state, "");
        });
    }
}

/// A queue whose only task cannot be given back does not affect the tasks of other queues.
#[test]
fn give_back_of_all_queues_passes_over_a_queue() {
    let mut others = [queue(SHAPES[0], ""), queue(SHAPES[0], "")];
    let mut q = queue(SHAPES[0], "");
    q.sql("INSERT INTO {q} (id, payload) VALUES (1, 'bad')");
    let mut c = q.session();
    assert_eq!(taken(&mut c, ""), [1]);
    for other in &mut others {
        other.sql("INSERT INTO {q} (id) VALUES (1), (2)");
        c.sql(&format!("SELECT xqueue.take('{}', count => 2)", other.name));
        other.assert_tasks(&[("taken", 2)]);
    }
    q.sql(REFUSALS[1].0);
    assert_eq!(c.ask("SELECT to_jsonb(xqueue.give_back())"), [json!(4)]);
    assert_named(&mut q, "given back");
    c.fails("SELECT xqueue.give_back()", "P0001", "not this one");
    q.sql("DELETE FROM {q}");
    assert_eq!(c.ask("SELECT to_jsonb(xqueue.give_back())"), [json!(0)]);
    for q in others.iter_mut().chain([&mut q]) {
        q.sql("DELETE FROM {q}");
    }
}

/// Thousands of tasks, a few of which a trigger refuses.
#[test]
fn many_tasks_pass_over_few() {
    let mut q = queue(SHAPES[0], COMPANY[2]);
    q.sql(
        "INSERT INTO {q} (id, payload, status)
         SELECT n, CASE WHEN n % 700 = 0 THEN 'bad' ELSE 'good' END, 'B'
         FROM generate_series(1, 2500) AS n",
    );
    q.sql(REFUSALS[1].0);
    assert_eq!(q.ask_one("SELECT to_jsonb(xqueue.kick('{q}', 1500))"), 1500);
    assert_eq!(in_state(&mut q, "B")[..4], [700, 1400, 1503, 1504]);
    assert_eq!(q.ask("SELECT xqueue.plow('{q}')").len(), 2500 - 3 - 1500);
    assert_eq!(in_state(&mut q, "B"), [700, 1400, 2100]);
    q.sql("DELETE FROM {q}");
}
