//! A PgBouncer for one test, in front of the server under test.

use std::path::PathBuf;

use xqueue_tests::{Client, Config, config_at, database, open, server_command, wait_until};

/// The port is only part of the socket's name.
pub const PORT: u16 = 6432;

pub struct Pooler {
    folder: PathBuf,
}

impl Pooler {
    /// Listens on a socket in its own folder, with a limit on connections to the server.
    pub fn start(mode: &str, connections: u32) -> Pooler {
        let folder = server_command("mktemp").args(["-d", "/tmp/xqueue-pooler.XXXXXX"]).output();
        let pooler = Pooler { folder: folder.into() };
        let configuration = pooler.configuration(mode, connections);
        let (write, file) = ("printf '%s' \"$1\" >\"$2\"", pooler.file("ini"));
        server_command("sh").args(["-c", write, "sh", &configuration, &file]).succeed();
        // Debian installs it here, and not every PATH contains this folder.
        server_command("/usr/sbin/pgbouncer").args(["-q", "-d", &file]).succeed();
        pooler
    }

    fn configuration(&self, mode: &str, connections: u32) -> String {
        let server =
            |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
        let (host, port) = (server("PGHOST"), server("PGPORT"));
        let (folder, log, pid) = (self.folder(), self.file("log"), self.file("pid"));
        format!(
            "[databases]\n\
             * = host={host} port={port} user=postgres\n\
             [pgbouncer]\n\
             pool_mode = {mode}\n\
             default_pool_size = {connections}\n\
             listen_port = {PORT}\n\
             unix_socket_dir = {folder}\n\
             auth_type = any\n\
             ignore_startup_parameters = options\n\
             logfile = {log}\n\
             pidfile = {pid}\n"
        )
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    pub fn folder(&self) -> String {
        self.folder.display().to_string()
    }

    pub fn config(&self) -> Config {
        config_at(&self.folder(), PORT, &database())
    }

    pub fn client(&self) -> Client {
        open(&self.config())
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // Immediate shutdown, without waiting for clients.
        server_command("sh").args(["-c", "kill $(cat \"$0\")", &self.file("pid")]).attempt();
        if std::thread::panicking() {
            let log = server_command("cat").args([self.file("log")]).output();
            eprintln!("the log of PgBouncer:\n{log}");
        } else {
            let pid = self.folder.join("pid");
            wait_until("PgBouncer has ended", || !pid.exists());
        }
        server_command("rm").args(["-rf".as_ref(), self.folder.as_os_str()]).attempt();
    }
}
