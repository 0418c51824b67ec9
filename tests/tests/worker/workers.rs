//! Missing and stuck workers are reported.

use xqueue_tests::*;

const JOBS: &str = r#"SELECT xqueue.create('jobs', '{"features": {"delayed": true}}')"#;
const IS_READY: &str = "SELECT count(*) = 1 FROM jobs WHERE status = 'R'";

fn error(c: &mut Client) -> String {
    scalar(c, "SELECT COALESCE(max(error), '') FROM xqueue.queues", &[])
}

/// Creates a database and waits until its worker has served a task with this delay.
#[track_caller]
fn serves_another(server: &Cluster, name: &str, delay: &str) -> Client {
    let mut c = server.new_database(name);
    c.run(&format!("{JOBS}; SELECT xqueue.put('jobs', '{{}}', delay => '{delay}')"));
    wait_until(&format!("{name} has a worker"), || scalar(&mut c, IS_READY, &[]));
    c
}

/// A limit for the transactions of a database, which PostgreSQL has since 17, does not end those of its worker.
#[test]
fn transactions_of_workers_are_not_limited() {
    let server = Cluster::new("");
    let mut admin = server.client();
    if !is_since_17(&mut admin) {
        return;
    }
    admin.run("CREATE DATABASE hasty");
    admin.run("ALTER DATABASE hasty SET transaction_timeout = '1ms'");
    // A parallel worker has the database's limit until it has the settings of its session.
    let settings = "-c transaction_timeout=0 -c max_parallel_workers=0";
    let mut c = open(server.config().dbname("hasty").options(settings));
    c.run("CREATE EXTENSION xqueue; CREATE TABLE jobs (id bigserial PRIMARY KEY, payload text)");
    c.run("INSERT INTO jobs (payload) SELECT repeat('x', 500) FROM generate_series(1, 50000)");
    c.run("SELECT xqueue.upgrade('jobs', '{\"features\": {\"delayed\": true}}')");
    c.run("SELECT xqueue.put('jobs', '{}', delay => '10 ms')");
    // The worker has to count the table, which takes longer than the limit.
    let done =
        "SELECT s->'exact' = 'true' AND s->'tasks'->'ready' = '50001' FROM xqueue.stats('jobs') s";
    wait_until("the task is ready, and the table is counted", || scalar(&mut c, done, &[]));
    assert!(!server.log().contains("transaction timeout"));
}

/// A role that a database sets for its sessions does not apply to its worker.
#[test]
fn the_role_of_a_database_is_not_that_of_its_worker() {
    let role = Role::create();
    for setting in ["role", "session_authorization"] {
        let database = Database::new("role");
        let mut c = database.client();
        c.run(&format!("ALTER DATABASE {} SET {setting} = '{}'", database.name, role.name));
        end_worker(&mut c);
        c.run(&format!("{JOBS}; SELECT xqueue.create('gone'); DROP TABLE gone"));
        end_worker(&mut c);
        c.run("SELECT xqueue.put('jobs', '{}', delay => '1 ms')");
        wait_until("the task is ready", || scalar(&mut c, IS_READY, &[]));
    }
}

fn is_since_17(c: &mut Client) -> bool {
    scalar(c, "SELECT current_setting('server_version_num')::int >= 170000", &[])
}

#[test]
fn databases_without_a_place_for_their_workers() {
    // The launcher, the metrics worker and the server's own launcher use all worker slots.
    let server = Cluster::new("max_worker_processes = 3\n");
    let mut first = server.client();
    let mut second = server.new_database("second");
    second.run(JOBS);
    wait_until("there is no worker", || {
        state(&mut second) == "NO_WORKER" && state(&mut first) == "NO_WORKER"
    });
    assert!(error(&mut second).contains("raise max_worker_processes"));
    assert_eq!(error(&mut first), "", "it has no queue");
    let seen = "SELECT jsonb_build_array(database, pid, state, lag >= '5 s', error LIKE 'there is no worker%')
                FROM xqueue.workers WHERE database IN ('postgres', 'second') ORDER BY database";
    let of = |name: &str| json!([name, null, "NO_WORKER", true, true]);
    assert_eq!(values(&mut first, seen, &[]), [of("postgres"), of("second")]);
    let metric = |c: &mut Client, name: &str| -> Option<f64> {
        let sql = format!("SELECT max(value) FROM xqueue.metric WHERE name = 'xqueue_{name}'");
        scalar(c, &sql, &[])
    };
    assert_eq!(metric(&mut second, "error"), Some(1.0));
    assert_eq!(metric(&mut second, "worker_up"), Some(0.0));
    assert!(metric(&mut second, "worker_lag_seconds").is_some_and(|lag| lag >= 5.0));
    assert_eq!(metric(&mut first, "error"), None, "it has no queue");
    // A database without a worker is reported once.
    let said = "WARNING:  xqueue: no background worker for database \"second\"";
    wait_until("the log names the database", || server.log().contains(said));
    wait_until("it has waited for longer", || {
        metric(&mut second, "worker_lag_seconds").is_some_and(|lag| lag >= 8.0)
    });
    assert_eq!(server.log().matches(said).count(), 1);
    assert!(server.log().contains("HINT:  Raise max_worker_processes"));
    // A template gets its worker at the start, too.
    first.run("ALTER DATABASE second IS_TEMPLATE true");
    drop((first, second));
    server.stop("fast");
    server.configure("max_worker_processes = 8");
    server.start();
    let (mut first, mut second) = (server.client(), open(server.config().dbname("second")));
    wait_running(&mut first);
    wait_running(&mut second);
    assert_eq!(error(&mut second), "");
    assert_eq!(metric(&mut first, "worker_lag_seconds"), Some(0.0));
}

/// Databases that accept no connections are skipped if the catalog marks them. Others are retried at growing intervals.
#[test]
fn databases_that_cannot_be_connected_to() {
    let server = Cluster::new("");
    let mut c = server.client();
    for name in ["invalid", "closed", "broken"] {
        server.new_database(name).run(JOBS);
    }
    c.run(
        "UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'invalid';
         ALTER DATABASE closed ALLOW_CONNECTIONS false",
    );
    let oid: i64 =
        scalar(&mut c, "SELECT oid::bigint FROM pg_database WHERE datname = 'broken'", &[]);
    drop(c);
    server.stop("fast");
    let folder = format!("{}/data/base/{oid}", server.folder());
    let away = format!("{folder}.away");
    std::fs::rename(&folder, &away).expect("the folder is moved");
    let before = server.log().len();
    server.start();
    let log = || server.log()[before..].to_string();
    let failures = |log: &str| log.matches("FATAL:").count();
    wait_until("it has been tried again", || failures(&log()) >= 3);
    let said = log();
    let warnings = said.lines().filter(|line| line.contains("xqueue: no worker can connect"));
    let warnings: Vec<&str> = warnings.collect();
    assert!(matches!(warnings.as_slice(), [one] if one.contains("\"broken\"")), "{warnings:?}");
    let of_others = ["invalid database", "\"closed\""];
    assert!(!of_others.iter().any(|name| said.contains(name)), "{said}");
    let mut c = server.client();
    wait_running(&mut c);
    std::fs::rename(&away, &folder).expect("the folder is moved back");
    let mut inside = open(server.config().dbname("broken"));
    wait_running(&mut inside);
}

#[test]
fn a_worker_that_is_stopped() {
    let database = Database::new("workers");
    let mut c = database.client();
    wait_running(&mut c);
    c.run(JOBS);
    let own = |what: &str| {
        format!("SELECT {what} FROM xqueue.workers WHERE database = current_database()")
    };
    let worker: i32 = scalar(&mut c, &own("pid"), &[]);
    let stopped = Stopped::worker(&mut c);
    c.run("SELECT xqueue.put('jobs', '{}', delay => '10 ms')");
    assert!(scalar::<bool>(&mut c, &own("lag < '10 s'"), &[]), "it is not late at once");
    wait_until("it is noticed", || state(&mut c) == "STALLED");
    assert!(error(&mut c).contains(&format!("the worker ({worker}) does not come round")));
    assert!(scalar::<bool>(&mut c, &own("lag >= '10 s' AND error IS NOT NULL"), &[]));
    drop(stopped);
    wait_running(&mut c);
    assert_eq!(error(&mut c), "");
    wait_until("the task is ready", || scalar(&mut c, IS_READY, &[]));
    assert!(scalar::<bool>(&mut c, &own("lag < '10 s' AND since_round <= uptime"), &[]));
}

/// Since PostgreSQL 17 an extension can name its wait events.
#[test]
fn waits_have_names_and_so_have_workers() {
    let mut q = Queue::limited("workers", 1, 0);
    let names_waits = is_since_17(&mut q.admin);
    let waits = |c: &mut Client, named: &str, process: &str| {
        let name = if names_waits { named } else { "Extension" };
        let sql = format!(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND wait_event = $1 AND {process})"
        );
        wait_until(name, || scalar(c, &sql, &[&name]));
    };
    let consumer = Waiter::take(&mut q);
    waits(&mut q.admin, "XqueueTask", &format!("pid = {}", consumer.pid));
    q.sql("SELECT xqueue.put('{q}', '{}')");
    let holder = consumer.join();
    let producer = Waiter::put(&mut q, &json!({}));
    waits(&mut q.admin, "XqueueRoom", &format!("pid = {}", producer.pid));
    drop(holder);
    q.sql("SELECT xqueue.ack('{q}', (xqueue.take('{q}', '10 s')->>'id')::bigint)");
    assert_eq!(producer.tasks().len(), 1);
    for worker in ["xqueue launcher", "xqueue metrics", "xqueue worker"] {
        let is_it = format!("application_name = '{worker}' AND backend_type = '{worker}'");
        waits(&mut q.admin, "XqueueWorkerMain", &is_it);
    }
}

/// To lock databases, their owner only needs an open transaction that renames them.
#[test]
fn databases_that_are_locked_keep_no_places_for_workers() {
    // The launcher, the metrics worker and the server's own launcher leave fewer worker slots than there are locked
    // databases.
    let server = Cluster::new("max_worker_processes = 6\n");
    let mut owner = server.client();
    owner.run("CREATE ROLE mallory CREATEDB");
    drop(server.new_database("copied"));
    owner.run("ALTER DATABASE copied IS_TEMPLATE true");
    owner.run("SET ROLE mallory");
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|letter| format!("locked_{letter}"));
    for name in &names {
        owner.run(&format!("CREATE DATABASE {name} TEMPLATE copied"));
    }
    owner.run("BEGIN");
    for name in &names {
        owner.run(&format!("ALTER DATABASE {name} RENAME TO un{name}"));
    }
    let mut other = serves_another(&server, "other", "0.1 s");
    // A worker that tried to connect would wait for the lock for less than this delay.
    serves_another(&server, "third", "2 s");
    assert!(!server.log().contains("lock timeout"), "no worker tries to connect");
    owner.run("ROLLBACK");
    let run =
        "SELECT count(*) > 0 FROM xqueue.workers WHERE database LIKE 'locked%' AND pid IS NOT NULL";
    wait_until("they have workers again", || scalar(&mut other, run, &[]));
}
