//! Feature utube. A sub-queue has at most one task in flight, and its tasks are taken in order. The sub-queues take
//! turns. pg_regress and the isolation tester hold the cases of one and two sessions. The random tests are utube_steps
//! and crowd, also with strict order.

use xqueue_tests::*;

fn queue(features: &Value) -> Queue {
    Queue::with("utube", COLUMNS, &json!({ "features": features }))
}

fn subqueues() -> Queue {
    queue(&json!({"utube": true, "delayed": true, "buried": true}))
}

fn take_from(q: &mut Queue, tube: &str) -> Vec<i64> {
    ids(&q.ask(&format!("SELECT xqueue.take('{{q}}', tube => '{tube}')")))
}

#[test]
fn one_waiting_consumer_is_woken_for_each_sub_queue() {
    let mut q = subqueues();
    let waiters: Vec<Waiter> = (0..3).map(|_| Waiter::take(&mut q)).collect();
    q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a'), (2, 'a'), (3, 'b')");
    q.wait_for_consumers(1);
    let (done, waiting): (Vec<_>, Vec<_>) = {
        wait_until("two are served", || waiters.iter().filter(|w| w.finished()).count() == 2);
        waiters.into_iter().partition(Waiter::finished)
    };
    let mut clients: Vec<(Client, Value)> = done.into_iter().map(Waiter::task).collect();
    clients.sort_by_key(|(_, task)| id(task));
    assert_eq!(clients.iter().map(|(_, task)| id(task)).collect::<Vec<_>>(), [1, 3]);
    ack(&mut clients[0].0, &q.name, 1);
    let last = waiting.into_iter().next().expect("one is left");
    assert_eq!(id(&last.task().1), 2);
}

#[test]
fn a_prepared_put_is_found_when_it_is_committed() {
    let mut q = subqueues();
    q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a')");
    q.sql("BEGIN; INSERT INTO {q} (id, tube) VALUES (2, 'b'), (0, 'a'); PREPARE TRANSACTION '{q}'");
    assert_eq!(q.takes(9), [1]);
    q.sql("SELECT xqueue.ack('{q}', 1)");
    let (b, a) = (Waiter::take(&mut q), Waiter::take(&mut q));
    q.sql("COMMIT PREPARED '{q}'");
    let mut tasks = [b.task(), a.task()].map(|(client, task)| (id(&task), client));
    tasks.sort_by_key(|(task, _)| *task);
    assert_eq!(tasks.iter().map(|(task, _)| *task).collect::<Vec<_>>(), [0, 2]);
}

#[test]
fn a_prepared_ack_frees_its_sub_queue_when_it_is_resolved() {
    for (end, next) in [("COMMIT", 2), ("ROLLBACK", 1)] {
        let mut q = subqueues();
        q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a'), (2, 'a')");
        assert_eq!(q.takes(9), [1]);
        q.sql("BEGIN; SELECT xqueue.ack('{q}', 1); PREPARE TRANSACTION '{q}'");
        assert!(q.session().takes(9).is_empty());
        let waiter = Waiter::take(&mut q);
        q.sql(&format!("{end} PREPARED '{{q}}'"));
        if end == "ROLLBACK" {
            q.sql("SELECT xqueue.release('{q}', 1)");
        }
        assert_eq!(id(&waiter.task().1), next, "{end}");
    }
}

/// What it cannot see is still known, before its task and in other sub-queues.
#[test]
fn a_repeatable_read_takes_what_it_sees() {
    let mut q = subqueues();
    q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a'), (2, 'a'), (3, 'a')");
    assert_eq!(q.takes(9), [1]);
    q.sql("SELECT xqueue.ack('{q}', 1)");
    let mut old = q.session();
    old.sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    q.sql("INSERT INTO {q} (id, tube) VALUES (0, 'a'), (4, 'c')");
    assert_eq!(old.takes(9), [2]);
    old.sql("COMMIT");
    assert_eq!(q.takes(9), [4]);
    old.sql("SELECT xqueue.ack('{q}', 2)");
    for id in [0, 3] {
        assert_eq!(take_from(&mut q, "a"), [id]);
        q.sql(&format!("SELECT xqueue.ack('{{q}}', {id})"));
    }
}

#[test]
fn a_given_task_is_taken_out_of_its_turn_but_never_beside_another() {
    let mut q = subqueues();
    q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a'), (2, 'a'), (3, 'a'), (4, 'b')");
    let named = |q: &mut Queue, id: i64| {
        let taken = q.ask(&format!("SELECT xqueue.take('{{q}}', id => {id})"));
        !taken.is_empty()
    };
    assert!(named(&mut q, 2));
    assert!(!named(&mut q, 1) && !named(&mut q, 3));
    assert_eq!(q.takes(9), [4]);
    q.sql("SELECT xqueue.ack('{q}', 2)");
    let mut other = q.session();
    other.sql("BEGIN");
    assert_eq!(other.takes(9), [1]);
    assert!(!named(&mut q, 3), "its sub-queue is claimed");
    other.sql("ROLLBACK");
    q.sql("BEGIN");
    assert!(named(&mut q, 3));
    assert!(other.takes(9).is_empty());
    q.sql("ROLLBACK");
    assert_eq!(other.takes(9), [1]);
    assert!(!named(&mut q, 7), "there is no such task");
}

/// pg_regress shows the definition, the index and a take after each switch.
#[test]
fn how_strict_it_is_can_be_switched() {
    let mut q = queue(&json!({"utube": {"strict": true}, "delayed": true}));
    q.sql("SELECT xqueue.put('{q}', '{\"id\": 1, \"tube\": \"a\"}', delay => '1 day')");
    q.sql("INSERT INTO {q} (id, tube) VALUES (2, 'a'), (3, 'a')");
    let waiter = Waiter::take(&mut q);
    q.upgrade(&json!({"features": {"utube": {"strict": false}}}));
    assert_eq!(id(&waiter.task().1), 2, "whoever waits looks again");
}

#[test]
fn sub_queues_take_turns() {
    let mut q = subqueues();
    q.sql("INSERT INTO {q} (tube) SELECT 'long' FROM generate_series(1, 1000)");
    q.sql(
        "INSERT INTO {q} (id, tube) SELECT 2000 + i, 'short ' || i FROM generate_series(1, 50) i",
    );
    let mut served = vec![];
    for _ in 0..60 {
        let [task] = q.takes(1)[..] else { panic!("there are tasks") };
        q.sql(&format!("SELECT xqueue.ack('{{q}}', {task})"));
        served.push(task);
    }
    let short = served[..51].iter().filter(|task| **task > 2000).count();
    assert_eq!(short, 50, "{served:?}");
    assert_eq!(served[51..], (2..=10).collect::<Vec<_>>()[..]);
}

#[test]
fn expired_tasks_block_no_other() {
    alone();
    let mut q = queue(&json!({"utube": true, "ttl": true, "delayed": true}));
    let worker = Stopped::worker(&mut q.admin);
    q.sql("SELECT xqueue.put('{q}', '{\"id\": 1}', ttl => '1 ms', tube => 'a')");
    q.sql("SELECT xqueue.put('{q}', '{\"id\": 2}', tube => 'a')");
    wait_until("task 1 is passed over", || q.takes(1) == [2]);
    drop(worker);
    q.wait_for("total", 1);
}

#[test]
fn labels_may_be_of_any_type_that_can_be_hashed() {
    let kind = unique("colour");
    connect().run(&format!("CREATE TYPE {kind} AS ENUM ('red', 'green')"));
    for (column, a, b) in [
        ("char(5)", "'a'", "'b'"),
        ("numeric", "1.0", "2"),
        ("timestamptz", "'2024-01-01'", "'2024-01-02'"),
        ("integer[]", "'{1,2}'", "'{}'"),
        ("text COLLATE \"C\"", "'a'", "'b'"),
        (kind.as_str(), "'red'", "'green'"),
    ] {
        let columns = format!("{COLUMNS}, label {column}");
        let options = json!({"fields": {"tube": "label"}, "features": {"utube": true}});
        let mut q = Queue::with("utube", &columns, &options);
        q.sql("SELECT xqueue.take('{q}')");
        q.sql(&format!("INSERT INTO {{q}} (id, label) VALUES (1, {a}), (3, {b}), (5, NULL)"));
        q.sql("INSERT INTO {q} (id, label) SELECT id + 1, label FROM {q}");
        let mut first = q.takes(9);
        first.sort_unstable();
        assert_eq!(first, [1, 3, 5], "{column}");
        q.verify();
        q.sql("SELECT xqueue.ack('{q}', 1)");
        assert_eq!(q.takes(9), [2], "{column}");
        q.sql("SELECT xqueue.ack('{q}', 3)");
        let label = q.ask_one("SELECT to_jsonb(label::text) FROM {q} WHERE id = 4");
        assert_eq!(take_from(&mut q, label.as_str().unwrap()), [4], "{column}");
    }
}

/// Starts a take from one sub-queue. A take that ignores its timeout ends with an error.
fn taking(q: &Queue, mut client: Client, tube: &str, timeout: &str) -> Waiter {
    client.run("SET statement_timeout = '20s'");
    let sql = format!("SELECT xqueue.take('{}', '{timeout}', tube => '{tube}')", q.name);
    Waiter::start(client, &sql)
}

fn assert_in_vain(waiters: impl IntoIterator<Item = Waiter>) {
    for waiter in waiters {
        assert!(waiter.join().result.expect("its timeout").is_empty());
    }
}

#[test]
fn waits_for_locked_tasks_end_at_their_timeouts() {
    let mut q = subqueues();
    let mut locker = q.session();
    locker.sql("BEGIN");
    q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a')");
    locker.sql("SELECT FROM {q} FOR UPDATE");
    assert_in_vain([taking(&q, q.client(), "a", "300 ms")]);
    q.sql("INSERT INTO {q} (id, tube) VALUES (2, 'b')");
    locker.sql("SELECT FROM {q} FOR UPDATE");
    assert_in_vain(["a", "b"].map(|tube| taking(&q, q.client(), tube, "500 ms")));
}

#[test]
fn waits_for_hidden_tasks_end_at_their_timeouts() {
    let mut q = subqueues();
    let role = Role::create();
    q.sql(&format!(
        "GRANT SELECT, UPDATE, DELETE ON {{q}} TO {}; ALTER TABLE {{q}} ENABLE ROW LEVEL SECURITY;
         CREATE POLICY own ON {{q}} USING (tube <> 'theirs');
         INSERT INTO {{q}} (id, tube) VALUES (1, 'theirs')",
        role.name
    ));
    for tube in ["mine", "theirs"] {
        assert_in_vain([taking(&q, role.client(), tube, "300 ms")]);
    }
    assert_eq!(take_from(&mut q, "theirs"), [1]);
}

/// The worker would wake consumers that wait for a task that is ready.
pub fn without_worker(q: &mut Queue) -> Stopped {
    q.assert_exact();
    Stopped::worker(&mut q.admin)
}

#[test]
fn the_end_of_a_task_wakes_a_consumer_of_a_sub_queue_that_was_forgotten() {
    alone();
    let mut q = subqueues();
    q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a'), (2, 'a')");
    assert_eq!(q.takes(1), [1]);
    q.sql("BEGIN; TRUNCATE {q}; ROLLBACK");
    let _stopped = without_worker(&mut q);
    let waiter = taking(&q, q.client(), "a", "15 s");
    q.wait_for_consumers(1);
    assert!(ids(&q.ask("SELECT xqueue.take('{q}', id => 2)")).is_empty());
    q.sql("SELECT xqueue.ack('{q}', 1)");
    assert_eq!(id(&waiter.task().1), 2);
}

#[test]
fn a_deletion_of_the_first_task_wakes_a_consumer_however_it_ends() {
    alone();
    for (end, next) in [("COMMIT", 2), ("ROLLBACK", 1)] {
        let mut q = subqueues();
        q.sql("INSERT INTO {q} (id, tube) VALUES (1, 'a'), (2, 'a')");
        let _stopped = without_worker(&mut q);
        let mut other = q.session();
        other.sql("BEGIN; DELETE FROM {q} WHERE id = 1");
        let waiter = taking(&q, q.client(), "a", "15 s");
        q.wait_for_consumers(1);
        other.sql(end);
        assert_eq!(id(&waiter.task().1), next, "{end}");
    }
}
