//! A task belongs to the session that took it, and is ready again when that session ends, however it ends.

use xqueue_tests::*;

const CONSUMER: &str = env!("CARGO_BIN_EXE_consumer");

/// Starts a child process that holds the only task. After `end` the task is ready and has no owner.
#[track_caller]
fn ready_again_after(end: impl FnOnce(&mut Queue, &mut Consumer)) {
    let mut q = Queue::new("owner");
    let name = q.name.clone();
    let id = put(&mut q.admin, &name, 1);
    let mut child = Consumer::start(CONSUMER, "hold", &database(), &name);
    assert_eq!(child.task(), id);
    let owned = format!("SELECT count(*) FROM {name} WHERE status = 'T' AND owner IS NOT NULL");
    assert_eq!(scalar::<i64>(&mut q.admin, &owned, &[]), 1);
    end(&mut q, &mut child);
    q.wait_for("ready", 1);
    let free = format!("SELECT count(*) FROM {name} WHERE owner IS NULL");
    assert_eq!(scalar::<i64>(&mut q.admin, &free, &[]), 1);
    q.assert_tasks(&[("ready", 1), ("taken", 0), ("total", 1)]);
    assert_eq!(q.calls("session"), 1);
    assert_eq!(take_all(&mut q.admin, &name), [id]);
}

#[test]
fn clean_exit() {
    ready_again_after(|_, child| child.leave());
}

#[test]
fn sigkill_of_the_client() {
    ready_again_after(|_, child| child.kill());
}

#[test]
fn terminate() {
    ready_again_after(|q, child| q.sql(&format!("SELECT pg_terminate_backend({})", child.backend)));
}

#[test]
fn discard_all() {
    let mut q = Queue::new("owner");
    let name = q.name.clone();
    let mut c = q.client();
    let id = put(&mut c, &name, 1);
    take_all(&mut c, &name);
    c.batch_execute("DISCARD ALL").unwrap();
    q.wait_for("ready", 1);
    let sql = format!("SELECT xqueue.ack('{name}', {id})");
    expect_error(&mut c, &sql, "55000", &format!("task {id} is not taken by anybody"));
    assert_eq!(take(&mut c, &name, "10s", 1).len(), 1, "the session can go on");
    assert_eq!(ack(&mut c, &name, id).len(), 1);
}

/// Other DISCARD commands keep the tasks.
#[test]
fn discard_plans_and_temp() {
    let q = Queue::new("owner");
    let mut c = q.client();
    let id = put(&mut c, &q.name, 1);
    take_all(&mut c, &q.name);
    c.batch_execute("DISCARD PLANS; DISCARD SEQUENCES; DISCARD TEMP; RESET ALL").unwrap();
    assert_eq!(ack(&mut c, &q.name, id).len(), 1);
}

#[test]
fn end_in_the_middle_of_a_transaction() {
    let mut q = Queue::new("owner");
    for ending in ["", "SELECT 1/0"] {
        let mut c = q.client();
        let backend = pid(&mut c);
        let committed = put(&mut c, &q.name, 1);
        take(&mut c, &q.name, "0", 1);
        let open = put(&mut c, &q.name, 2);
        c.batch_execute("BEGIN").unwrap();
        assert_eq!(take_all(&mut c, &q.name), [open]);
        ack(&mut c, &q.name, committed);
        assert_eq!(c.batch_execute(ending).is_err(), !ending.is_empty());
        q.sql(&format!("SELECT pg_terminate_backend({backend})"));
        q.wait_for("ready", 2);
        q.sql("DELETE FROM {q}");
    }
}

#[test]
fn a_thousand_tasks_of_one_session() {
    let mut q = Queue::new("owner");
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 3000)");
    let mut c = q.client();
    assert_eq!(take_all(&mut c, &q.name).len(), 3000);
    let view = "SELECT pid, session, tasks FROM xqueue.taken WHERE queue = $1::text::regclass";
    let row = q.admin.query_one(view, &[&q.name]).unwrap();
    let session: uuid::Uuid = scalar(&mut c, "SELECT xqueue.identify()", &[]);
    assert_eq!((row.get(0), row.get(1), row.get(2)), (pid(&mut c), session, 3000i64));
    drop(c);
    q.wait_for("ready", 3000);
    q.assert_tasks(&[("ready", 3000)]);
    assert_eq!(q.calls("session"), 3000);
}

/// The owner's trigger refuses the release of one row. The other rows are released anyway, and the error is shown.
#[test]
fn a_deferred_constraint_that_refuses_the_release() {
    let mut q = Queue::new("owner");
    q.sql(
        "CREATE FUNCTION {q}_f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
           IF NEW.id = 2 AND NEW.status = 'R' THEN RAISE 'task two stays away'; END IF; RETURN NULL; END $$;
         CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON {q} DEFERRABLE INITIALLY DEFERRED
           FOR EACH ROW EXECUTE FUNCTION {q}_f()",
    );
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 3)");
    let mut c = q.client();
    assert_eq!(take_all(&mut c, &q.name).len(), 3);
    drop(c);
    q.wait_for("ready", 2);
    wait_until("the error is shown", || q.error().contains("task two stays away"));
    q.sql("DROP TRIGGER refuse ON {q}");
    q.wait_for("ready", 3);
    q.sql("DROP FUNCTION {q}_f()");
}

#[test]
fn messages() {
    let q = Queue::new("owner");
    let name = q.name.clone();
    let (mut a, mut b) = (q.client(), q.client());
    let (pid_a, pid_b) = (pid(&mut a), pid(&mut b));
    let id = put(&mut a, &name, 1);
    for call in ["ack", "release"] {
        let sql = |id: i64| format!("SELECT xqueue.{call}('{name}', {id})");
        let e = expect_error(&mut a, &sql(987_654), "P0002", "task 987654 was not found");
        assert_eq!(e.message(), "task 987654 was not found");
        assert_eq!(e.detail(), Some(format!("Queue \"public.{name}\".").as_str()));
        let e = expect_error(&mut a, &sql(id), "55000", "");
        assert_eq!(e.message(), format!("task {id} is not taken by anybody"));
        take_all(&mut a, &name);
        let e = expect_error(&mut b, &sql(id), "55006", "");
        assert_eq!(e.message(), format!("task {id} is taken by {pid_a}, not by you ({pid_b})"));
        assert!(e.hint().is_some());
        release(&mut a, &name, id);
    }
}

#[test]
fn changes_by_hand_to_a_taken_task() {
    let mut q = Queue::new("owner");
    let name = q.name.clone();
    let mut c = q.client();
    let ids: Vec<i64> = (0..3).map(|n| put(&mut c, &name, n)).collect();
    take_all(&mut c, &name);
    q.sql("SET xqueue.guard = off");
    q.sql(&format!("UPDATE {{q}} SET status = 'R' WHERE id = {}", ids[0]));
    q.sql(&format!("DELETE FROM {{q}} WHERE id = {}", ids[1]));
    q.sql(&format!("UPDATE {{q}} SET payload = '9' WHERE id = {}", ids[2]));
    let sql = |id: i64| format!("SELECT xqueue.ack('{name}', {id})");
    expect_error(&mut c, &sql(ids[0]), "55000", "is not taken by anybody");
    expect_error(&mut c, &sql(ids[1]), "P0002", "was not found");
    assert_eq!(ack(&mut c, &name, ids[2])[0]["payload"], json!(9));
    assert_eq!(take_all(&mut q.admin, &name), [ids[0]]);
}

#[test]
fn a_role_change_keeps_the_session() {
    let mut q = Queue::new("owner");
    let role = unique("owner_role");
    q.sql(&format!("CREATE ROLE {role}; GRANT ALL ON {{q}} TO {role}"));
    let id = put(&mut q.admin, &q.name, 1);
    take_all(&mut q.admin, &q.name);
    q.sql(&format!("SET ROLE {role}"));
    assert_eq!(ack(&mut q.admin, &q.name, id).len(), 1);
    q.sql(&format!("RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}"));
}
