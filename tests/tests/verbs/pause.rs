//! Paused queues: takes return no task, everything else works.

use xqueue_tests::{
    Database, Queue, Role, Stopped, Value, Waiter, ack, alone, expect_error, id, is_waiting, json,
    put, release, scalar, take, take_all, values, wait_until,
};

fn paused_until(q: &mut Queue) -> Value {
    q.ask_one("SELECT coalesce(to_jsonb(paused_until), 'null') FROM xqueue.definitions WHERE queue = '{q}'::regclass")
}

#[test]
fn nothing_is_taken_and_all_else_goes_on() {
    let mut q = Queue::new("pause");
    let mut c = q.client();
    for number in 1..=3 {
        put(&mut q.admin, &q.name, number);
    }
    assert_eq!(take(&mut c, &q.name, "0", 1).len(), 1);
    q.sql("SELECT xqueue.pause('{q}')");
    assert!(take(&mut c, &q.name, "0", 1).is_empty());
    assert!(take(&mut c, &q.name, "20ms", 1).is_empty());
    assert!(q.ask("SELECT xqueue.take('{q}', id => 2)").is_empty());
    assert!(q.ask("SELECT to_jsonb(t) FROM xqueue.take(NULL::{q}) AS t").is_empty());
    assert_eq!(paused_until(&mut q), "infinity");
    assert_eq!(q.stats()["paused_until"], "infinity");
    assert_eq!(
        q.ask_one("SELECT t FROM xqueue.stats() t WHERE t->>'queue' LIKE '%{q}'")["paused_until"],
        "infinity"
    );
    assert_eq!(put(&mut c, &q.name, 4), 4);
    assert_eq!(release(&mut c, &q.name, 1).len(), 1);
    q.sql("SELECT xqueue.delete('{q}', 4)");
    q.assert_tasks(&[("ready", 3), ("taken", 0)]);
    q.sql("SELECT xqueue.resume('{q}')");
    assert_eq!(take_all(&mut c, &q.name), [1, 2, 3]);
    assert_eq!((paused_until(&mut q), q.stats().get("paused_until")), (Value::Null, None));
    // Without a pause, resume has no effect.
    q.sql("SELECT xqueue.resume(NULL::{q})");
}

#[test]
fn with_a_duration_it_ends_by_itself_without_the_worker() {
    alone();
    let database = Database::new("pause");
    let mut q = Queue::new_in(&database.name, "pause");
    let name = q.name.clone();
    let waiters = [Waiter::take(&mut q), Waiter::take(&mut q), Waiter::take(&mut q)];
    let worker = Stopped::worker(&mut q.admin);
    q.sql("SELECT xqueue.pause('{q}', '600 ms')");
    assert!(q.stats()["paused_until"].as_f64().is_some_and(|until| until > 1e9));
    put(&mut q.admin, &name, 1);
    put(&mut q.admin, &name, 2);
    // A consumer that arrives meanwhile waits behind the others.
    let late = Waiter::start(q.client(), &format!("SELECT xqueue.take('{name}', '30s')"));
    let [first, second, third] = waiters;
    let mut kept = vec![first.join(), second.join()];
    let mut taken: Vec<i64> =
        kept.iter().map(|outcome| id(&outcome.result.as_ref().expect("a task")[0])).collect();
    taken.sort_unstable();
    assert_eq!(taken, [1, 2], "first come, first served");
    wait_until("the third waits on", || is_waiting(&mut q.admin, third.pid));
    assert_eq!(q.stats().get("paused_until"), None);
    put(&mut q.admin, &name, 3);
    kept.push(third.join());
    put(&mut q.admin, &name, 4);
    kept.push(late.join());
    drop(worker);
}

#[test]
fn resume_wakes_the_consumers_that_have_waited_longest() {
    alone();
    let database = Database::new("pause");
    let mut q = Queue::new_in(&database.name, "pause");
    q.sql("SELECT xqueue.pause('{q}')");
    let [first, second] = [Waiter::take(&mut q), Waiter::take(&mut q)];
    let worker = Stopped::worker(&mut q.admin);
    put(&mut q.admin, &q.name, 1);
    // The first consumer was woken, has checked, and waits in its old position again.
    q.wait_for_consumers(2);
    q.sql("SELECT xqueue.resume('{q}')");
    let kept = first.join();
    assert_eq!(id(&kept.result.as_ref().expect("a task")[0]), 1);
    wait_until("the second waits on", || is_waiting(&mut q.admin, second.pid));
    put(&mut q.admin, &q.name, 2);
    let other = second.join();
    assert_eq!(id(&other.result.as_ref().expect("a task")[0]), 2);
    drop(worker);
}

#[test]
fn a_later_pause_takes_the_place_of_an_earlier_one() {
    let mut q = Queue::new("pause");
    q.sql("SELECT xqueue.pause('{q}', '1 day')");
    let waiter = Waiter::take(&mut q);
    put(&mut q.admin, &q.name, 1);
    q.sql("SELECT xqueue.pause('{q}')");
    assert_eq!(paused_until(&mut q), "infinity");
    q.sql("SELECT xqueue.pause('{q}', '100 ms')");
    let kept = waiter.join();
    assert_eq!(kept.result.expect("a task").len(), 1);
    q.sql("SELECT xqueue.pause('{q}', '0')");
    assert_eq!(paused_until(&mut q), Value::Null);
}

#[test]
fn next_waits_over_a_pause() {
    let mut q = Queue::new("pause");
    let name = q.name.clone();
    q.sql("SELECT xqueue.pause('{q}')");
    put(&mut q.admin, &name, 1);
    let waiter = Waiter::waiting(&mut q, &format!("CALL xqueue.next('{name}')"));
    let snapshot = "SELECT backend_xmin IS NULL FROM pg_stat_activity WHERE pid = $1";
    assert!(scalar::<bool>(&mut q.admin, snapshot, &[&waiter.pid]));
    q.sql("SELECT xqueue.resume('{q}')");
    let mut kept = waiter.join();
    assert_eq!(id(&kept.result.expect("a task")[0]), 1);
    assert_eq!(ack(&mut kept.client, &name, 1).len(), 1);
}

#[test]
fn each_in_a_tube_of_its_own() {
    let columns = "id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY";
    let mut q = Queue::with("pause", columns, &json!({"features": {"tube": true}}));
    let name = q.name.clone();
    q.sql("SELECT xqueue.pause('{q}')");
    let sql = |tube: &str| format!("SELECT xqueue.take('{name}', '30s', tube => '{tube}')");
    let [a, b] = [Waiter::waiting(&mut q, &sql("a")), Waiter::waiting(&mut q, &sql("b"))];
    q.sql(
        "SELECT xqueue.put('{q}', '{}', tube => 'b'); SELECT xqueue.put('{q}', '{}', tube => 'a')",
    );
    q.sql("SELECT xqueue.resume('{q}')");
    let kept = [a.join(), b.join()];
    let taken = kept.each_ref().map(|outcome| id(&outcome.result.as_ref().expect("a task")[0]));
    assert_eq!(taken, [2, 1]);
}

#[test]
fn a_pause_is_part_of_its_transaction() {
    let mut q = Queue::new("pause");
    let name = q.name.clone();
    let (mut c, mut other) = (q.client(), q.client());
    put(&mut c, &name, 1);
    c.batch_execute(&format!("BEGIN; SELECT xqueue.pause('{name}')")).unwrap();
    assert!(take(&mut c, &name, "0", 1).is_empty(), "by itself it is seen at once");
    assert_eq!(
        take(&mut other, &name, "0", 1).len(),
        1,
        "by others not yet, and it keeps nobody waiting"
    );
    release(&mut other, &name, 1);
    c.batch_execute("ROLLBACK").unwrap();
    assert_eq!(take(&mut c, &name, "0", 1).len(), 1);
    c.batch_execute(&format!(
        "BEGIN; SAVEPOINT a; SELECT xqueue.pause('{name}'); ROLLBACK TO a; COMMIT"
    ))
    .unwrap();
    assert_eq!(release(&mut c, &name, 1).len(), 1);
    assert_eq!(take(&mut other, &name, "0", 1).len(), 1);
    // A later upgrade keeps the pause.
    q.sql("SELECT xqueue.pause('{q}')");
    q.upgrade(&json!({"features": {"buried": true}}));
    assert_eq!(paused_until(&mut q), "infinity");
    q.sql("SELECT xqueue.downgrade('{q}'); SELECT xqueue.upgrade('{q}', '{\"fields\": {\"status\": \"status\", \"owner\": \"owner\", \"runat\": \"runat\"}}')");
    assert_eq!(paused_until(&mut q), Value::Null);
}

#[test]
fn rights_and_limits_of_pause() {
    let mut q = Queue::new("pause");
    let name = q.name.clone();
    let role = Role::create();
    q.sql(&format!("GRANT ALL ON {{q}} TO {}", role.name));
    let mut c = role.client();
    for call in ["pause", "resume"] {
        expect_error(&mut c, &format!("SELECT xqueue.{call}('{name}')"), "42501", "must be owner");
    }
    // The owner needs no other privilege.
    c.batch_execute(&format!(
        "SELECT xqueue.create('{name}_own'); SELECT xqueue.pause('{name}_own'); \
         SELECT xqueue.resume('{name}_own'); SELECT xqueue.stats_reset(); SELECT xqueue.drop('{name}_own')"
    ))
    .unwrap();
    q.fails("SELECT xqueue.pause('{q}', '-1 s')", "22023", "must not be negative");
    q.fails("SELECT xqueue.pause('{q}', '300000 years')", "22023", "must not be infinite");
    q.fails("SELECT xqueue.pause('pg_class')", "42501 55000", "");
    q.fails("BEGIN READ ONLY; SELECT xqueue.pause('{q}')", "25006", "read-only");
    q.sql("ROLLBACK; CREATE TABLE {q}_no (id int)");
    q.fails("SELECT xqueue.pause('{q}_no')", "55000", "is not a queue");
    q.sql("DROP TABLE {q}_no");
    assert_eq!(paused_until(&mut q), Value::Null);
}

#[test]
fn no_consumer_is_forgotten_when_it_is_paused_again_and_again() {
    alone();
    const TASKS: i64 = 300;
    let database = Database::new("pause");
    let mut q = Queue::new_in(&database.name, "pause");
    let name = q.name.clone();
    // The worker would wake forgotten consumers.
    let worker = Stopped::worker(&mut q.admin);
    let consumers: Vec<_> = (0..4)
        .map(|_| {
            let (mut c, name) = (q.client(), name.clone());
            std::thread::spawn(move || {
                let mut taken = 0;
                loop {
                    let task = scalar::<Value>(&mut c, &format!("CALL xqueue.next('{name}')"), &[]);
                    if task["payload"] == json!("stop") {
                        assert_eq!(ack(&mut c, &name, id(&task)).len(), 1);
                        return taken;
                    }
                    assert_eq!(ack(&mut c, &name, id(&task)).len(), 1);
                    taken += 1;
                }
            })
        })
        .collect();
    let (mut pauser, queue) = (q.client(), name.clone());
    let pauses = std::thread::spawn(move || {
        for round in 0..200 {
            let pause = ["", ", '1 ms'", ", '3 ms'"][round % 3];
            values(
                &mut pauser,
                &format!("SELECT '1'::jsonb FROM xqueue.pause('{queue}'{pause})"),
                &[],
            );
            if pause.is_empty() {
                values(
                    &mut pauser,
                    &format!("SELECT '1'::jsonb FROM xqueue.resume('{queue}')"),
                    &[],
                );
            }
        }
    });
    for number in 0..TASKS {
        put(&mut q.admin, &name, number);
    }
    pauses.join().expect("the pauses end");
    wait_until("all are taken", || q.stats()["tasks"]["total"] == 0);
    q.sql("INSERT INTO {q} (payload) SELECT '\"stop\"' FROM generate_series(1, 4)");
    let taken: i64 = consumers.into_iter().map(|thread| thread.join().expect("it ends")).sum();
    assert_eq!(taken, TASKS);
    drop(worker);
}
