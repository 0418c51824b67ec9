//! A server of the test's own: a primary, or the standby of one. It listens on a socket in its own folder. Both are
//! removed when the value goes out of scope.

use std::path::{Path, PathBuf};

use postgres::{Client, Config};

use crate::client::{config_at, open, scalar, wait_until};
use crate::command::{ServerCommand, path, server_command};
use crate::workers::wait_running;

/// The port only names the socket.
const PORT: u16 = 5432;
const SETTINGS: &str = "shared_preload_libraries = 'xqueue'\nlisten_addresses = ''\nfsync = off\n\
                        max_prepared_transactions = 10\nmax_worker_processes = 16\nmax_connections = 50\n";

pub struct Cluster {
    folder: PathBuf,
    bin: PathBuf,
    environment: &'static [(&'static str, &'static str)],
}

impl Cluster {
    /// Starts a new server with the extension in its database "postgres".
    pub fn new(settings: &str) -> Cluster {
        Cluster::new_in("/tmp".as_ref(), settings)
    }

    /// Makes a cluster in a subfolder of `parent`, which the servers' user can write.
    pub fn new_in(parent: &Path, settings: &str) -> Cluster {
        Cluster::in_new_folder(parent, path("XQUEUE_PGBIN")).set_up(settings)
    }

    /// Makes a cluster whose server has these environment variables.
    pub fn with_environment(
        settings: &str,
        environment: &'static [(&'static str, &'static str)],
    ) -> Cluster {
        let mut cluster = Cluster::in_new_folder("/tmp".as_ref(), path("XQUEUE_PGBIN"));
        cluster.environment = environment;
        cluster.set_up(settings)
    }

    fn set_up(self, settings: &str) -> Cluster {
        self.initdb(settings);
        self.start();
        self.client().batch_execute("CREATE EXTENSION xqueue").expect("the extension");
        self
    }

    /// Starts a primary and a standby that follows it.
    pub fn with_standby() -> (Cluster, Cluster) {
        let primary = Cluster::new("");
        primary.wait_running();
        let standby = primary.standby();
        (primary, standby)
    }

    /// Makes a folder for a server whose programs are in `bin`.
    fn in_new_folder(parent: &Path, bin: PathBuf) -> Cluster {
        let name = parent.join("xqueue-cluster.XXXXXX");
        let folder = server_command("mktemp").args(["-d".as_ref(), name.as_os_str()]).output();
        Cluster { folder: folder.into(), bin, environment: &[] }
    }

    /// Makes the data folder: a copy of the one that `pgrx-embed/test` has made, which takes an eighth of initdb's time.
    fn initdb(&self, settings: &str) {
        let data = self.data();
        if let Some(template) = std::env::var_os("XQUEUE_TEMPLATE") {
            server_command("cp").args(["-a".as_ref(), &*template, data.as_ref()]).succeed();
        } else {
            let locale = ["--no-sync", "-A", "trust", "--locale=C.UTF-8", "-E", "UTF8"];
            self.program("initdb").args(["-U", "postgres", "-D", &data]).args(locale).succeed();
        }
        self.configure(&format!("{SETTINGS}{settings}"));
    }

    /// Adds lines to the configuration.
    pub fn configure(&self, settings: &str) {
        let append = "printf '%s\n' \"$1\" >>\"$2\"";
        let file = format!("{}/postgresql.conf", self.data());
        server_command("sh").args(["-c", append, "sh", settings, &file]).succeed();
    }

    /// Lets hosts with these addresses connect.
    pub fn allow_hosts(&self, addresses: &str) {
        let append = "echo \"host all all $1 trust\" >>\"$2\"";
        let file = format!("{}/pg_hba.conf", self.data());
        server_command("sh").args(["-c", append, "sh", addresses, &file]).succeed();
        self.pg_ctl(&["reload"]).succeed();
    }

    /// Starts a standby that follows this server.
    pub fn standby(&self) -> Cluster {
        let parent = self.folder.parent().unwrap_or(Path::new("/tmp"));
        let standby = Cluster::in_new_folder(parent, self.bin.clone());
        let (source, data) = (self.folder(), standby.data());
        let from = ["-h", &source, "-p", &PORT.to_string(), "-U", "postgres"];
        let copy = ["-D", &data, "-R", "-c", "fast", "--no-sync"];
        self.program("pg_basebackup").args(from).args(copy).succeed();
        standby.start();
        standby
    }

    fn program(&self, name: &str) -> ServerCommand {
        server_command(self.bin.join(name))
    }

    /// Returns the folder of its files and its socket.
    pub fn folder(&self) -> String {
        self.folder.display().to_string()
    }

    fn data(&self) -> String {
        self.folder.join("data").display().to_string()
    }

    fn pg_ctl(&self, action: &[&str]) -> ServerCommand {
        let log = self.folder.join("log").display().to_string();
        self.program("pg_ctl").args(["-D", &self.data(), "-w", "-s", "-l", &log]).args(action)
    }

    pub fn start(&self) {
        assert!(self.try_start(), "the server in {} starts", self.folder.display());
    }

    /// Returns false if the server does not start: processes of its last run are still alive, or its disk is full.
    pub fn try_start(&self) -> bool {
        let socket = format!("-k {} -p {PORT}", self.folder.display());
        self.pg_ctl(&["-o", &socket, "start"]).environment(self.environment).works()
    }

    /// Returns whether a postmaster runs.
    pub fn runs(&self) -> bool {
        self.pg_ctl(&["status"]).works()
    }

    /// Sends SIGKILL to the postmaster; its children end when they notice.
    pub fn kill(&self) {
        let file = format!("{}/postmaster.pid", self.data());
        let pid = server_command("head").args(["-n", "1", &file]).output();
        server_command("kill").args(["-9", &pid]).succeed();
    }

    pub fn stop(&self, mode: &str) {
        self.pg_ctl(&["-m", mode, "stop"]).succeed();
    }

    /// Waits until this standby has replayed all that its primary has written so far.
    #[track_caller]
    pub fn catch_up(&self, primary: &Cluster) {
        let written: String =
            scalar(&mut primary.client(), "SELECT pg_current_wal_flush_lsn()::text", &[]);
        let replayed = "SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn";
        let mut standby = self.client();
        wait_until("the standby has replayed", || scalar(&mut standby, replayed, &[&written]));
    }

    /// Waits until the worker of the database "postgres" is running.
    #[track_caller]
    pub fn wait_running(&self) {
        wait_running(&mut self.client());
    }

    /// Promotes a standby. It accepts writes when this returns.
    pub fn promote(&self) {
        self.pg_ctl(&["promote"]).succeed();
    }

    pub fn config(&self) -> Config {
        config_at(&self.folder(), PORT, "postgres")
    }

    pub fn client(&self) -> Client {
        open(&self.config())
    }

    /// Makes a database with the extension, and connects to it.
    #[track_caller]
    pub fn new_database(&self, name: &str) -> Client {
        self.client().batch_execute(&format!("CREATE DATABASE {name}")).expect("a database");
        let mut client = open(self.config().dbname(name));
        client.batch_execute("CREATE EXTENSION xqueue").expect("the extension");
        client
    }

    /// Asserts that the log has no crash and no message of xqueue.
    #[track_caller]
    pub fn assert_quiet(&self) {
        let log = self.log();
        let wrong = ["PANIC", "TRAP", "terminated by signal", "xqueue:"];
        let found = log.lines().find(|line| wrong.iter().any(|word| line.contains(word)));
        assert_eq!(found, None, "in the log");
    }

    /// Returns the server's log.
    pub fn log(&self) -> String {
        server_command("cat").args([self.folder.join("log")]).output()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the log of a server in {}:\n{}", self.folder.display(), self.log());
        }
        // The server can be stopped already.
        self.pg_ctl(&["-m", "immediate", "stop"]).attempt();
        server_command("rm").args(["-rf".as_ref(), self.folder.as_os_str()]).succeed();
    }
}
