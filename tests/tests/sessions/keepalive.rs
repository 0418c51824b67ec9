//! Consumers whose host or network vanishes: `xqueue.consumer_keepalive` sets the TCP keepalive of their connections.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use postgres::NoTls;
use xqueue_tests::*;

const SHOWN: &str = "SELECT concat_ws(' ', current_setting('tcp_keepalives_idle'), current_setting('tcp_keepalives_interval'),
    current_setting('tcp_keepalives_count'), current_setting('tcp_user_timeout'))";

fn shown(c: &mut Client) -> String {
    scalar(c, SHOWN, &[])
}

/// A role that connects over TCP. The server allows that only with a password.
struct Remote {
    q: Queue,
    role: String,
}

impl Remote {
    fn new() -> Remote {
        let mut q = Queue::new("keepalive");
        let role = unique("keepalive");
        q.sql(&format!("CREATE ROLE {role} LOGIN PASSWORD 'p'; GRANT ALL ON {{q}} TO {role}"));
        q.sql("SELECT xqueue.put('{q}', '[{}, {}]')");
        Remote { q, role }
    }

    fn connect(&self, options: &str) -> Client {
        let port = std::env::var("PGPORT").unwrap().parse().unwrap();
        let mut config = config_at("127.0.0.1", port, &database());
        config.user(&self.role).password("p").options(options);
        config.connect(NoTls).unwrap()
    }

    /// Returns the values before and after a take.
    fn values(&self, options: &str) -> (String, String) {
        let mut c = self.connect(options);
        let before = shown(&mut c);
        take(&mut c, &self.q.name);
        (before, shown(&mut c))
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let Remote { q, role } = self;
        q.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
    }
}

fn take(c: &mut Client, queue: &str) {
    c.run(&format!("SELECT xqueue.take('{queue}')"));
}

#[test]
fn the_first_take_sets_the_keepalive_of_its_connection() {
    let remote = Remote::new();
    let (before, after) = remote.values("");
    assert_ne!(before, after);
    assert_eq!(after, "30 5 3 45000");
    assert_eq!(remote.values("-c xqueue.consumer_keepalive=2").1, "2 1 3 5000");
    assert_eq!(remote.values("-c xqueue.consumer_keepalive=1min").1, "60 10 3 90000");
    // A rollback leaves it.
    let mut c = remote.connect("");
    remote.q.run(&mut c, "BEGIN; SAVEPOINT s; SELECT xqueue.take('{q}'); ROLLBACK TO s; ROLLBACK");
    assert_eq!(shown(&mut c), "30 5 3 45000");
    // Connections of Unix sockets have no keepalive.
    let mut c = remote.q.client();
    take(&mut c, &remote.q.name);
    assert_eq!(shown(&mut c), "0 0 0 0");
}

#[test]
fn values_set_by_others_win() {
    let mut remote = Remote::new();
    let (before, after) = remote.values("-c xqueue.consumer_keepalive=0");
    assert_eq!(before, after, "the setting is off");
    let options = "-c tcp_keepalives_idle=77 -c tcp_user_timeout=0";
    let system: Vec<String> = before.split(' ').map(str::to_owned).collect();
    assert_eq!(remote.values(options).1, format!("77 5 3 {}", system[3]), "the client's values");
    let role = remote.role.clone();
    remote.q.sql(&format!("ALTER ROLE {role} SET tcp_keepalives_count = 9"));
    assert_eq!(remote.values("").1, "30 5 9 45000", "the role's values");
    let mut c = remote.connect("");
    c.run("SET tcp_keepalives_interval = 11");
    take(&mut c, &remote.q.name);
    assert_eq!(shown(&mut c), "30 11 9 45000", "the values of the session");
    c.run("RESET tcp_keepalives_interval; SET tcp_keepalives_idle = 12");
    assert_eq!(shown(&mut c), "12 5 9 45000", "later ones as well");
    c.run("DISCARD ALL");
    assert_eq!(shown(&mut c), "30 5 9 45000");
}

/// Another host: a network namespace, and the link to it.
struct Host {
    name: String,
    server: String,
}

impl Host {
    /// Returns None if this process must not make network namespaces.
    fn new() -> Option<Host> {
        let id = std::process::id();
        let name = format!("xq{id}");
        let [a, b] = [(id >> 8) as u8, id as u8 & 0xfc];
        let (server, client) = (format!("10.{a}.{b}.1"), format!("10.{a}.{b}.2"));
        if !ip(&["netns", "add", &name]) {
            return None;
        }
        let host = Host { name, server };
        let (name, outside) = (&host.name, format!("{}o", host.name));
        let is_linked =
            ip(&["link", "add", &outside, "type", "veth", "peer", "name", "in", "netns", name])
                && ip(&["addr", "add", &format!("{}/30", host.server), "dev", &outside])
                && ip(&["link", "set", &outside, "up"])
                && ip(&["-n", name, "addr", "add", &format!("{client}/30"), "dev", "in"])
                && ip(&["-n", name, "link", "set", "in", "up"]);
        is_linked.then_some(host)
    }

    /// Returns a client program of PostgreSQL that runs on this host.
    fn program(&self, name: &str) -> Command {
        let mut program = Command::new("ip");
        program
            .args(["netns", "exec", &self.name])
            .arg(format!("{}/{name}", std::env::var("XQUEUE_PGBIN").unwrap()))
            .args(["-h", &self.server, "-p", "5432", "-U", "postgres", "-d", "postgres"]);
        program
    }

    fn reaches_server(&self) -> bool {
        let is_ready = self.program("pg_isready").stdout(Stdio::null()).status();
        is_ready.is_ok_and(|status| status.success())
    }

    /// Starts psql on this host. It ends when its input does.
    fn psql(&self, script: &str) -> Child {
        let mut psql = self
            .program("psql")
            .arg("-X")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        psql.stdin.as_mut().unwrap().write_all(script.as_bytes()).unwrap();
        psql
    }

    /// No packet reaches this host any more, or comes from it.
    fn vanish(&self) {
        assert!(ip(&["-n", &self.name, "link", "set", "in", "down"]));
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        ip(&["link", "delete", &format!("{}o", self.name)]);
        ip(&["netns", "delete", &self.name]);
    }
}

fn ip(arguments: &[&str]) -> bool {
    let ip = Command::new("ip").args(arguments).stderr(Stdio::null()).status();
    ip.is_ok_and(|status| status.success())
}

#[test]
fn a_vanished_host_loses_its_tasks() {
    let Some(host) = Host::new() else {
        eprintln!("skipped: no permission to make network namespaces");
        return;
    };
    let server = Cluster::new(&format!("listen_addresses = '{}'\n", host.server));
    server.allow_hosts("10.0.0.0/8");
    server.wait_running();
    if !host.reaches_server() {
        eprintln!("skipped: network namespaces do not reach each other here");
        return;
    }
    let mut q = Queue::make_at(server.config(), "jobs", COLUMNS, &json!({}));
    put(&mut q.admin, "jobs", 1);
    let take = |timeout| {
        format!("SET xqueue.consumer_keepalive = '2s';\nSELECT xqueue.take('jobs'{timeout});\n")
    };
    let mut consumers = vec![host.psql(&take(""))];
    q.wait_for("taken", 1);
    consumers.push(host.psql(&take(", '50s'")));
    q.wait_for_consumers(1);
    host.vanish();
    // The consumer that waits does not get the task for good either.
    q.wait_for_consumers(0);
    q.wait_for("ready", 1);
    for mut consumer in consumers {
        consumer.kill().unwrap();
        consumer.wait().unwrap();
    }
}
