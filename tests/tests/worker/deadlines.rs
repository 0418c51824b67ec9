//! Feature ttr: a task that is taken for too long comes back.

use xqueue_tests::{
    COLUMNS, Database, Queue, Stopped, alone, ids, json, put, take_all, wait_until,
};

#[test]
fn a_deadline_that_passes_while_the_worker_does_nothing_leaves_the_task_taken() {
    alone();
    let database = Database::new("ttr");
    let features = json!({"features": {"ttr": "20 milliseconds"}});
    let mut q = Queue::make(&database.name, "jobs", COLUMNS, &features);
    q.assert_exact();
    put(&mut q.admin, "jobs", 1);
    {
        let _stopped = Stopped::worker(&mut q.admin);
        assert_eq!(take_all(&mut q.admin, "jobs"), [1]);
        wait_until("the time to run is over", || q.holds(1, "runat < clock_timestamp()"));
        let mut other = q.client();
        assert!(take_all(&mut other, "jobs").is_empty(), "one lease at a time");
        assert_eq!(ids(&q.ask("SELECT xqueue.ack('{q}', 1)")), [1], "the lease is still theirs");
    }
    q.assert_tasks(&[("total", 0)]);
    assert_eq!(q.calls("ttr"), 0);
}
