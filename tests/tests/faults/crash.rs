//! The server ends: SIGKILL of a backend, an immediate stop, a plain restart. Afterwards no task is taken, the counters
//! are exact, and delays go on.

use xqueue_tests::*;

/// The ways in which the server ends.
const ENDS: [&str; 3] = ["SIGKILL", "immediate", "fast"];

fn end(server: &Server, how: &str, victim: i32) {
    match how {
        "SIGKILL" => server.kill_backend(victim),
        mode => server.restart(mode),
    }
}

#[test]
fn taken_tasks_are_ready_again_and_counters_exact() {
    let server = Server::alone();
    for how in ENDS {
        let mut q = Queue::new("crash");
        let name = q.name.clone();
        q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 500)");
        q.sql("INSERT INTO {q} (status) SELECT 'B' FROM generate_series(1, 20)");
        let mut c = q.client();
        assert_eq!(take(&mut c, &name, "0", 200).len(), 200);
        ack(&mut c, &name, 1);
        // Uncommitted work of another session is lost with the server.
        let mut open = q.client();
        open.batch_execute("BEGIN").unwrap();
        take(&mut open, &name, "0", 50);
        put(&mut open, &name, 1);
        let victim = pid(&mut open);
        end(&server, how, victim);
        q.reconnect();
        q.wait_for("taken", 0);
        q.assert_tasks(&[("ready", 499), ("taken", 0), ("buried", 20), ("total", 519)]);
        let owned = format!("SELECT count(*) FROM {name} WHERE owner IS NOT NULL");
        assert_eq!(scalar::<i64>(&mut q.admin, &owned, &[]), 0);
        assert_eq!(take_all(&mut q.admin, &name).len(), 499, "{how}");
    }
}

#[test]
fn the_holder_itself_is_killed() {
    let server = Server::alone();
    let mut q = Queue::new("crash");
    let name = q.name.clone();
    let mut c = q.client();
    let id = put(&mut c, &name, 1);
    take_all(&mut c, &name);
    let waiter = Waiter::take(&mut q);
    server.kill_backend(pid(&mut c));
    assert!(waiter.join().result.is_err(), "the waiter's connection broke");
    q.reconnect();
    let (mut c, task) =
        Waiter::start(q.client(), &format!("SELECT xqueue.take('{name}', '30s')")).task();
    assert_eq!(xqueue_tests::id(&task), id);
    ack(&mut c, &name, id);
    q.assert_tasks(&[("total", 0)]);
    // Waits and wake-ups work after the crash.
    let waiter = Waiter::take(&mut q);
    put(&mut q.admin, &name, 2);
    waiter.task();
}

#[test]
fn delayed_tasks_are_promoted_afterwards() {
    let server = Server::alone();
    for how in ENDS {
        let mut q = Queue::new("crash");
        q.sql("SELECT xqueue.put('{q}', '[{}, {}, {}]', '400 milliseconds')");
        q.sql("SELECT xqueue.put('{q}', '{}', '1 hour')");
        let mut killed = q.client();
        let victim = pid(&mut killed);
        end(&server, how, victim);
        q.reconnect();
        q.wait_for("ready", 3);
        q.assert_tasks(&[("ready", 3), ("waiting", 1), ("total", 4)]);
        assert_eq!(take_all(&mut q.admin, &q.name).len(), 3);
        // A new delay that ends before all others is noticed too.
        q.sql("SELECT xqueue.put('{q}', '{}', '50 milliseconds')");
        q.wait_for("ready", 1);
    }
}

#[test]
fn a_prepared_put_lives_through_it() {
    let server = Server::alone();
    for how in ENDS {
        let mut q = Queue::new("crash");
        let gid = q.name.clone();
        q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 10)");
        for n in 0..2 {
            q.sql(&format!(
                "BEGIN; SELECT xqueue.put('{{q}}', '[{{}}, {{}}]'); PREPARE TRANSACTION '{gid}_{n}'"
            ));
        }
        let mut killed = q.client();
        let victim = pid(&mut killed);
        end(&server, how, victim);
        q.reconnect();
        assert_eq!(q.counted()["total"], json!(10));
        assert_eq!(q.stats()["exact"], json!(false), "not while a prepared transaction is open");
        q.sql(&format!("ROLLBACK PREPARED '{gid}_0'"));
        q.sql(&format!("COMMIT PREPARED '{gid}_1'"));
        q.assert_tasks(&[("ready", 12), ("total", 12)]);
    }
}

#[test]
fn an_unlogged_queue_is_empty_and_exact_after_a_crash() {
    let server = Server::alone();
    let mut c = connect();
    let name = unique("crash_temp");
    c.batch_execute(&format!("SELECT xqueue.create('{name}', temporary => true)")).unwrap();
    let mut q = Queue::adopt(&database(), &name);
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 30)");
    take(&mut c, &name, "0", 5);
    q.assert_tasks(&[("ready", 25), ("taken", 5)]);
    server.kill_backend(pid(&mut c));
    q.reconnect();
    q.assert_tasks(&[("total", 0)]);
    put(&mut q.admin, &name, 1);
    q.assert_tasks(&[("ready", 1), ("total", 1)]);
}

#[test]
fn a_pause_outlasts_a_restart() {
    let server = Server::alone();
    let mut q = Queue::new("crash");
    put(&mut q.admin, &q.name, 1);
    q.sql("SELECT xqueue.pause('{q}')");
    server.restart("fast");
    q.reconnect();
    let mut c = q.client();
    assert!(take(&mut c, &q.name, "0", 1).is_empty());
    assert_eq!(q.stats()["paused_until"], "infinity");
    let waiter = Waiter::take(&mut q);
    q.sql("SELECT xqueue.resume('{q}')");
    assert_eq!(waiter.join().result.expect("a task").len(), 1);
}

#[test]
fn several_databases() {
    let server = Server::alone();
    let mut databases: Vec<Database> = (0..2).map(|_| Database::new("crash_db")).collect();
    let mut queues: Vec<Queue> =
        databases.iter().map(|d| Queue::new_in(&d.name, "crash")).collect();
    for q in &mut queues {
        put(&mut q.admin, &q.name, 1);
        take_all(&mut q.admin, &q.name);
        q.sql("SELECT xqueue.put('{q}', '{}', '300 milliseconds')");
    }
    server.restart("immediate");
    for q in &mut queues {
        q.reconnect();
        q.wait_for("ready", 2);
    }
    drop(queues);
    for database in &mut databases {
        database.admin = connect();
    }
}

#[test]
fn identities_differ_after_a_restart() {
    let server = Server::alone();
    let before: uuid::Uuid = scalar(&mut connect(), "SELECT xqueue.identify()", &[]);
    server.restart("fast");
    let after: uuid::Uuid = scalar(&mut connect(), "SELECT xqueue.identify()", &[]);
    assert_ne!(before, after);
}

/// The server writes debug messages in critical sections, where nothing must be allocated.
#[test]
fn debug_messages_of_a_critical_section_end_no_server() {
    let server = Cluster::new("");
    server.wait_running();
    let mut admin = server.client();
    admin.batch_execute("CREATE TABLE cold (id int PRIMARY KEY)").expect("a table");
    server.stop("fast");
    server.start();
    server.wait_running();
    let mut client = server.client();
    client
        .batch_execute("SET client_min_messages = debug5; SELECT xqueue.upgrade('cold')")
        .expect("the server survives");
}
