//! Queues whose owners' code never ends, or undoes the worker's changes. No other queue waits for them, and every retry
//! comes after a pause.

mod kinds;
mod places;

use xqueue_tests::*;

const CONSUMER: &str = env!("CARGO_BIN_EXE_consumer");

/// Never ends, and ignores the cancellation of its statement.
const ENDLESS: &str = "LOOP BEGIN PERFORM pg_sleep(1); EXCEPTION WHEN query_canceled OR OTHERS THEN NULL; END; END LOOP";

/// A task that is due.
const DUE: &str = "INSERT INTO {q} (status, runat) VALUES ('W', now())";

/// Returns the job workers of the database that `c` is connected to.
fn job_workers(c: &mut Client) -> Vec<i32> {
    workers(c, "xqueue job worker")
}

/// Creates a queue with delays on a server for one test.
fn queue_at(server: &Cluster, name: &str) -> Queue {
    Queue::make_at(server.config(), name, COLUMNS, &json!({"features": {"delayed": true}}))
}

/// Creates a queue whose trigger never ends, and waits until a job worker runs it.
#[track_caller]
fn endless(database: &Database) -> Queue {
    let mut q = Queue::new_in(&database.name, "sick");
    q.before_each("UPDATE", ENDLESS);
    q.sql(DUE);
    wait_until("it runs", || !job_workers(&mut q.admin).is_empty());
    q
}

#[test]
fn a_trigger_that_cannot_be_cancelled_stops_no_other_queue() {
    let database = Database::new("deaf");
    let mut healthy = Queue::new_in(&database.name, "healthy");
    let mut sick = endless(&database);
    let mut c = database.client();
    let first = job_workers(&mut c);
    healthy.is_served(5);
    // Tasks of a lost consumer come back as well.
    let child = Consumer::start(CONSUMER, "hold", &database.name, &healthy.name);
    healthy.wait_for("taken", 1);
    drop(child);
    healthy.wait_for("taken", 0);
    wait_until("it is ended", || sick.error().contains("its worker was ended"));
    wait_until("it is tried again", || job_workers(&mut c).iter().any(|pid| !first.contains(pid)));
    healthy.is_served(5);
    assert_eq!(sick.counted()["waiting"], json!(1));
    sick.mend();
    sick.wait_for("ready", 1);
    wait_until("the error is gone", || sick.error().is_empty());
}

#[test]
fn the_sick_queues_of_a_role_do_not_keep_another_from_its_triggers() {
    let database = Database::new("crowd");
    let owner = unique("crowd");
    let mut honest = Queue::new_in(&database.name, "honest");
    honest.sql(&format!(
        "CREATE ROLE {owner}; GRANT CREATE ON SCHEMA public TO {owner}; ALTER TABLE {{q}} OWNER TO {owner}"
    ));
    honest.before_each("UPDATE", "RETURN NEW");
    let mut sick = [(); 3].map(|()| endless(&database));
    for _ in 0..10 {
        honest.is_served(1);
        let running = job_workers(&mut honest.admin).len();
        assert!(running <= 2, "as many as xqueue.max_job_workers allows");
    }
    // Every failing queue gets its turn.
    for q in &mut sick {
        wait_until("each is tried", || !q.error().is_empty());
    }
    sick.iter_mut().for_each(Queue::mend);
    sick.iter_mut().for_each(|q| q.wait_for("ready", 1));
    honest.sql(&format!(
        "ALTER TABLE {{q}} OWNER TO CURRENT_USER; DROP OWNED BY {owner}; DROP ROLE {owner}"
    ));
    honest.mend();
}

#[test]
fn a_queue_and_the_extension_and_the_database_are_dropped_while_a_job_runs() {
    let mut database = Database::new("dropped");
    for what in ["DROP TABLE {q}", "DROP EXTENSION xqueue CASCADE"] {
        let mut q = endless(&database);
        q.abandon();
        q.sql(&format!("SET lock_timeout = '15s'; {what}"));
        wait_until("the job worker leaves or has nothing to do", || {
            let busy = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'xqueue job worker' \
                        AND datname = current_database() AND state = 'active')";
            scalar(&mut q.admin, busy, &[])
        });
    }
    database.client().run("CREATE EXTENSION xqueue");
    endless(&database).abandon();
    let name = database.name.clone();
    database.wait_until_alone();
    database.sql(&format!("DROP DATABASE {name}"));
}

#[test]
fn a_job_worker_needs_no_worker_of_the_database() {
    let database = Database::new("orphans");
    let mut sick = endless(&database);
    let mut c = database.client();
    let first = job_workers(&mut c);
    end_worker(&mut c);
    wait_until("it is ended as it takes too long", || {
        !job_workers(&mut c).iter().any(|pid| first.contains(pid))
    });
    wait_until("the next one is tried", || !job_workers(&mut c).is_empty());
    sick.mend();
    sick.wait_for("ready", 1);
}

#[test]
fn what_comes_to_nothing_is_not_tried_again_at_once() {
    const PAST: &str = "'2001-01-01'";
    const TAKEN: &str = "INSERT INTO {q} (status) VALUES ('T')";
    const ENDED: &str = "INSERT INTO {q} (status, owner) VALUES ('T', gen_random_uuid())";
    let database = Database::new("reverted");
    let mut healthy = Queue::new_in(&database.name, "healthy");
    let past = format!("NEW.status := 'W'; NEW.runat := {PAST}; RETURN NEW");
    let anew = format!("INSERT INTO public.{{q}} (status, runat) VALUES ('W', {PAST}); RETURN NEW");
    for (name, body, task) in [
        ("revert", "RETURN OLD", DUE),
        ("refuse", "RETURN NULL", DUE),
        ("past", &past, DUE),
        ("anew", &anew, DUE),
        ("orphan", "RETURN NULL", TAKEN),
        ("kept", "RETURN OLD", TAKEN),
        ("session", "RETURN OLD", ENDED),
        ("lost", "RETURN NULL", ENDED),
    ] {
        let mut q = Queue::new_in(&database.name, name);
        q.sql("CREATE SEQUENCE {q}_rounds");
        q.before_each(
            "UPDATE",
            &format!(
                "IF current_setting('application_name') NOT LIKE 'xqueue %' THEN RETURN NEW; END IF;
                 PERFORM nextval('public.{{q}}_rounds'); {body}"
            ),
        );
        q.sql(task);
        // The next worker compares taken tasks with the sessions.
        end_worker(&mut q.admin);
        let rounds = |q: &mut Queue| -> i64 {
            let rounds = format!("SELECT last_value * is_called::int FROM {}_rounds", q.name);
            scalar(&mut q.admin, &rounds, &[])
        };
        wait_until(&format!("{name}: the worker has come by"), || rounds(&mut q) > 0);
        // Waits until the short pauses at the beginning have passed.
        healthy.is_served(10);
        let before = rounds(&mut q);
        healthy.is_served(10);
        let more = rounds(&mut q) - before;
        assert!(more <= 10, "{name}: {more} rounds while another queue was served 10 times");
        // Without the trigger, the queue is served.
        q.mend();
        q.wait_for("waiting", 0);
        q.wait_for("taken", 0);
        q.sql("DROP SEQUENCE {q}_rounds");
    }
}

#[test]
fn a_cancel_of_an_idle_worker_does_not_end_it() {
    let database = Database::new("cancelled");
    let mut q = Queue::new_in(&database.name, "jobs");
    q.is_served(1);
    let before = workers(&mut q.admin, "xqueue worker");
    for _ in 0..5 {
        let _sent: bool = scalar(&mut q.admin, "SELECT pg_cancel_backend($1)", &[&before[0]]);
        q.is_served(1);
    }
    assert_eq!(workers(&mut q.admin, "xqueue worker"), before, "the same worker");
}
