//! The server ends: SIGKILL of a backend or of the postmaster, an immediate stop, a plain restart, a standby that takes
//! over. Afterwards no task is taken, the counters are exact, and features go on.

use crate::ends::{After, after_each_end, cases};
use xqueue_tests::*;

#[test]
fn queues_go_on_after_each_end_of_the_server() {
    after_each_end(cases![
        a_prepared_put_lives_through_it,
        taken_tasks_are_ready_again_and_counters_exact,
        a_waiting_consumer_gets_the_task_of_a_killed_holder,
        only_a_crash_empties_an_unlogged_queue,
        a_pause_goes_on,
        identities_differ,
        identified_sessions_keep_their_tasks,
        keys_of_time64_rise,
        attempts_are_limited,
        ages_begin_anew,
        the_end_of_life_is_as_it_was,
        delayed_tasks_are_promoted,
    ]);
}

fn a_prepared_put_lives_through_it(q: &mut Queue, _: &str) -> After {
    let gid = q.name.clone();
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 10)");
    for n in 0..2 {
        q.sql(&format!(
            "BEGIN; SELECT xqueue.put('{{q}}', '[{{}}, {{}}]'); PREPARE TRANSACTION '{gid}_{n}'"
        ));
    }
    Box::new(move |q: &mut Queue| {
        assert_eq!(q.counted()["total"], json!(10));
        assert_eq!(q.stats()["exact"], json!(false), "not while a prepared transaction is open");
        q.sql(&format!("ROLLBACK PREPARED '{gid}_0'"));
        q.sql(&format!("COMMIT PREPARED '{gid}_1'"));
        q.assert_tasks(&[("ready", 12), ("total", 12)]);
    })
}

fn taken_tasks_are_ready_again_and_counters_exact(q: &mut Queue, _: &str) -> After {
    q.upgrade(&json!({"features": {"tube": true}, "tube_stats": ["a"]}));
    q.sql(
        "INSERT INTO {q} (tube) SELECT (ARRAY['a', 'b'])[n % 2 + 1] FROM generate_series(1, 500) n",
    );
    q.sql("INSERT INTO {q} (status) SELECT 'B' FROM generate_series(1, 20)");
    let (mut c, mut open) = (q.client(), q.client());
    assert_eq!(take(&mut c, &q.name, "0", 200).len(), 200);
    ack(&mut c, &q.name, 1);
    // Uncommitted work of another session is lost with the server.
    open.batch_execute("BEGIN").unwrap();
    take(&mut open, &q.name, "0", 50);
    put(&mut open, &q.name, 1);
    Box::new(move |q: &mut Queue| {
        drop((c, open));
        q.wait_for("taken", 0);
        q.assert_tasks(&[("ready", 499), ("taken", 0), ("buried", 20), ("total", 519)]);
        let of_tube = q.stats()["tubes"]["a"]["tasks"].clone();
        assert_eq!((&of_tube["ready"], &of_tube["total"]), (&json!(250), &json!(250)));
        assert_eq!(q.ask_one("SELECT to_jsonb(count(owner)) FROM {q}"), 0);
        assert_eq!(take_all(&mut q.admin, &q.name).len(), 499);
    })
}

fn a_waiting_consumer_gets_the_task_of_a_killed_holder(q: &mut Queue, _: &str) -> After {
    let mut holder = q.client();
    let held = put(&mut holder, &q.name, 1);
    take_all(&mut holder, &q.name);
    let waiter = Waiter::take(q);
    Box::new(move |q: &mut Queue| {
        drop(holder);
        assert!(waiter.join().result.is_err(), "the waiter's connection broke");
        assert_eq!(ids(&q.ask("SELECT xqueue.take('{q}', '30s')")), [held]);
        q.sql(&format!("SELECT xqueue.ack('{{q}}', {held})"));
        q.assert_tasks(&[("total", 0)]);
        // Waits and wake-ups work after the crash.
        let waiter = Waiter::take(q);
        put(&mut q.admin, &q.name, 2);
        waiter.task();
    })
}

/// The new primary has no rows of an unlogged table either.
fn only_a_crash_empties_an_unlogged_queue(q: &mut Queue, how: &str) -> After {
    let left = if how == "fast" { 30 } else { 0 };
    q.sql("DROP TABLE {q}; SELECT xqueue.create('{q}', temporary => true)");
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 30)");
    let mut c = q.client();
    take(&mut c, &q.name, "0", 5);
    q.assert_tasks(&[("ready", 25), ("taken", 5)]);
    Box::new(move |q: &mut Queue| {
        drop(c);
        q.wait_for("taken", 0);
        q.assert_tasks(&[("ready", left), ("total", left)]);
        put(&mut q.admin, &q.name, 1);
        q.assert_tasks(&[("ready", left + 1), ("total", left + 1)]);
    })
}

fn a_pause_goes_on(q: &mut Queue, _: &str) -> After {
    put(&mut q.admin, &q.name, 1);
    q.sql("SELECT xqueue.pause('{q}')");
    Box::new(move |q: &mut Queue| {
        assert!(q.takes(1).is_empty());
        assert_eq!(q.stats()["paused_until"], "infinity");
        let waiter = Waiter::take(q);
        q.sql("SELECT xqueue.resume('{q}')");
        waiter.task();
    })
}

fn identities_differ(q: &mut Queue, _: &str) -> After {
    fn identity(q: &mut Queue) -> uuid::Uuid {
        scalar(&mut q.client(), "SELECT xqueue.identify()", &[])
    }
    let before = identity(q);
    Box::new(move |q: &mut Queue| assert_ne!(identity(q), before))
}

/// Three sessions hold a task each: one with a long grace, one with a short grace, and an unidentified one.
fn identified_sessions_keep_their_tasks(q: &mut Queue, _: &str) -> After {
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 3)");
    let mut clients = [q.client(), q.client(), q.client()];
    let [patient, hasty] = [(0, "1 hour"), (1, "10 ms")].map(|(n, grace): (usize, _)| -> String {
        let identify = format!("SELECT xqueue.identify(grace => '{grace}')::text");
        scalar(&mut clients[n], &identify, &[])
    });
    clients.iter_mut().for_each(|c| drop(take(c, &q.name, "0", 1)));
    let known = "SELECT count(*) FROM xqueue.sessions WHERE lease = 'infinity'";
    wait_until("the worker knows", || scalar::<i64>(&mut q.admin, known, &[]) == 2);
    Box::new(move |q: &mut Queue| {
        drop(clients);
        q.wait_for("ready", 2);
        assert!(q.holds(1, &format!("owner = '{patient}' AND status = 'T'")));
        let mut c = q.client();
        let join = format!("SELECT xqueue.identify('{patient}')::text");
        assert_eq!(scalar::<String>(&mut c, &join, &[]), patient);
        assert_eq!(ack(&mut c, &q.name, 1).len(), 1);
        expect_error(&mut c, &format!("SELECT xqueue.identify('{hasty}')"), "42704", "");
        let late = format!("SELECT xqueue.ack('{}', 2)", q.name);
        expect_error(&mut c, &late, "55000", "task 2 is not taken by anybody");
        c.batch_execute("SELECT xqueue.identify(grace => '0')").unwrap();
    })
}

/// time64 learns from the table: from a key an hour ahead of the clock, and not from keys that no clock has made.
/// Producers can choose any key, also the greatest bigint, after which no key is left.
fn keys_of_time64_rise(q: &mut Queue, _: &str) -> After {
    const EXACT_IN_JSON: i64 = 1 << 53;
    const UPGRADE: &str = r#"SELECT xqueue.upgrade('{q}', '{"features": {"id": "time64"}}')"#;
    let hand_made = [i64::MIN, EXACT_IN_JSON, 1 << 62, i64::MAX - 1, i64::MAX];
    q.sql("ALTER TABLE {q} ALTER id DROP IDENTITY");
    q.sql(UPGRADE);
    for key in hand_made {
        q.sql(&format!("SELECT xqueue.put('{{q}}', '{{\"id\": {key}}}')"));
    }
    q.sql("INSERT INTO {q} SELECT (extract(epoch FROM now()) * 1e6)::bigint + 3600000000");
    let greatest = format!("SELECT to_jsonb(max(id)) FROM {{q}} WHERE id < {EXACT_IN_JSON}");
    let mut last = q.ask_one(&greatest).as_i64().expect("a key");
    Box::new(move |q: &mut Queue| {
        for again in ["", &format!("SELECT xqueue.downgrade('{{q}}', true); {UPGRADE}")] {
            q.sql(again);
            for key in ids(&q.ask("SELECT xqueue.put('{q}', '[{}, {}]')")) {
                assert!(key > last && key < EXACT_IN_JSON, "{key} after {last}");
                last = key;
            }
        }
        for key in hand_made {
            assert!(q.ask_one(&format!("SELECT xqueue.stats('{{q}}', {key})"))["age"].is_number());
        }
    })
}

fn attempts_are_limited(q: &mut Queue, _: &str) -> After {
    q.upgrade(&json!({"features": {"retry": {"limit": 1}}}));
    q.sql("SELECT xqueue.put('{q}', '[{}, {}]'); SELECT xqueue.take('{q}')");
    Box::new(move |q: &mut Queue| {
        q.wait_for("buried", 1);
        assert!(q.holds(1, "reason = 'session was lost after attempt 1, the limit is 1'"));
        q.assert_tasks(&[("ready", 1), ("buried", 1)]);
    })
}

fn ages_begin_anew(q: &mut Queue, _: &str) -> After {
    put(&mut q.admin, &q.name, 1);
    Box::new(move |q: &mut Queue| {
        let age = "SELECT to_jsonb(oldest_ready > '0.2 s') FROM xqueue.queues WHERE queue = '{q}'::regclass";
        wait_until("it has an age", || q.ask_one(age) == json!(true));
        q.sql("INSERT INTO {q} DEFAULT VALUES");
        q.sql("SELECT xqueue.take('{q}', count => 2)");
        let taken = "SELECT to_jsonb(taken) FROM xqueue.latency WHERE queue = '{q}'::regclass";
        assert_eq!(q.ask_one(taken), json!(2));
    })
}

fn the_end_of_life_is_as_it_was(q: &mut Queue, _: &str) -> After {
    q.upgrade(&json!({"features": {"ttl": "1 hour"}}));
    q.sql(
        "SELECT xqueue.put('{q}', '[{}, {}]'); SELECT xqueue.put('{q}', '{}', delay => '1 hour')",
    );
    q.sql("SELECT xqueue.take('{q}')");
    let lives = "SELECT jsonb_agg(expires ORDER BY id) FROM {q}";
    let before = q.ask_one(lives);
    // A restart does not keep an expired task alive either.
    q.sql("SELECT xqueue.put('{q}', '{}', ttl => '300 milliseconds')");
    Box::new(move |q: &mut Queue| {
        q.wait_for("total", 3);
        q.wait_for("ready", 2);
        assert_eq!(q.ask_one(lives), before);
    })
}

fn delayed_tasks_are_promoted(q: &mut Queue, _: &str) -> After {
    q.sql("SELECT xqueue.put('{q}', '[{}, {}, {}]', '400 milliseconds')");
    q.sql("SELECT xqueue.put('{q}', '{}', '1 hour')");
    Box::new(move |q: &mut Queue| {
        q.wait_for("ready", 3);
        q.assert_tasks(&[("ready", 3), ("waiting", 1), ("total", 4)]);
        assert_eq!(take_all(&mut q.admin, &q.name).len(), 3);
        // A new delay that ends before all others is noticed too.
        q.sql("SELECT xqueue.put('{q}', '{}', '50 milliseconds')");
        q.wait_for("ready", 1);
    })
}

/// The server writes debug messages in critical sections, where nothing must be allocated.
#[test]
fn debug_messages_of_a_critical_section_end_no_server() {
    let server = Cluster::new("");
    server.wait_running();
    server.client().batch_execute("CREATE TABLE cold (id int PRIMARY KEY)").expect("a table");
    server.stop("fast");
    server.start();
    server.wait_running();
    let upgrade = "SET client_min_messages = debug5; SELECT xqueue.upgrade('cold')";
    server.client().batch_execute(upgrade).expect("the server survives");
}

/// After a crash, a put that needs the number of tasks does not wait while a slow table is counted. The counters of all
/// other queues become exact meanwhile.
#[test]
fn a_put_does_not_wait_for_a_large_recount() {
    const COUNT: usize = 40;
    let server = Server::alone();
    let mut database = Database::new("many");
    let mut owner = database.client();
    for number in 0..COUNT {
        owner.run(&format!(
            "CREATE TABLE q{number} (id bigint PRIMARY KEY, payload text);
             SELECT xqueue.upgrade('q{number}', '{{\"features\": {{\"capacity\": 10}}}}');
             INSERT INTO q{number} VALUES (1), (2); SELECT xqueue.take('q{number}')"
        ));
    }
    let columns = "id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY";
    let tubes = json!({"features": {"delayed": true, "tube": true}});
    let mut slow = Queue::make(&database.name, &unique("slow"), columns, &tubes);
    slow.assert_exact();
    // Each tube takes long to decompress.
    slow.sql(
        "INSERT INTO {q} (status, runat, tube) VALUES ('W', 'infinity', repeat('x', 50000000));
         INSERT INTO {q} (status, runat, tube) SELECT status, runat, tube FROM {q}, generate_series(1, 25)",
    );
    server.kill_backend(pid(&mut owner));
    database.admin = connect();
    slow.reconnect();
    let mut c = database.client();
    for number in (0..COUNT).rev() {
        let put = format!("SELECT xqueue.put('q{number}', '{{\"id\": 3}}')->>'id'");
        assert_eq!(scalar::<String>(&mut c, &put, &[]), "3");
    }
    assert_eq!(slow.stats()["exact"], json!(false), "it is counted meanwhile");
    let exact = "SELECT bool_and((s->>'exact')::boolean) FROM xqueue.stats() s WHERE s->>'queue' LIKE 'public.q%'";
    wait_until("all others are exact", || scalar(&mut c, exact, &[]));
    slow.sql("TRUNCATE {q}");
}

/// A sleeping vacuum notices the death itself and calls exit(): the thread's values are dropped before its transaction
/// is aborted.
#[test]
fn a_vacuum_ends_in_order() {
    let primary = Cluster::new("autovacuum = off");
    let mut q = Queue::make_at(
        primary.config(),
        "jobs",
        "id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, payload text",
        &json!({}),
    );
    q.sql("INSERT INTO {q} (payload) SELECT repeat('x', 500) FROM generate_series(1, 20000)");
    // This backend has a session and notes of taken tasks.
    let mut vacuum = q.client();
    take(&mut vacuum, "jobs", "0", 3);
    vacuum.batch_execute("SET vacuum_cost_delay = 20; SET vacuum_cost_limit = 1").unwrap();
    let backend = pid(&mut vacuum);
    let thread = std::thread::spawn(move || vacuum.batch_execute("VACUUM jobs").is_err());
    let naps = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'VacuumDelay')";
    wait_until("the vacuum naps", || scalar(&mut q.admin, naps, &[&backend]));
    primary.kill();
    assert!(thread.join().expect("no panic"), "the connection is lost");
    let process = format!("/proc/{backend}");
    wait_until("the backend is gone", || !std::path::Path::new(&process).exists());
    let log = primary.log();
    let wrong = ["TRAP", "PANIC", "Thread Local"];
    let found = log.lines().find(|line| wrong.iter().any(|word| line.contains(word)));
    assert_eq!(found, None, "in the log");
    q.abandon();
}

/// After a restart, sessions can use a queue before the worker knows it. They share its slot with a session whose upgrade
/// is rolled back.
#[test]
fn an_upgrade_that_is_rolled_back_after_a_restart() {
    // No worker adds the queue to shared memory.
    let server = Cluster::new("max_worker_processes = 0\n");
    let mut q = Queue::make_at(server.config(), "jobs", COLUMNS, &json!({}));
    q.abandon();
    server.stop("fast");
    server.start();
    q.reconnect();
    let mut user = q.client();
    q.sql("BEGIN; SELECT xqueue.upgrade('{q}', '{\"features\": {\"capacity\": 100}}')");
    user.run("SELECT xqueue.peek('jobs', 1)");
    q.sql("ROLLBACK");
    let waiter = Waiter::take(&mut q);
    user.run("SELECT xqueue.put('jobs', '{}')");
    assert_eq!(id(&waiter.task().1), 1);
}
