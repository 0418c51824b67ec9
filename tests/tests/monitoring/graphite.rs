//! Metrics in a real Graphite, and in fake ones: dead, full, not reading, or closing each connection.

mod carbon;
mod fakes;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use carbon::Carbon;
use fakes::{accept, closing, connections_to, fill, listen, port, vanish};
use xqueue_tests::*;

const STATES: [&str; 6] = ["ready", "taken", "waiting", "buried", "zombie", "done"];

/// A server that sends metrics five times a second, and its queue `jobs`.
struct Sender {
    queue: Queue,
    // Dropped after the queue.
    server: Cluster,
}

impl Sender {
    fn new() -> Sender {
        let server = Cluster::new("xqueue.graphite_interval = '200ms'\n");
        let delayed = json!({"features": {"delayed": true}});
        let queue = Queue::make_at(server.config(), "jobs", COLUMNS, &delayed);
        Sender { queue, server }
    }

    fn set(&mut self, name: &str, value: &str) {
        self.queue.sql(&format!("ALTER SYSTEM SET xqueue.graphite_{name} = '{value}'"));
    }

    fn reload(&mut self) {
        self.queue.sql("SELECT pg_reload_conf()");
    }

    fn send_to(&mut self, port: u16, protocol: &str, prefix: &str) {
        let port = port.to_string();
        let host = "127.0.0.1";
        for (name, value) in
            [("prefix", prefix), ("protocol", protocol), ("port", &port), ("host", host)]
        {
            self.set(name, value);
        }
        self.reload();
    }

    /// Returns the number of lines in the server's log that name a Graphite.
    fn logged(&self, port: u16) -> usize {
        let words = format!("Graphite at tcp://127.0.0.1:{port}");
        self.server.log().lines().filter(|line| line.contains(&words)).count()
    }

    fn delayed_task_comes(&mut self) {
        let task = self.queue.ask_one("SELECT xqueue.put('{q}', '{}', '200ms')");
        let taken = self.queue.ask("SELECT xqueue.take('{q}', '10s')");
        assert_eq!(taken.first().map(id), Some(id(&task)), "a delayed task comes");
        self.queue.sql(&format!("SELECT xqueue.ack('{{q}}', {})", id(&task)));
    }

    /// Asserts that a failed attempt delays no task. A worker that waited for the end of the attempt would promote no
    /// task meanwhile.
    #[track_caller]
    fn one_line_and_no_delay(&mut self, graphite: &TcpListener) {
        let port = port(graphite);
        let others = connections_to(port);
        self.send_to(port, "tcp", "xqueue");
        let mut last = BTreeSet::new();
        wait_until("a delayed task has come during an attempt to reach Graphite", || {
            self.delayed_task_comes();
            let now = &connections_to(port) - &others;
            let has_outlasted = !now.is_disjoint(&last);
            last = now;
            has_outlasted
        });
        wait_until("the log tells of this Graphite", || self.logged(port) > 0);
        assert_eq!(self.logged(port), 1, "lines in the log");
    }
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

#[test]
fn tcp_values_of_every_state_tube_database_and_name() {
    let carbon = Carbon::start();
    let mut sender = Sender::new();
    let mut c = sender.queue.client();
    sender
        .queue
        .sql("SELECT xqueue.put('{q}', '[{}, {}, {}, {}]'); SELECT xqueue.put('{q}', '{}', '1h')");
    let task = take(&mut c, "jobs", "0", 1);

    let make = |database: &str, name: &str, options: &Value| {
        let config = sender.server.config().dbname(database).clone();
        Queue::make_at(config, name, COLUMNS, options)
    };
    let mut odd = make("postgres", r#""Заказы, срочные""#, &json!({}));
    odd.fill(7);
    drop(sender.server.new_database("other"));
    let mut elsewhere = make("other", "elsewhere", &json!({}));
    elsewhere.fill(5);
    let mut tubes = make("postgres", "tubes", &json!({"tube_stats": ["", "a.b"]}));
    tubes.sql("SELECT xqueue.put('{q}', '[{}, {}]', tube => 'a.b')");

    sender.send_to(carbon.port, "tcp", "it");
    for (state, value) in STATES.iter().zip([3.0, 1.0, 1.0, 0.0, 0.0, 0.0]) {
        wait_for_value(&carbon, &format!("it.postgres.public.jobs.{state}"), value);
    }
    let (time, _) = carbon.last("it.postgres.public.jobs.ready").expect("it was just seen");
    assert!(now().abs_diff(time) < 30, "the time is of now: {time}");
    assert_eq!(ack(&mut c, "jobs", id(&task[0])).len(), 1);
    for (metric, value) in [
        ("postgres.public.jobs.taken", 0.0),
        ("postgres.public._______________-f112edfa.ready", 7.0),
        ("other.public.elsewhere.ready", 5.0),
        ("postgres.public.tubes.calls.put", 2.0),
        ("postgres.public.tubes.tubes.a_b-108bf50c.ready", 2.0),
        ("postgres.public.tubes.tubes._-811c9dc5.ready", 0.0),
    ] {
        wait_for_value(&carbon, &format!("it.{metric}"), value);
    }
}

#[test]
fn reload_changes_protocol_and_prefix_and_switches_off() {
    let carbon = Carbon::start();
    let mut sender = Sender::new();
    sender.queue.fill(2);
    let (first, second) = ("first.postgres.public.jobs.ready", "second.postgres.public.jobs.ready");

    sender.send_to(carbon.port, "tcp", "first");
    wait_for_value(&carbon, first, 2.0);
    sender.send_to(carbon.port, "udp", "second");
    wait_for_value(&carbon, second, 2.0);
    // Values of the first prefix can still be on their way. Later values of the second prefix show that no more will
    // come.
    let seen = now();
    wait_until("values of later seconds", || {
        carbon.last(second).is_some_and(|(time, _)| time > seen + 1)
    });
    assert!(carbon.last(first).is_some_and(|(time, _)| time <= seen));

    let listener = listen();
    sender.send_to(port(&listener), "tcp", "first");
    let (stream, _) = accept(&listener);
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).expect("a line");
    assert!(line.starts_with("first.") && line.split(' ').count() == 3, "{line}");
    sender.set("host", "");
    sender.reload();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("the connection is closed when the host is taken away");
}

#[test]
fn a_graphite_that_dies_delays_nothing_and_is_found_again() {
    let mut carbon = Carbon::start();
    let mut sender = Sender::new();
    let port = carbon.port;
    let metric = "dies.postgres.public.jobs.buried";
    sender.queue.sql("INSERT INTO {q} (status) VALUES ('B')");
    sender.send_to(port, "tcp", "dies");
    wait_for_value(&carbon, metric, 1.0);
    wait_until("the log names Graphite", || sender.logged(port) == 1);

    carbon.kill();
    wait_until("the log tells that Graphite is dead", || sender.logged(port) == 2);
    // Each task takes as long as its delay, so attempts to reconnect happen meanwhile.
    (0..16).for_each(|_| sender.delayed_task_comes());
    assert_eq!(sender.logged(port), 2, "lines in the log for one death");

    let back = now();
    carbon.restart();
    wait_until("values arrive again", || carbon.last(metric).is_some_and(|(time, _)| time > back));
    wait_until("the log tells that Graphite is back", || sender.logged(port) == 3);
}

#[test]
fn a_deaf_graphite_delays_nothing() {
    let mut sender = Sender::new();
    let full = listen();
    let fillers = fill(&full);
    sender.one_line_and_no_delay(&full);
    drop(fillers);
    let never_reads = listen();
    sender.one_line_and_no_delay(&never_reads);
}

/// The metrics worker reacts to the postmaster's signals during every wait.
#[test]
fn no_graphite_delays_a_fast_shutdown() {
    let server = Cluster::new("xqueue.graphite_interval = '100ms'\n");
    server.client().run("SELECT xqueue.create('jobs')");
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
    for (host, port, words) in [
        ("127.0.0.1", closed, "Connection refused"),
        ("no-such-host.invalid", 2003, "cannot resolve the host name"),
    ] {
        start(host, port);
        log_says(host, port, words);
        stop(words);
    }
}

/// The network disappears silently: the kernel gives the connection up after five seconds.
#[test]
fn a_graphite_that_vanishes_delays_nothing_and_is_found_again() {
    let mut sender = Sender::new();
    let listener = listen();
    let port = port(&listener);
    // Lines alternate: Graphite is reachable, then it is gone, and so on.
    let is_there = |sender: &Sender| sender.logged(port) % 2 == 1;
    sender.send_to(port, "tcp", "xqueue");
    let mut vanished = Vec::new();
    wait_until("a delayed task has come before a connection is given up", || {
        let (stream, near_end) = accept(&listener);
        wait_until("the log tells of this Graphite", || is_there(&sender));
        vanish(&stream);
        vanished.push(stream);
        sender.delayed_task_comes();
        connections_to(port).contains(&near_end.port())
    });
    wait_until("the log tells that Graphite is gone", || !is_there(&sender));
    let (stream, _) = accept(&listener);
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("a line");
    assert!(line.starts_with("xqueue."), "{line}");
    wait_until("the log tells that Graphite is back", || is_there(&sender));
}

#[test]
fn a_graphite_that_closes_at_once_delays_nothing() {
    let mut sender = Sender::new();
    let listener = listen();
    let port = port(&listener);
    let closed = closing(listener);
    sender.send_to(port, "tcp", "xqueue");
    wait_until("several connections have been closed", || {
        sender.delayed_task_comes();
        closed.load(Ordering::Relaxed) > 1
    });
    wait_until("the log tells of this Graphite", || sender.logged(port) > 0);
    assert_eq!(sender.logged(port), 1, "lines in the log");
}
