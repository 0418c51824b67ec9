//! A streaming standby is promoted after the loss of the primary: all features go on. The checker promotes a synchronous
//! standby under load, and counts lost tasks.

use xqueue_tests::*;

fn features() -> Value {
    json!({"features": {"delayed": true, "buried": true, "keep": true, "zombie": false, "ttr": true}})
}

/// Ends the primary and promotes the standby.
fn fail_over(primary: &Cluster, standby: &Cluster) {
    standby.catch_up(primary);
    primary.stop("immediate");
    standby.promote();
    standby.wait_running();
}

#[test]
fn a_new_primary_gives_back_promotes_wakes_and_counts() {
    let (primary, standby) = Cluster::with_standby();
    let mut q = Queue::make_at(primary.config(), "jobs", COLUMNS, &features());
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 50)");
    let mut lost = q.client();
    assert_eq!(take(&mut lost, "jobs", "0", 14).len(), 14);
    (1..=4).for_each(|id| drop(ack(&mut lost, "jobs", id)));
    q.sql("SELECT xqueue.bury('{q}', t.id) FROM xqueue.take(NULL::{q}, count => 5) t");
    q.sql("SELECT xqueue.put('{q}', '[{}, {}]', '1 hour')");
    q.sql("SELECT xqueue.put('{q}', '[{}, {}, {}]', '4 seconds')");
    q.assert_tasks(&[("ready", 31), ("taken", 10), ("waiting", 5), ("buried", 5), ("done", 4)]);
    // Sessions that exist before the promotion go on after it.
    standby.catch_up(&primary);
    let mut reader = standby.client();
    assert_eq!(scalar::<String>(&mut reader, "SELECT xqueue.state()", &[]), "WAITING");
    assert_eq!(status(&mut reader, "jobs", 5).as_deref(), Some("T"));

    // Failed takes on the standby have no later effect.
    (0..300).for_each(|_| drop(try_sql(&mut reader, "SELECT xqueue.take('jobs')")));

    fail_over(&primary, &standby);
    assert!(try_sql(&mut lost, "SELECT 1").is_err(), "the old primary is gone");
    q.move_to(standby.config());
    q.wait_for("taken", 0);
    q.assert_exact();
    q.wait_for("ready", 44);
    q.assert_tasks(&[("ready", 44), ("taken", 0), ("waiting", 2), ("buried", 5), ("done", 4)]);

    let mut consumer = q.client();
    let again = "SELECT xqueue.ack('jobs', 5)";
    let error = expect_error(&mut consumer, again, "55000", "task 5 is not taken by anybody");
    assert!(error.hint().is_some());
    assert_eq!(take_all(&mut reader, "jobs").len(), 44);
    let waiter = Waiter::take(&mut q);
    let new = put(&mut q.admin, "jobs", 1);
    let (mut woken, task) = waiter.task();
    assert_eq!(id(&task), new);
    ack(&mut woken, "jobs", new);
    drop(reader);
    q.wait_for("ready", 44);
    standby.assert_quiet();

    // The new primary can be lost as well.
    let third = standby.standby();
    let mut lost = q.client();
    assert_eq!(take(&mut lost, "jobs", "0", 7).len(), 7);
    fail_over(&standby, &third);
    q.move_to(third.config());
    q.wait_for("ready", 44);
    q.assert_tasks(&[("ready", 44), ("taken", 0), ("waiting", 2), ("buried", 5), ("done", 5)]);
    third.assert_quiet();
    drop(q); // It checks itself while its server is there.
}

/// Looks at a queue after the standby's promotion.
type After = Box<dyn FnOnce(&mut Queue)>;
/// Prepares a queue on the primary. The other arguments are the primary and the standby.
type Case = fn(&mut Queue, &Cluster, &Cluster) -> After;

#[test]
fn queues_go_on_on_the_new_primary() {
    let (primary, standby) = Cluster::with_standby();
    let cases: [(&str, Value, Case); 6] = [
        ("identified", features(), identified_sessions_keep_their_tasks_for_their_time_of_grace),
        ("paused", features(), a_pause_goes_on),
        ("unlogged", features(), an_unlogged_queue_is_empty),
        ("prepared", features(), a_prepared_put_is_resolved),
        ("lanes", json!({"features": {"utube": true}}), sub_queues_go_on_in_order),
        ("limited", json!({"features": {"capacity": 10}}), a_capacity_holds),
    ];
    let prepared = cases.map(|(name, options, prepare)| {
        let mut q = Queue::make_at(primary.config(), name, COLUMNS, &options);
        let after = prepare(&mut q, &primary, &standby);
        (q, after)
    });
    fail_over(&primary, &standby);
    for (mut q, after) in prepared {
        println!("{}", q.name);
        q.move_to(standby.config());
        after(&mut q);
    }
    standby.assert_quiet();
}

fn identified_sessions_keep_their_tasks_for_their_time_of_grace(
    q: &mut Queue,
    _: &Cluster,
    _: &Cluster,
) -> After {
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 3)");
    let mut clients = [q.client(), q.client(), q.client()];
    let [patient, hasty] =
        [(0, "1 hour"), (1, "2 seconds")].map(|(n, grace): (usize, _)| -> String {
            let identify = format!("SELECT xqueue.identify(grace => '{grace}')::text");
            scalar(&mut clients[n], &identify, &[])
        });
    let taken = clients.each_mut().map(|c| id(&take(c, "identified", "0", 1)[0]));
    assert_eq!(taken, [1, 2, 3]);
    Box::new(move |q: &mut Queue| {
        drop(clients);
        wait_until("the session that ended with its connection has lost its task", || {
            q.holds(3, "status = 'R'")
        });
        assert!(q.holds(1, &format!("owner = '{patient}' AND status = 'T'")));
        let mut c = q.client();
        c.batch_execute(&format!("SELECT xqueue.identify('{patient}')")).expect("it lives");
        assert_eq!(ack(&mut c, "identified", 1).len(), 1);
        q.wait_for("ready", 2);
        expect_error(&mut c, &format!("SELECT xqueue.identify('{hasty}')"), "42704", "");
        let late = "SELECT xqueue.ack('identified', 2)";
        expect_error(&mut c, late, "55000", "task 2 is not taken by anybody");
        q.assert_tasks(&[("ready", 2), ("done", 1), ("total", 3)]);
    })
}

fn a_pause_goes_on(q: &mut Queue, primary: &Cluster, standby: &Cluster) -> After {
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 3)");
    // The standby sees the queue before the pause, and then paused.
    standby.catch_up(primary);
    let mut reader = standby.client();
    let paused = "SELECT xqueue.stats('paused')->>'paused_until'";
    assert_eq!(scalar::<Option<String>>(&mut reader, paused, &[]), None);
    q.sql("SELECT xqueue.pause('{q}')");
    standby.catch_up(primary);
    assert_eq!(scalar::<Option<String>>(&mut reader, paused, &[]).as_deref(), Some("infinity"));
    Box::new(move |q: &mut Queue| {
        q.assert_tasks(&[("ready", 3)]);
        assert!(take_all(&mut reader, "paused").is_empty());
        let waiter = Waiter::take(q);
        q.sql("SELECT xqueue.resume('{q}')");
        let (_woken, task) = waiter.task();
        assert_eq!(id(&task), 1);
    })
}

/// Unlogged tables are empty on the new primary.
fn an_unlogged_queue_is_empty(q: &mut Queue, _: &Cluster, _: &Cluster) -> After {
    q.sql("ALTER TABLE {q} SET UNLOGGED; INSERT INTO {q} SELECT FROM generate_series(1, 30)");
    let mut lost = q.client();
    assert_eq!(take(&mut lost, "unlogged", "0", 10).len(), 10);
    Box::new(move |q: &mut Queue| {
        drop(lost);
        q.assert_tasks(&[("total", 0)]);
        let waiter = Waiter::take(q);
        put(&mut q.admin, "unlogged", 1);
        let (_holder, _task) = waiter.task();
        q.assert_tasks(&[("taken", 1), ("total", 1)]);
    })
}

fn a_prepared_put_is_resolved(q: &mut Queue, _: &Cluster, _: &Cluster) -> After {
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 10)");
    for gid in ["kept", "lost"] {
        q.sql("BEGIN; SELECT xqueue.put('{q}', '[{}, {}]')");
        q.sql(&format!("PREPARE TRANSACTION '{gid}'"));
    }
    Box::new(move |q: &mut Queue| {
        assert_eq!(q.counted()["total"], json!(10));
        assert_eq!(q.stats()["exact"], json!(false), "not while a prepared transaction is open");
        q.sql("ROLLBACK PREPARED 'lost'");
        q.sql("COMMIT PREPARED 'kept'");
        q.assert_tasks(&[("ready", 12), ("total", 12)]);
    })
}

/// The sub-queues in shared memory are rebuilt on the new primary.
fn sub_queues_go_on_in_order(q: &mut Queue, primary: &Cluster, standby: &Cluster) -> After {
    for tube in ["a", "b", "c"] {
        q.sql(&format!("SELECT xqueue.put('{{q}}', '[{{}}, {{}}, {{}}]', tube => '{tube}')"));
    }
    let mut lost = q.client();
    assert_eq!(take_all(&mut lost, "lanes"), [1, 4, 7]);
    ack(&mut lost, "lanes", 1);
    standby.catch_up(primary);
    let mut reader = standby.client();
    (0..300).for_each(|_| drop(try_sql(&mut reader, "SELECT xqueue.take('lanes')")));
    Box::new(move |q: &mut Queue| {
        drop(lost);
        q.wait_for("ready", 8);
        q.assert_exact();
        let mut rounds: Vec<Vec<i64>> = vec![];
        loop {
            let mut taken = take_all(&mut reader, "lanes");
            taken.sort_unstable();
            assert!(take_all(&mut q.admin, "lanes").is_empty(), "one in flight");
            taken.iter().for_each(|id| drop(ack(&mut reader, "lanes", *id)));
            match taken.is_empty() {
                true => break,
                false => rounds.push(taken),
            }
        }
        assert_eq!(rounds, [vec![2, 4, 7], vec![3, 5, 8], vec![6, 9]]);
    })
}

/// Producers learn the free capacity, and wait for more.
fn a_capacity_holds(q: &mut Queue, primary: &Cluster, standby: &Cluster) -> After {
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 8)");
    let mut lost = q.client();
    assert_eq!(take(&mut lost, "limited", "0", 3).len(), 3);
    // Capacity that is reserved when the primary dies.
    lost.batch_execute("BEGIN; SELECT xqueue.put('limited', '[{}, {}]')").unwrap();
    standby.catch_up(primary);
    let mut reader = standby.client();
    let stats: Value = scalar(&mut reader, "SELECT xqueue.stats('limited')", &[]);
    assert_eq!(stats["exact"], json!(false));
    Box::new(move |q: &mut Queue| {
        drop(lost);
        assert_eq!((q.puts(2), q.puts(1)), (2, 0), "it is full");
        let waiter = Waiter::start(reader, "SELECT xqueue.put('limited', '{}', timeout => '30s')");
        q.sql("SELECT xqueue.ack('{q}', t.id) FROM xqueue.take(NULL::{q}) t");
        waiter.task();
        q.assert_tasks(&[("ready", 10), ("total", 10)]);
    })
}
