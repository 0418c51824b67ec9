//! Candidates for takes of several tasks, for takes that fail, and for takes with several priorities: each task is
//! taken once, and in order.

use xqueue_tests::*;

/// Takes the next task and returns its key.
#[track_caller]
fn next(q: &mut Queue) -> Option<i64> {
    q.takes(1).pop()
}

/// The last task of a batch cannot be converted to JSON for this role. The take notices it after it has changed the
/// other rows. Batches are taken one by one, and by a statement, which reports its changes only at its end.
#[test]
fn tasks_whose_take_fails_in_the_middle_come_first_again() {
    fails_in_the_middle(50);
    fails_in_the_middle(250);
}

fn fails_in_the_middle(many: i64) {
    let mut q = Queue::with("ahead", COLUMNS, &json!({}));
    q.sql(&format!(
        "CREATE TYPE {{q}}_kind AS ENUM ('good', 'bad'); \
         CREATE FUNCTION {{q}}_json({{q}}_kind) RETURNS json LANGUAGE plpgsql AS $$ BEGIN \
           IF $1 = 'bad' THEN PERFORM pg_advisory_xact_lock('{{q}}'::regclass::bigint); RAISE 'a bad one' USING ERRCODE = 'insufficient_privilege'; END IF; \
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

/// Takes check priorities without known tasks last, and scan no index for them.
#[test]
fn priorities_without_tasks() {
    let mut q = Queue::with("ahead", COLUMNS, &json!({"features": {"priority": true}}));
    q.sql("INSERT INTO {q} (id, priority) SELECT n, n % 4 FROM generate_series(1, 4000) n");
    let name = q.name.clone();
    for _ in 0..15 {
        assert_eq!(q.takes(200).len(), 200);
    }
    let one = format!("SELECT xqueue.take('{name}')");
    // Only tasks of the last priority are left.
    let mut searches = |takes: usize| -> i64 {
        (0..takes).map(|_| Reads::of(&mut q.admin, &name, &one, "COMMIT").searches).sum()
    };
    searches(200);
    // Candidates are read once a second, and a mark is raised occasionally.
    let few = searches(200);
    assert!(few < 100, "{few} searches for 200 takes");
    for priority in [2, 0, 1] {
        q.sql(&format!("INSERT INTO {{q}} (id, priority) VALUES ({priority} + 5000, {priority})"));
        assert_eq!(next(&mut q), Some(priority + 5000));
    }
}
