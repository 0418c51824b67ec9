//! Logical replication: a subscriber counts its copy of a queue, and leaves the tasks to the publisher until the
//! subscription is dropped.

use xqueue_tests::*;

/// A publisher and a subscriber, each with a queue "jobs". The subscriber also has its own queue "own".
struct Pair {
    publisher: Cluster,
    subscriber: Cluster,
}

impl Pair {
    fn new() -> Pair {
        let pair =
            Pair { publisher: Cluster::new("wal_level = logical"), subscriber: Cluster::new("") };
        pair.publisher.wait_running();
        pair.subscriber.wait_running();
        pair
    }

    fn queue(server: &Cluster, name: &str) -> Queue {
        let features = json!({"features": {"delayed": true, "buried": true}});
        Queue::make_at(server.config(), name, COLUMNS, &features)
    }

    /// Makes a queue on the publisher, and one for its copy on the subscriber.
    fn queues(&self, name: &str) -> [Queue; 2] {
        [&self.publisher, &self.subscriber].map(|server| Pair::queue(server, name))
    }

    /// Subscribes to tables of the publisher, separated by commas.
    fn subscribe(&self, tables: &str) {
        let source = self.publisher.folder();
        let sql = format!(
            "CREATE SUBSCRIPTION s CONNECTION 'host={source} port=5432 user=postgres dbname=postgres' \
             PUBLICATION p WITH (two_phase = true)"
        );
        self.publisher.client().run(&format!("CREATE PUBLICATION p FOR TABLE {tables}"));
        self.subscriber.client().run(&sql);
    }

    /// The apply worker changes the subscription's row itself when two-phase becomes enabled. A DROP at that moment fails.
    fn unsubscribe(&self) {
        let mut subscriber = self.subscriber.client();
        let state = "SELECT subtwophasestate = 'e' FROM pg_subscription WHERE subname = 's'";
        wait_until("two-phase is enabled", || scalar(&mut subscriber, state, &[]));
        subscriber.batch_execute("DROP SUBSCRIPTION s").expect("it is dropped");
    }

    /// Waits until the subscriber's worker has released a lost session's task and promoted a delayed task.
    fn subscribers_worker_has_been_round(own: &mut Queue) {
        let name = own.name.clone();
        own.sql("TRUNCATE {q}; INSERT INTO {q} DEFAULT VALUES");
        let mut lost = own.client();
        assert_eq!(take(&mut lost, &name, "0", 1).len(), 1);
        drop(lost);
        own.sql("SELECT xqueue.put('{q}', '{}', '1 millisecond')");
        own.wait_for("ready", 2);
    }
}

/// Waits until the copy has as many tasks in each state as the original.
#[track_caller]
fn wait_for_copy(original: &mut Queue, copy: &mut Queue) {
    wait_until("the copy is as the original", || original.counted() == copy.counted());
    original.assert_exact();
    copy.assert_exact();
}

#[test]
fn a_copy_is_counted_and_left_alone_until_the_subscription_is_dropped() {
    let pair = Pair::new();
    let [mut original, mut copy] = pair.queues("jobs");
    let mut own = Pair::queue(&pair.subscriber, "own");
    original.sql("INSERT INTO {q} SELECT FROM generate_series(1, 30)");
    let mut holder = original.client();
    assert_eq!(take(&mut holder, "jobs", "0", 10).len(), 10);

    // The initial copy of the rows, and later changes.
    pair.subscribe("jobs");
    wait_for_copy(&mut original, &mut copy);
    assert_eq!(take(&mut holder, "jobs", "0", 5).len(), 5);
    (1..=3).for_each(|id| drop(ack(&mut holder, "jobs", id)));
    original.sql("SELECT xqueue.bury('{q}', t.id) FROM xqueue.take(NULL::{q}, count => 2) t");
    original.sql("SELECT xqueue.put('{q}', '{}', '1 hour')");
    wait_for_copy(&mut original, &mut copy);
    copy.assert_tasks(&[("ready", 13), ("taken", 12), ("buried", 2), ("waiting", 1)]);
    let owners = "SELECT jsonb_agg(owner ORDER BY id) FROM {q} WHERE status = 'T'";
    assert_eq!(copy.ask_one(owners), original.ask_one(owners));

    // Due and overdue tasks wait for the publisher's worker, which is stopped.
    let stopped = Stopped::worker(&mut original.admin);
    original.sql("SELECT xqueue.put('{q}', '{}', '1 millisecond')");
    wait_for_copy(&mut original, &mut copy);
    Pair::subscribers_worker_has_been_round(&mut own);
    copy.assert_tasks(&[("ready", 13), ("taken", 12), ("buried", 2), ("waiting", 2)]);
    copy.verify();
    // A restart of the subscriber does not change that.
    pair.subscriber.stop("fast");
    pair.subscriber.start();
    pair.subscriber.wait_running();
    copy.reconnect();
    own.reconnect();
    Pair::subscribers_worker_has_been_round(&mut own);
    copy.assert_tasks(&[("ready", 13), ("taken", 12), ("buried", 2), ("waiting", 2)]);
    drop(stopped);
    original.wait_for("ready", 14);
    wait_for_copy(&mut original, &mut copy);
    copy.assert_tasks(&[("ready", 14), ("taken", 12), ("buried", 2), ("waiting", 1)]);

    // The subscriber takes over.
    pair.unsubscribe();
    copy.wait_for("taken", 0);
    copy.assert_tasks(&[("ready", 26), ("taken", 0), ("buried", 2), ("waiting", 1)]);
    let mut consumer = copy.client();
    assert_eq!(ids(&take(&mut consumer, "jobs", "0", 2)), [4, 5]);
    assert_eq!(ack(&mut consumer, "jobs", 4).len(), 1);
    drop(consumer);
    copy.wait_for("taken", 0);
    original.assert_tasks(&[("taken", 12)]);
}

#[test]
fn copies_are_counted_limited_and_in_order() {
    let pair = Pair::new();
    let [mut jobs, mut jobs_copy] = pair.queues("jobs");
    let [mut room, mut room_copy] = pair.queues("room");
    let [mut lanes, mut lanes_copy] = pair.queues("lanes");
    room_copy.upgrade(&json!({"features": {"capacity": 2}}));
    room.sql("INSERT INTO {q} SELECT FROM generate_series(1, 5)");
    lanes.upgrade(&json!({"features": {"utube": true}}));
    lanes_copy.upgrade(&json!({"features": {"utube": true}}));
    for tube in ["a", "b", "c"] {
        lanes.sql(&format!("SELECT xqueue.put('{{q}}', '[{{}}, {{}}]', tube => '{tube}')"));
    }
    let mut holder = lanes.client();
    assert_eq!(take_all(&mut holder, "lanes"), [1, 3, 5]);
    pair.subscribe("jobs, room, lanes");

    // Replicated tasks wake waiting consumers, and a replicated TRUNCATE is counted.
    jobs.sql("INSERT INTO {q} SELECT FROM generate_series(1, 5)");
    wait_for_copy(&mut jobs, &mut jobs_copy);
    let watcher = Watcher::wait(&mut jobs_copy, 1, "30s");
    jobs.sql("SELECT xqueue.ack('{q}', t.id) FROM xqueue.take(NULL::{q}) t");
    watcher.assert_told("deleted");
    for outcome in ["COMMIT", "ROLLBACK"] {
        jobs.sql("BEGIN; SELECT xqueue.put('{q}', '[{}, {}]'); PREPARE TRANSACTION 'arrives'");
        jobs.sql(&format!("{outcome} PREPARED 'arrives'"));
        wait_for_copy(&mut jobs, &mut jobs_copy);
    }
    jobs.sql("TRUNCATE {q}");
    wait_for_copy(&mut jobs, &mut jobs_copy);
    jobs_copy.assert_tasks(&[("total", 0)]);
    let waiter = Waiter::take(&mut jobs_copy);
    jobs.sql("INSERT INTO {q} DEFAULT VALUES");
    let (_consumer, _task) = waiter.task();

    // The publisher decides: a smaller capacity of the copy only limits local puts.
    wait_for_copy(&mut room, &mut room_copy);
    room.sql("SELECT xqueue.put('{q}', '[{}, {}, {}]')");
    wait_for_copy(&mut room, &mut room_copy);
    room_copy.fails("INSERT INTO {q} (id) VALUES (100)", "53400", "is full");

    // The copies of taken tasks block their sub-queues until the tasks are released.
    wait_for_copy(&mut lanes, &mut lanes_copy);
    ack(&mut holder, "lanes", 1);
    wait_for_copy(&mut lanes, &mut lanes_copy);
    let mut consumer = lanes_copy.client();
    assert_eq!(take_all(&mut consumer, "lanes"), [2]);
    pair.unsubscribe();
    lanes_copy.wait_for("taken", 1);
    let mut next = |taken: &[i64]| {
        taken.iter().for_each(|id| drop(ack(&mut consumer, "lanes", *id)));
        let mut taken = take_all(&mut consumer, "lanes");
        taken.sort_unstable();
        taken
    };
    assert_eq!(next(&[]), [3, 5]);
    assert_eq!(next(&[2, 3, 5]), [4, 6]);
}
