//! A task belongs to the session that took it, and is ready again when that session ends, however it ends.

use xqueue_tests::*;

const CONSUMER: &str = env!("CARGO_BIN_EXE_consumer");

/// The client exits, is killed, or loses its backend.
#[test]
fn the_task_of_a_process_that_ends() {
    let ends: [fn(&mut Queue, &mut Consumer); 3] = [
        |_, child| child.leave(),
        |_, child| child.kill(),
        |q, child| q.sql(&format!("SELECT pg_terminate_backend({})", child.backend)),
    ];
    for end in ends {
        let mut q = Queue::new("owner");
        let id = put(&mut q.admin, &q.name, 1);
        let mut child = Consumer::start(CONSUMER, "hold", &database(), &q.name);
        assert_eq!(child.task(), id);
        assert!(q.holds(id, "status = 'T' AND owner IS NOT NULL"));
        end(&mut q, &mut child);
        q.wait_for("ready", 1);
        assert!(q.holds(id, "owner IS NULL"));
        q.assert_tasks(&[("ready", 1), ("taken", 0), ("total", 1)]);
        assert_eq!(q.calls("session"), 1);
        assert_eq!(take_all(&mut q.admin, &q.name), [id]);
    }
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
        c.run("BEGIN");
        assert_eq!(take_all(&mut c, &q.name), [open]);
        ack(&mut c, &q.name, committed);
        assert_eq!(c.batch_execute(ending).is_err(), !ending.is_empty());
        q.sql(&format!("SELECT pg_terminate_backend({backend})"));
        q.wait_for("ready", 2);
        q.sql("DELETE FROM {q}");
    }
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

/// The hash of the first key of a session waits for the catalogue. A session that is terminated there ends its transaction
/// as a whole.
#[test]
fn a_session_that_is_terminated_while_it_acks_keeps_no_lock() {
    alone();
    let mut q = Queue::with("ended", "id uuid PRIMARY KEY DEFAULT gen_random_uuid()", &json!({}));
    q.sql("SELECT xqueue.put('{q}', '{}')");
    let mut c = q.client();
    let id: String =
        scalar(&mut c, &format!("SELECT id::text FROM xqueue.take(NULL::{})", q.name), &[]);
    let victim = pid(&mut c);
    q.sql("BEGIN; LOCK TABLE pg_catalog.pg_opclass IN ACCESS EXCLUSIVE MODE");
    let ack = format!("SELECT xqueue.ack('{}', '{id}'::uuid)", q.name);
    let acking = std::thread::spawn(move || c.batch_execute(&ack).is_err());
    let waits =
        format!("SELECT to_jsonb(count(*) > 0) FROM pg_locks WHERE pid = {victim} AND NOT granted");
    wait_until("the ack waits", || q.ask_one(&waits) == json!(true));
    q.sql(&format!("SELECT pg_terminate_backend({victim})"));
    assert!(acking.join().expect("an ack"), "the session has been terminated");
    q.sql("ROLLBACK; BEGIN; SET LOCAL lock_timeout = '10s'; LOCK TABLE {q} IN ACCESS EXCLUSIVE MODE; COMMIT");
    q.wait_for("ready", 1);
}
