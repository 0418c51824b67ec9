//! More databases than worker slots: databases take turns, and due work in each of them is done.

use std::net::UdpSocket;
use std::time::Duration;
use xqueue_tests::*;

/// Three worker slots are always in use: by the launcher, the metrics worker and the server's logical replication
/// launcher. Two are left for database workers.
const TWO_PLACES: &str = "max_worker_processes = 5\n";
const DATABASES: usize = 7;

/// Creates several databases, copies of one template, and returns the queue of each.
fn crowd(server: &Cluster) -> Vec<Queue> {
    let config = |name: &str| server.config().dbname(name).clone();
    drop(server.new_database("pattern"));
    let options = json!({"features": {"delayed": true, "ttl": true, "ttr": true}});
    Queue::make_at(config("pattern"), "jobs", COLUMNS, &options).abandon();
    let mut admin = server.client();
    let alone = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = 'pattern' AND backend_type = 'client backend')";
    wait_until("it is left alone", || scalar(&mut admin, alone, &[]));
    let made = |number: usize| {
        admin.run(&format!("CREATE DATABASE crowd{number} TEMPLATE pattern"));
        Queue::adopt_at(config(&format!("crowd{number}")), "jobs")
    };
    (0..DATABASES).map(made).collect()
}

fn ready(q: &mut Queue) -> i64 {
    q.counted()["ready"].as_i64().unwrap()
}

/// Puts a task with a short delay in each database.
fn delay(all: &mut [Queue]) {
    all.iter_mut().for_each(|q| q.sql("SELECT xqueue.put('{q}', '{}', '100 milliseconds')"));
}

/// Lets a delay end in each database at about the same time, and waits until each task is ready.
#[track_caller]
fn keep_delays(all: &mut [Queue]) {
    delay(all);
    all.iter_mut().for_each(|q| q.wait_for("waiting", 0));
}

/// Drops a connection in each database, and waits until its tasks are back.
#[track_caller]
fn give_back(all: &mut [Queue]) {
    let before: Vec<i64> = all.iter_mut().map(ready).collect();
    let hold = |q: &mut Queue| {
        let mut client = q.client();
        take_all(&mut client, &q.name);
        client
    };
    let clients: Vec<Client> = all.iter_mut().map(hold).collect();
    all.iter_mut().for_each(|q| assert_eq!(ready(q), 0));
    drop(clients);
    for (q, before) in all.iter_mut().zip(before) {
        q.wait_for("ready", before);
    }
}

/// Lets a task fall due every few milliseconds.
fn keep_busy(all: &mut [Queue], tasks: u32) {
    let series = format!(
        "INSERT INTO {{q}} (status, runat) SELECT 'W', now() + n * interval '3 milliseconds' FROM generate_series(1, {tasks}) n"
    );
    all.iter_mut().for_each(|q| q.sql(&series));
}

const NO_WORKER: &str = "xqueue: no background worker for";

/// Returns the background workers of a kind.
fn processes(c: &mut Client, kind: &str) -> Vec<i32> {
    let sql = "SELECT coalesce(array_agg(pid), '{}') FROM pg_stat_activity WHERE backend_type = $1";
    scalar(c, sql, &[&kind])
}

fn terminate(c: &mut Client, kind: &str) {
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type";
    c.run(&format!("{end} = '{kind}'"));
}

#[test]
fn databases_take_turns() {
    let server = Cluster::new(TWO_PLACES);
    let mut all = crowd(&server);
    let cases: [fn(&Cluster, &mut [Queue]); 6] = [
        ends_of_times_are_kept,
        delays_are_kept_and_orphans_given_back,
        a_closed_database_takes_no_turn_of_others,
        a_busy_database_does_not_keep_its_place,
        turns_go_on_after_the_end_of_the_launcher_and_of_workers,
        a_dropped_database_leaves_the_others_their_turns,
    ];
    for case in cases {
        all.iter_mut().for_each(|q| q.sql("TRUNCATE {q}"));
        case(&server, &mut all);
    }
}

/// Lets delays, times to run, lives and leases end in each database.
fn ends_of_times_are_kept(_: &Cluster, all: &mut [Queue]) {
    let mut holders = vec![];
    for q in &mut *all {
        let mut holder = q.client();
        put(&mut holder, "jobs", 1);
        let take = "SELECT xqueue.take('jobs', ttr => '200 milliseconds')->>'id'";
        assert!(scalar::<Option<String>>(&mut holder, take, &[]).is_some());
        holders.push(holder);
        q.sql("SELECT xqueue.put('{q}', '{}', ttl => '200 milliseconds')");
    }
    for q in &mut *all {
        q.wait_for("ready", 1);
        q.wait_for("total", 1);
        // A session that outlives its connection.
        let mut identified = q.client();
        identified.run("SELECT xqueue.identify(grace => '300 milliseconds')");
        assert_eq!(take_all(&mut identified, "jobs").len(), 1);
    }
    all.iter_mut().for_each(|q| q.wait_for("ready", 1));
}

fn delays_are_kept_and_orphans_given_back(server: &Cluster, all: &mut [Queue]) {
    for _ in 0..3 {
        keep_delays(all);
        give_back(all);
    }
    let mut c = server.client();
    let have_left = "SELECT bool_and(state IN ('RUNNING', 'RESTING')) AND bool_or(state = 'RESTING') FROM xqueue.workers";
    wait_until("those without work have left", || scalar(&mut c, have_left, &[]));
    let wrong = "SELECT count(*) FROM xqueue.workers WHERE error IS NOT NULL OR lag > '5 s'";
    assert_eq!(scalar::<i64>(&mut c, wrong, &[]), 0);
    assert!(!server.log().contains(NO_WORKER));
    for q in all {
        let up = "SELECT value = 1 FROM xqueue.metric WHERE name = 'xqueue_worker_up'";
        assert!(scalar::<bool>(&mut q.admin, up, &[]), "one that rests is well");
    }
}

fn a_dropped_database_leaves_the_others_their_turns(server: &Cluster, all: &mut [Queue]) {
    keep_delays(all);
    let mut admin = server.client();
    for number in [6, 5] {
        delay(&mut all[..=number]);
        all[number].abandon();
        let dropped = format!("crowd{number}");
        admin.run(&format!("DROP DATABASE {dropped} WITH (FORCE)"));
        keep_delays(&mut all[..number]);
        let listed = "SELECT count(*) FROM xqueue.workers WHERE database = $1 OR database IS NULL";
        assert_eq!(scalar::<i64>(&mut admin, listed, &[&dropped]), 0);
    }
}

fn turns_go_on_after_the_end_of_the_launcher_and_of_workers(server: &Cluster, all: &mut [Queue]) {
    keep_delays(all);
    let mut c = server.client();
    for kind in ["xqueue launcher", "xqueue worker"] {
        terminate(&mut c, kind);
        keep_delays(all);
        give_back(all);
    }
    // SIGKILL restarts the server.
    for kind in ["xqueue launcher", "xqueue worker"] {
        let mut c = server.client();
        delay(all);
        let before: Vec<Value> = all.iter_mut().map(|q| q.counted()["total"].clone()).collect();
        // A worker can end between the two steps, because its turn ends.
        wait_until("one is killed", || {
            let is_killed =
                |pid: &i32| server_command("kill").args(["-9", &pid.to_string()]).works();
            processes(&mut c, kind).first().is_some_and(is_killed)
        });
        wait_until("the connections are lost", || c.is_closed() || c.simple_query("").is_err());
        wait_until("the server runs again", || server.config().connect(postgres::NoTls).is_ok());
        for (q, before) in all.iter_mut().zip(before) {
            q.reconnect();
            wait_until("all tasks are ready", || q.counted()["ready"] == before);
        }
        keep_delays(all);
    }
}

fn a_closed_database_takes_no_turn_of_others(server: &Cluster, all: &mut [Queue]) {
    keep_delays(all);
    let mut admin = server.client();
    let (closed, others) = all.split_at_mut(3);
    let allow = |admin: &mut Client, allow: bool| {
        for number in 0..3 {
            admin.run(&format!("ALTER DATABASE crowd{number} ALLOW_CONNECTIONS {allow}"));
        }
    };
    allow(&mut admin, false);
    delay(closed);
    terminate(&mut admin, "xqueue worker");
    let left = "SELECT count(*) = 0 FROM pg_stat_activity
                WHERE backend_type = 'xqueue worker' AND datname IN ('crowd0', 'crowd1', 'crowd2')";
    wait_until("they have no worker", || scalar(&mut admin, left, &[]));
    for _ in 0..3 {
        keep_delays(others);
        give_back(others);
    }
    allow(&mut admin, true);
    closed.iter_mut().for_each(|q| q.wait_for("ready", 2));
    keep_delays(all);
}

fn a_busy_database_does_not_keep_its_place(_: &Cluster, all: &mut [Queue]) {
    let (busy, others) = all.split_at_mut(3);
    keep_busy(busy, 3000);
    for _ in 0..3 {
        keep_delays(others);
        give_back(others);
    }
    for q in busy {
        q.wait_for("waiting", 0);
        q.assert_tasks(&[("ready", 3000), ("total", 3000)]);
    }
}

#[test]
fn owners_code_that_fails_or_does_not_end_takes_no_turn_of_other_databases() {
    let server = Cluster::new(&format!("{TWO_PLACES}xqueue.worker_timeout = 100\n"));
    let mut all = crowd(&server);
    let (sick, others) = all.split_at_mut(4);
    for (number, q) in sick.iter_mut().enumerate() {
        let body = ["PERFORM pg_sleep(600)", "RAISE 'out of order'"][number % 2];
        q.before_each("UPDATE", &format!("{body}; RETURN NEW"));
        q.sql("INSERT INTO {q} (status, runat) VALUES ('W', now())");
    }
    // One of the other databases has an owner's code, too.
    others[0].before_each("UPDATE", "RETURN NEW");
    for q in sick.iter_mut() {
        let told = ["statement timeout", "out of order"];
        wait_until("it says what is wrong", || {
            let error = q.error();
            told.iter().any(|told| error.contains(told))
        });
    }
    for _ in 0..3 {
        keep_delays(others);
        give_back(others);
    }
    for q in sick {
        q.mend();
        q.wait_for("ready", 1);
        wait_until("nothing is wrong any more", || q.error().is_empty());
    }
}

/// A recount gets no worker slot at first, but the databases still take turns.
#[test]
fn delays_are_kept_while_large_tables_are_counted_again_and_while_they_wait_for_a_place() {
    let server = Cluster::new("max_worker_processes = 4\n");
    let mut all = crowd(&server);
    // Too many pages for a database worker to count by itself.
    for q in &mut all[..4] {
        q.sql(
            "CREATE TABLE large (id bigint PRIMARY KEY, filler char(100) DEFAULT '');
             INSERT INTO large SELECT generate_series(1, 70000);
             SELECT xqueue.upgrade('large')",
        );
    }
    let restart = |mode: &str, all: &mut [Queue]| {
        server.stop(mode);
        server.start();
        all.iter_mut().for_each(Queue::reconnect);
    };
    // A crash makes recounts necessary.
    restart("immediate", &mut all);
    for _ in 0..3 {
        keep_delays(&mut all);
        give_back(&mut all);
    }
    let error =
        "SELECT to_jsonb(COALESCE(error, '')) FROM xqueue.queues WHERE queue = 'large'::regclass";
    wait_until("it says why it is not counted", || {
        let error = all[0].ask_one(error).to_string();
        error.contains("there is no background worker to count its tasks")
    });
    server.configure(TWO_PLACES);
    restart("fast", &mut all);
    keep_delays(&mut all);
    give_back(&mut all);
    for q in &mut all[..4] {
        let exact = "SELECT (s->>'exact')::boolean AND s->'tasks'->'ready' = '70000' FROM xqueue.stats('large') s";
        wait_until("it is counted", || scalar(&mut q.admin, exact, &[]));
    }
}

/// Reads datagrams for Graphite until each database has been reported `times` times with the age of its ready task.
fn receive(graphite: &UdpSocket, times: usize) {
    let mut seen = [0; DATABASES];
    let mut datagram = [0; 65536];
    while seen.iter().any(|seen| *seen < times) {
        let length = graphite.recv(&mut datagram).expect("metrics of all databases are sent");
        let lines = String::from_utf8_lossy(&datagram[..length]);
        for (number, seen) in seen.iter_mut().enumerate() {
            *seen +=
                lines.matches(&format!("crowd{number}.public.jobs.oldest_ready_seconds")).count();
        }
    }
}

#[test]
fn metrics_need_no_worker_where_nothing_has_changed() {
    let graphite = UdpSocket::bind("127.0.0.1:0").unwrap();
    graphite.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let server = Cluster::new(&format!(
        "{TWO_PLACES}log_min_messages = debug1
         xqueue.graphite_host = '127.0.0.1'
         xqueue.graphite_port = {}
         xqueue.graphite_protocol = 'udp'
         xqueue.graphite_interval = '100 ms'\n",
        graphite.local_addr().unwrap().port()
    ));
    let mut all = crowd(&server);
    let starts =
        || server.log().matches("starting background worker process \"xqueue worker\"").count();
    for _ in 0..2 {
        all.iter_mut().for_each(|q| q.sql("SELECT xqueue.put('{q}', '{}')"));
        receive(&graphite, 1);
    }
    let before = starts();
    receive(&graphite, 30);
    // The earlier puts can start one worker for each database.
    assert!(starts() <= before + DATABASES, "{before}, then {}", starts());
}
