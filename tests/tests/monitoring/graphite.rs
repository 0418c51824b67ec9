//! Metrics in a real Graphite, and in fake ones: dead, full, not reading, or closing each connection.
//!
//! The settings belong to the whole server, so each test runs alone.

mod carbon;
mod fakes;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use carbon::Carbon;
use fakes::{accept, closing, connections_to, fill, listen, port, vanish};
use xqueue_tests::{
    Client, Cluster, Database, Queue, Server, connect, database, id, json, put, scalar, take,
    unique, wait_until,
};

const STATES: [&str; 6] = ["ready", "taken", "waiting", "buried", "zombie", "done"];

/// Sets xqueue.graphite_* and reloads; resets them at the end of the test.
struct Settings {
    admin: Client,
}

impl Settings {
    /// Waits until no other test uses the server.
    fn new() -> Settings {
        Server::alone();
        let mut settings = Settings { admin: connect() };
        settings.change(&[("interval", "200ms")]);
        settings
    }

    fn change(&mut self, values: &[(&str, &str)]) {
        for (name, value) in values {
            let sql = format!("ALTER SYSTEM SET xqueue.graphite_{name} = '{value}'");
            self.admin.batch_execute(&sql).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        }
        self.reload();
    }

    fn send_to(&mut self, port: u16, protocol: &str, prefix: &str) {
        self.change(&[
            ("prefix", prefix),
            ("protocol", protocol),
            ("port", &port.to_string()),
            ("host", "127.0.0.1"),
        ]);
    }

    fn reload(&mut self) {
        assert!(scalar::<bool>(&mut self.admin, "SELECT pg_reload_conf()", &[]));
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        for name in ["host", "port", "protocol", "prefix", "interval"] {
            let sql = format!("ALTER SYSTEM RESET xqueue.graphite_{name}");
            if let Err(error) = self.admin.batch_execute(&sql) {
                eprintln!("{sql}: {error:?}");
            }
        }
        drop(self.admin.batch_execute("SELECT pg_reload_conf()"));
    }
}

/// Returns the number of lines in the server's log that name this address.
fn logged(protocol: &str, port: u16) -> usize {
    let path = std::env::var("XQUEUE_LOG").map(PathBuf::from).unwrap_or_else(|_| {
        PathBuf::from(std::env::var("XQUEUE_PGDATA").expect("XQUEUE_PGDATA is set"))
            .join("server.log")
    });
    let log = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let words = format!("Graphite at {protocol}://127.0.0.1:{port}");
    // Excludes longer port numbers that begin with the same digits.
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_digit());
    let log = String::from_utf8_lossy(&log);
    log.lines().filter(|line| line.split(&words).skip(1).any(ends)).count()
}

fn now() -> u32 {
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("the clock is after 1970");
    u32::try_from(now.as_secs()).expect("whisper's times end in 2106")
}

#[track_caller]
fn wait_for_value(carbon: &Carbon, metric: &str, value: f64) {
    let what = format!("{metric} is {value} in Graphite");
    wait_until(&what, || carbon.last(metric).is_some_and(|(_, last)| last == value));
}

fn delayed_task_comes(queue: &mut Queue) {
    let task = queue.ask_one("SELECT xqueue.put('{q}', '{}', '200ms')");
    let taken = queue.ask("SELECT xqueue.take('{q}', '10s')");
    assert_eq!(taken.first().map(id), Some(id(&task)), "a delayed task comes");
    queue.sql(&format!("SELECT xqueue.ack('{{q}}', {})", id(&task)));
}

#[test]
fn tcp_values_of_every_state_tube_database_and_name() {
    let carbon = Carbon::start();
    let mut settings = Settings::new();
    let prefix = format!("it.{}", unique("tcp"));

    let mut queue = Queue::new("graphite");
    let mut c = queue.client();
    for number in 0..4 {
        put(&mut c, &queue.name, number);
    }
    queue.sql("SELECT xqueue.put('{q}', '{}', '1h')");
    let task = take(&mut c, &queue.name, "0", 1);

    let odd = r#""Заказы, срочные""#;
    queue.sql(&format!("DROP TABLE IF EXISTS {odd}"));
    let mut odd = Queue::make(&database(), odd, "id bigint PRIMARY KEY", &json!({}));
    odd.sql("INSERT INTO {q} SELECT generate_series(1, 7)");

    let other = Database::new("graphite_other");
    let mut elsewhere = Queue::new_in(&other.name, "elsewhere");
    elsewhere.sql("INSERT INTO {q} (payload) SELECT '1' FROM generate_series(1, 5)");

    let mut tubes = Queue::with(
        "graphite",
        "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        &json!({"features": {"tube": true}, "tube_stats": ["a.b", "c"]}),
    );
    tubes.sql("SELECT xqueue.put('{q}', '[{}, {}]', tube => 'a.b'); SELECT xqueue.put('{q}', '{}', tube => 'c')");
    tubes.sql("SELECT xqueue.take('{q}', tube => 'c')");

    settings.send_to(carbon.port, "tcp", &prefix);
    let path = format!("{prefix}.{}.public", database());
    let expected = [3.0, 1.0, 1.0, 0.0, 0.0, 0.0];
    for (state, value) in STATES.iter().zip(expected) {
        wait_for_value(&carbon, &format!("{path}.{}.{state}", queue.name), value);
    }
    let (time, _) = carbon.last(&format!("{path}.{}.ready", queue.name)).expect("it was just seen");
    assert!(now().abs_diff(time) < 30, "the time is of now: {time}");
    wait_for_value(&carbon, &format!("{path}._______________-f112edfa.ready"), 7.0);
    let there = format!("{prefix}.{}.public.{}.ready", other.name, elsewhere.name);
    wait_for_value(&carbon, &there, 5.0);

    let acked = xqueue_tests::ack(&mut c, &queue.name, id(&task[0]));
    assert_eq!(acked.len(), 1);
    wait_for_value(&carbon, &format!("{path}.{}.taken", queue.name), 0.0);

    let path = format!("{path}.{}", tubes.name);
    for (metric, value) in [
        ("calls.put", 3.0),
        ("calls.take", 1.0),
        ("consumers", 0.0),
        ("tubes.a_b-108bf50c.ready", 2.0),
        ("tubes.c.taken", 1.0),
    ] {
        wait_for_value(&carbon, &format!("{path}.{metric}"), value);
    }
    let age = format!("{path}.oldest_ready_seconds");
    wait_until("the oldest task gets older", || {
        carbon.last(&age).is_some_and(|(_, age)| age >= 2.0)
    });
    tubes.sql("SELECT xqueue.take('{q}', count => 2)");
    wait_for_value(&carbon, &format!("{path}.ready"), 0.0);
}

#[test]
fn reload_changes_protocol_and_prefix_and_switches_off() {
    let carbon = Carbon::start();
    let mut settings = Settings::new();
    let mut queue = Queue::new("graphite");
    queue.sql("INSERT INTO {q} (payload) VALUES ('1'), ('2')");
    let metric = |prefix: &str| format!("{prefix}.{}.public.{}.ready", database(), queue.name);
    let (first, second) = (unique("first"), unique("second"));
    let (first_metric, second_metric) = (metric(&first), metric(&second));

    settings.send_to(carbon.port, "tcp", &first);
    wait_for_value(&carbon, &first_metric, 2.0);

    settings.send_to(carbon.port, "udp", &second);
    wait_for_value(&carbon, &second_metric, 2.0);
    // Values of the first prefix can still be on their way. Later values of the second prefix show that no more will
    // come.
    let seen = now();
    wait_until("values of later seconds", || {
        carbon.last(&second_metric).is_some_and(|(time, _)| time > seen + 1)
    });
    assert!(carbon.last(&first_metric).is_some_and(|(time, _)| time <= seen));

    let listener = listen();
    settings.send_to(port(&listener), "tcp", &first);
    let (stream, _) = accept(&listener);
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).expect("a line");
    assert!(line.starts_with(&first) && line.split(' ').count() == 3, "{line}");
    settings.change(&[("host", "")]);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("the connection is closed when the host is taken away");
}

#[test]
fn a_graphite_that_dies_delays_nothing_and_is_found_again() {
    let mut carbon = Carbon::start();
    let mut settings = Settings::new();
    let mut queue = Queue::new("graphite");
    put(&mut queue.client(), &queue.name, 1);
    queue.sql("SELECT xqueue.take('{q}')");
    let before = logged("tcp", carbon.port);
    let lines = |carbon: &Carbon| logged("tcp", carbon.port) - before;
    let prefix = unique("dies");
    let metric = format!("{prefix}.{}.public.{}.taken", database(), queue.name);

    settings.send_to(carbon.port, "tcp", &prefix);
    wait_for_value(&carbon, &metric, 1.0);
    wait_until("the log names Graphite", || lines(&carbon) == 1);

    carbon.kill();
    wait_until("the log tells that Graphite is dead", || lines(&carbon) == 2);
    // Each task takes as long as its delay, so attempts to reconnect happen meanwhile.
    (0..16).for_each(|_| delayed_task_comes(&mut queue));
    assert_eq!(lines(&carbon), 2, "lines in the log for one death");

    let back = now();
    carbon.restart();
    wait_until("values arrive again", || carbon.last(&metric).is_some_and(|(time, _)| time > back));
    wait_until("the log tells that Graphite is back", || lines(&carbon) == 3);
}

#[test]
fn a_deaf_graphite_delays_nothing() {
    let mut settings = Settings::new();
    let mut queue = Queue::new("graphite");

    let full = listen();
    let fillers = fill(&full);
    one_line_and_no_delay(&mut settings, &mut queue, &full);
    drop(fillers);

    let never_reads = listen();
    one_line_and_no_delay(&mut settings, &mut queue, &never_reads);
}

/// Asserts that a failed attempt delays no task. A worker that waited for the end of the attempt would promote no task
/// meanwhile.
#[track_caller]
fn one_line_and_no_delay(settings: &mut Settings, queue: &mut Queue, graphite: &TcpListener) {
    let port = port(graphite);
    let (before, others) = (logged("tcp", port), connections_to(port));
    settings.send_to(port, "tcp", "xqueue");
    let mut last = BTreeSet::new();
    wait_until("a delayed task has come during an attempt to reach Graphite", || {
        delayed_task_comes(queue);
        let now = &connections_to(port) - &others;
        let has_outlasted = !now.is_disjoint(&last);
        last = now;
        has_outlasted
    });
    wait_until("the log tells of this Graphite", || logged("tcp", port) > before);
    assert_eq!(logged("tcp", port), before + 1, "lines in the log");
}

/// The metrics worker reacts to the postmaster's signals during every wait.
#[test]
fn no_graphite_delays_a_fast_shutdown() {
    let server = Cluster::new("xqueue.graphite_interval = '100ms'\n");
    server.client().batch_execute("SELECT xqueue.create('jobs')").expect("a queue");
    // Reports of this size soon fill the kernel's buffers.
    server.configure(&format!("xqueue.graphite_prefix = '{}'", "x".repeat(100_000)));
    let log_says = |host: &str, port: u16, words: &str| {
        let line = format!("cannot send metrics to Graphite at tcp://{host}:{port}: {words}");
        wait_until(&line, || server.log().contains(&line));
    };
    let start = |host: &str, port: u16| {
        server
            .configure(&format!("xqueue.graphite_host = '{host}'\nxqueue.graphite_port = {port}"));
        server.start();
    };
    let stop = |state: &str| {
        let start = Instant::now();
        server.stop("fast");
        assert!(start.elapsed() < Duration::from_secs(4), "{state}: after {:?}", start.elapsed());
    };
    stop("none");

    let full = listen();
    let _fillers = fill(&full);
    let others = connections_to(port(&full));
    start("127.0.0.1", port(&full));
    wait_until("it connects", || !connections_to(port(&full)).is_subset(&others));
    stop("does not answer");

    let never_reads = listen();
    start("127.0.0.1", port(&never_reads));
    log_says("127.0.0.1", port(&never_reads), "");
    wait_until("it connects again", || !connections_to(port(&never_reads)).is_empty());
    stop("never reads");

    let closed = port(&listen());
    start("127.0.0.1", closed);
    log_says("127.0.0.1", closed, "Connection refused");
    stop("refuses");

    let closes_midway = listen();
    closing(&closes_midway, false, |_| {
        start("127.0.0.1", port(&closes_midway));
        log_says("127.0.0.1", port(&closes_midway), "");
        stop("closes midway");
    });

    start("no-such-host.invalid", 2003);
    log_says("no-such-host.invalid", 2003, "cannot resolve the host name");
    stop("has no address");
}

/// The network disappears silently: the kernel gives the connection up after five seconds.
#[test]
fn a_graphite_that_vanishes_delays_nothing_and_is_found_again() {
    let mut settings = Settings::new();
    let mut queue = Queue::new("graphite");
    let listener = listen();
    let port = port(&listener);
    let before = logged("tcp", port);
    // Lines alternate: Graphite is reachable, then it is gone, and so on.
    let is_there = || (logged("tcp", port) - before) % 2 == 1;
    settings.send_to(port, "tcp", "xqueue");
    let mut vanished = Vec::new();
    wait_until("a delayed task has come before a connection is given up", || {
        let (stream, near_end) = accept(&listener);
        wait_until("the log tells of this Graphite", is_there);
        vanish(&stream);
        vanished.push(stream);
        delayed_task_comes(&mut queue);
        connections_to(port).contains(&near_end.port())
    });
    wait_until("the log tells that Graphite is gone", || !is_there());
    let (stream, _) = accept(&listener);
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("a line");
    assert!(line.starts_with("xqueue."), "{line}");
    wait_until("the log tells that Graphite is back", is_there);
}

#[test]
fn a_graphite_that_closes_at_once_delays_nothing() {
    let mut settings = Settings::new();
    let mut queue = Queue::new("graphite");
    let listener = listen();
    let port = port(&listener);
    closing(&listener, true, |closed| {
        let before = logged("tcp", port);
        settings.send_to(port, "tcp", "xqueue");
        wait_until("several connections have been closed", || {
            delayed_task_comes(&mut queue);
            closed.load(Ordering::Relaxed) > 1
        });
        wait_until("the log tells of this Graphite", || logged("tcp", port) > before);
        assert_eq!(logged("tcp", port), before + 1, "lines in the log");
    });
}
