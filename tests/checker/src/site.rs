//! The server under fault injection, its disk, and its logs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use xqueue_tests::Cluster;

use crate::connection;
use crate::fleet::Fleet;
use crate::server_log;

const SETTINGS: [&str; 9] = [
    server_log::PREFIX,
    "log_checkpoints = off",
    "max_wal_size = 256MB",
    "checkpoint_timeout = 30s",
    "autovacuum_naptime = 5s",
    "deadlock_timeout = 200ms",
    "xqueue.session_grace = 0",
    "work_mem = 8MB",
    // Workers of the databases, workers that run triggers, and workers of parallel queries.
    "max_worker_processes = 32",
];
/// The size of the disk in MB.
const SIZE: u64 = 3000;
/// A server that has not returned within this time is lost.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Site {
    /// The server that is the primary now.
    cluster: Cluster,
    /// Dropped after the servers, whose folders are on it.
    disk: Result<Disk, String>,
    pub folder: PathBuf,
    /// Logs of removed servers.
    old_logs: String,
}

impl Site {
    pub fn new(folder: &Path) -> Site {
        let disk = Disk::mount(&folder.join("disk"));
        let parent = disk.as_ref().map_or("/tmp".into(), |disk| disk.0.clone());
        let cluster = Cluster::new_in(&parent, &SETTINGS.join("\n"));
        let site = Site { cluster, disk, folder: folder.to_owned(), old_logs: String::new() };
        site.publish();
        site
    }

    /// Publishes the folder of the server's socket to the clients.
    fn publish(&self) {
        let file = Fleet::address(&self.folder);
        let new = file.with_extension("new");
        std::fs::write(&new, self.cluster.folder()).expect("the address can be written");
        std::fs::rename(&new, &file).expect("the address can be replaced");
    }

    pub fn try_client(&self) -> Result<Client, postgres::Error> {
        connection::config(&self.cluster.folder(), "checker").connect(NoTls)
    }

    /// Returns a connection as soon as one is possible; starts the server if it does not run.
    pub fn client(&self) -> Client {
        let begun = Instant::now();
        loop {
            match self.try_client() {
                Ok(client) => return client,
                Err(e) => {
                    assert!(begun.elapsed() < PATIENCE, "the server does not come back: {e:?}")
                }
            }
            if begun.elapsed() > Duration::from_secs(1) && !self.cluster.runs() {
                self.cluster.try_start();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Runs SQL once in a transaction of its own. Faults' DDL can fail because of the clients.
    pub fn sql(&self, sql: &str) -> Result<(), String> {
        let mut client = self.client();
        client.batch_execute("SET lock_timeout = '5s'").map_err(|e| e.to_string())?;
        client.batch_execute(sql).map_err(|e| {
            let code = e.code().map_or("lost", |code| code.code()).to_owned();
            format!("{code} {}", e.as_db_error().map_or("", |error| error.message()))
        })
    }

    /// Returns the PID of a random process, None if no process matches.
    pub fn pid(&self, condition: &str) -> Option<i32> {
        let sql = format!(
            "SELECT pid FROM pg_stat_activity WHERE {condition} AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1"
        );
        self.client().query_opt(&sql, &[]).ok().flatten().map(|row| row.get(0))
    }

    pub fn stop(&self, mode: &str) {
        self.cluster.stop(mode);
    }

    pub fn kill_postmaster(&self) {
        self.cluster.kill();
    }

    /// Makes a synchronous standby, stops the primary, and promotes the standby.
    pub fn fail_over(&mut self) {
        let standby = self.cluster.standby();
        let mut client = self.client();
        let setting = "ALTER SYSTEM SET synchronous_standby_names = '*'";
        client.batch_execute(setting).expect("the setting is written");
        client.batch_execute("SELECT pg_reload_conf()").expect("the settings are read");
        let is_synchronous =
            "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')";
        xqueue_tests::wait_until("the standby is synchronous", || {
            client.query_one(is_synchronous, &[]).is_ok_and(|row| row.get(0))
        });
        // From now on commits wait for the standby; earlier commits reach it within this sleep.
        std::thread::sleep(Duration::from_millis(1500));
        standby.catch_up(&self.cluster);
        drop(client);
        self.cluster.stop("immediate");
        standby.promote();
        let old = std::mem::replace(&mut self.cluster, standby);
        self.old_logs += &old.log();
        drop(old);
        // The new primary has no standby yet, so no commit returns before this reset.
        for sql in ["ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"] {
            self.client().batch_execute(sql).expect("the new primary takes settings");
        }
        self.publish();
    }

    pub fn disk(&self) -> Result<&Disk, String> {
        self.disk.as_ref().map_err(Clone::clone)
    }

    pub fn log(&self) -> String {
        format!("{}{}", self.old_logs, self.cluster.log())
    }
}

/// A file system in memory.
pub struct Disk(PathBuf);

impl Disk {
    fn mount(at: &Path) -> Result<Disk, String> {
        std::fs::create_dir(at).map_err(|e| e.to_string())?;
        let size = format!("size={SIZE}m,mode=1777");
        let arguments = ["-t", "tmpfs", "-o", &size, "tmpfs"];
        let done = Command::new("mount").args(arguments).arg(at).stderr(Stdio::piped()).output();
        match done {
            Ok(output) if output.status.success() => Ok(Disk(at.to_owned())),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(e) => Err(e.to_string()),
        }
    }

    /// Fills the disk by shrinking it to its used size. Returns false if that is impossible.
    pub fn fill(&self) -> bool {
        let Ok(output) = Command::new("df").args(["--output=used", "-k"]).arg(&self.0).output()
        else {
            return false;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let used: Option<u64> = text.lines().nth(1).and_then(|line| line.trim().parse().ok());
        used.is_some_and(|used| self.resize(&format!("{}k", used + 64)))
    }

    pub fn empty(&self) {
        assert!(self.resize(&format!("{SIZE}m")), "{} has its size again", self.0.display());
    }

    fn resize(&self, size: &str) -> bool {
        let options = format!("remount,size={size}");
        let done = Command::new("mount").args(["-o", &options]).arg(&self.0).status();
        done.is_ok_and(|status| status.success())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A mount that is left is visible and harmless.
        drop(Command::new("umount").arg(&self.0).status());
    }
}
