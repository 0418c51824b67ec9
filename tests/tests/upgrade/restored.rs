//! Queues in the middle of a restore.

use crate::dumped::databases;
use xqueue_tests::*;

/// Without triggers and foreign keys, the deletion of a task would have none of its effects.
#[test]
fn no_task_ends_before_the_triggers_are_restored() {
    let (both, _old, mut new) = databases(
        "CREATE TABLE jobs (id bigint PRIMARY KEY);
         SELECT xqueue.upgrade('jobs', '{\"features\": {\"ttl\": true}}')",
    );
    both.copy(&["--section=pre-data"]);
    // In the old database the worker would have deleted it.
    new.run("INSERT INTO jobs (id, status, expires) VALUES (1, 'R', now() - '1 day'::interval)");
    both.copy(&["--section=data"]);
    let error = "SELECT coalesce(max(error), '') FROM xqueue.queues WHERE queue = 'jobs'::regclass";
    wait_until("the worker has read the definition", || {
        scalar::<String>(&mut new, error, &[]).contains("triggers are missing")
    });
    // The owner's job worker serves its queues in turn, so it would have served this one as well.
    let mut other = Queue::new_in(&both.to.name, "other");
    other.before_each("UPDATE", "RETURN NEW");
    other.is_served(5);
    let left = "SELECT count(*) FROM jobs";
    assert_eq!(scalar::<i64>(&mut new, left, &[]), 1);
    both.copy(&["--section=post-data"]);
    wait_until("the task ends", || scalar::<i64>(&mut new, left, &[]) == 0);
    wait_until("all is well", || scalar::<String>(&mut new, error, &[]).is_empty());
}

/// A queue whose owner drops triggers is not being restored, so it is served.
#[test]
fn a_queue_without_triggers_is_served() {
    let database = Database::new("restored");
    let mut q = Queue::new_in(&database.name, "restored");
    q.sql("DROP TRIGGER xqueue_update ON {q}; DROP TRIGGER xqueue_insert ON {q}");
    wait_until("it is noticed", || q.error().contains("triggers are missing"));
    q.sql("INSERT INTO {q} (status, runat) VALUES ('W', now())");
    end_worker(&mut q.admin);
    q.wait_for("ready", 1);
    q.sql("SELECT xqueue.upgrade('{q}')");
}
