//! The server under test, killed, stopped and started by a test that has it alone.

use std::path::PathBuf;

use postgres::Client;

use crate::client::{connect, database, try_connect, wait_until};
use crate::command::{path, server_command};
use crate::turn::alone;

pub struct Server {
    bin: PathBuf,
    data: PathBuf,
}

impl Server {
    /// Waits until no other test of this program uses the server.
    #[track_caller]
    pub fn alone() -> Server {
        alone();
        let server = Server { bin: path("XQUEUE_PGBIN"), data: path("XQUEUE_PGDATA") };
        if try_connect(&database()).is_err() {
            server.pg_ctl(&["restart"]);
        }
        server.wait_ready();
        server
    }

    fn pg_ctl(&self, args: &[&str]) {
        let log = std::env::var("XQUEUE_LOG")
            .unwrap_or_else(|_| self.data.join("server.log").display().to_string());
        let data = self.data.display().to_string();
        server_command(self.bin.join("pg_ctl"))
            .args(["-D", &data, "-w", "-s", "-t", "60", "-l", &log])
            .args(args)
            .succeed();
    }

    /// Restarts the server in this mode, with the options it had.
    pub fn restart(&self, mode: &str) {
        self.pg_ctl(&["-m", mode, "restart"]);
        self.wait_ready();
    }

    /// Restarts the server with command-line settings, `-c name=value`, which last as long as the returned value.
    pub fn with_options(&self, options: &str) -> WithOptions<'_> {
        self.pg_ctl(&["-m", "fast", "-o", options, "restart"]);
        self.wait_ready();
        WithOptions(self)
    }

    /// Sends SIGKILL to one backend: the postmaster ends all others and restarts by itself. Returns when it runs again.
    pub fn kill_backend(&self, pid: i32) {
        let started = checkpointer(&mut connect());
        server_command("kill").args(["-9", &pid.to_string()]).succeed();
        wait_until("the server has restarted itself", || {
            let Ok(mut c) = try_connect(&database()) else {
                return false;
            };
            // A backend from before the crash can still have accepted the connection.
            matches!(checkpointer(&mut c), Some(at) if Some(&at) != started.as_ref())
        });
        self.wait_ready();
    }

    pub fn wait_ready(&self) {
        wait_until("the server is ready", || {
            let Ok(mut c) = try_connect(&database()) else {
                return false;
            };
            let state = c.query_one("SELECT xqueue.state()", &[]);
            matches!(state, Ok(row) if row.get::<_, &str>(0) == "RUNNING")
        });
    }
}

/// A server that runs with other settings until this is dropped.
pub struct WithOptions<'a>(&'a Server);

impl Drop for WithOptions<'_> {
    fn drop(&mut self) {
        self.0.pg_ctl(&["-m", "fast", "-o", "", "restart"]);
        self.0.wait_ready();
    }
}

/// Returns the checkpointer; every crash restart starts a new one.
fn checkpointer(c: &mut Client) -> Option<String> {
    let sql = "SELECT pid || ' ' || backend_start FROM pg_stat_activity WHERE backend_type = 'checkpointer'";
    c.query_opt(sql, &[]).ok().flatten().map(|row| row.get(0))
}
