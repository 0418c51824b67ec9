//! Queues whose job workers wait for a worker slot, or for the end of a pause.

use super::*;

/// Returns the pauses, in seconds, between the queue's first `count` failures.
fn pauses(q: &mut Queue, count: usize) -> Vec<f64> {
    let mut failures: Vec<f64> = vec![];
    while failures.len() < count {
        wait_until("it fails again", || {
            let last = q.stats()["error_at"].as_f64().filter(|at| failures.last() != Some(at));
            failures.extend(last);
            last.is_some()
        });
    }
    failures.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn what_has_to_be_ended_is_tried_again_after_growing_pauses() {
    let server = Cluster::new("xqueue.worker_timeout = 100\n");
    let mut sick = queue_at(&server, "sick");
    sick.before_each("UPDATE", ENDLESS);
    sick.sql(DUE);
    let pauses = pauses(&mut sick, 4);
    assert!(pauses[0] >= 1.0 && pauses[1] >= 2.0 && pauses[2] >= 4.0, "{pauses:?}");
    sick.mend();
    sick.wait_for("ready", 1);
}

#[test]
fn tasks_that_a_trigger_refuses_are_tried_less_and_less_and_hold_up_no_other() {
    let server = Cluster::new("");
    let mut q = queue_at(&server, "refused");
    q.before_each(
        "UPDATE",
        "IF NEW.payload ? 'bad' THEN PERFORM nextval('public.{q}_tries'); RAISE 'refused'; END IF; RETURN NEW",
    );
    q.sql("CREATE SEQUENCE {q}_tries");
    // Good tasks of the same batch are served.
    q.sql(
        "INSERT INTO {q} (status, runat, payload) SELECT 'W', now(), CASE WHEN n <= 5 THEN '{\"bad\": 1}'::jsonb END
         FROM generate_series(1, 25) n",
    );
    // A worker that sees the tasks before their commit is reported tries them one more time at the beginning.
    let pauses = pauses(&mut q, 7);
    assert!(pauses[5] >= 1.6, "a second was the most once: {pauses:?}");
    q.wait_for("ready", 20);
    // The refused tasks pause while others that fall due are served.
    let tries = |q: &mut Queue| -> i64 {
        scalar(&mut q.admin, "SELECT last_value FROM refused_tries", &[])
    };
    let before = tries(&mut q);
    q.is_served(20);
    let more = tries(&mut q) - before;
    assert!(more <= 15, "{more} tries of 5 tasks");
    assert_eq!(q.counted()["waiting"], json!(5));
    assert!(q.error().contains("refused"));
    // Repairing the table ends the pause.
    q.mend();
    q.wait_for("waiting", 0);
    wait_until("the error is gone", || q.error().is_empty());
}

/// A job worker is needed for an owner's trigger, and for a check that can take long.
#[test]
fn without_a_place_for_a_job_worker_other_queues_go_on_and_the_log_names_the_setting() {
    // Worker slots for all other workers, without one for a job worker.
    let server = Cluster::new("max_worker_processes = 4\nxqueue.worker_timeout = 100\n");
    server.wait_running();
    let [mut waiting, mut slow, mut healthy] =
        ["waiting", "slow", "healthy"].map(|name| queue_at(&server, name));
    waiting.before_each("UPDATE", "RETURN NEW");
    let factorials = vec!["factorial(n)"; 40].join(" + ");
    slow.sql(&format!(
        "ALTER TABLE {{q}} ADD n bigint DEFAULT 30000;
         ALTER TABLE {{q}} ADD CONSTRAINT own CHECK (status <> 'R' OR {factorials} > 0)"
    ));
    for q in [&mut waiting, &mut slow] {
        q.sql(DUE);
        wait_until("it says why it waits", || q.error().contains("raise max_worker_processes"));
    }
    wait_until("the log says so", || server.log().contains("HINT:  Raise max_worker_processes"));
    assert!(server.log().contains("slow or run code of their owners, for example \"public."));
    healthy.is_served(5);
    waiting.mend();
    slow.sql("ALTER TABLE {q} DROP CONSTRAINT own");
    for q in [&mut waiting, &mut slow] {
        q.wait_for("ready", 1);
        wait_until("the error is gone", || q.error().is_empty());
    }
}
