//! Controls the server: other settings, stop, kill, start.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use postgres::Client;

use crate::effort::Effort;
use crate::{Result, database};

const LOOK: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(120);
/// A database that is not measured.
const MAINTENANCE: &str = "postgres";

/// The mode of a stop by `pg_ctl`.
#[derive(Clone, Copy)]
pub enum Stop {
    Fast,
    /// Like a crash.
    Immediate,
}

impl Stop {
    pub fn name(self) -> &'static str {
        match self {
            Stop::Fast => "fast",
            Stop::Immediate => "immediate",
        }
    }
}

pub struct Server {
    /// The command, with the server's data folder.
    pg_ctl: String,
}

impl Server {
    pub fn of(effort: &Effort) -> Result<Server> {
        let pg_ctl = effort.pg_ctl.clone().ok_or("the cases many-… need --pg-ctl")?;
        Ok(Server { pg_ctl })
    }

    /// Runs `what` with these settings, which need a restart, and then restores the server's own.
    pub fn with_settings<T>(
        &self,
        settings: &[(&str, u32)],
        what: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.configure(settings)?;
        let outcome = what();
        self.configure(&[])?;
        outcome
    }

    /// Restarts the server with its own settings, except these.
    pub fn configure(&self, settings: &[(&str, u32)]) -> Result<()> {
        let mut db = connect(MAINTENANCE)?;
        db.batch_execute("ALTER SYSTEM RESET ALL")?;
        for (name, value) in settings {
            db.batch_execute(&format!("ALTER SYSTEM SET {name} = {value}"))?;
        }
        drop(db);
        self.restart(Stop::Fast).map(drop)
    }

    /// Returns the instant at which the server accepted connections again, and the time since its start.
    pub fn restart(&self, stop: Stop) -> Result<(Instant, Duration)> {
        self.call(&format!("-m {} -w stop", stop.name()))?;
        let begin = Instant::now();
        self.call("-W start")?;
        while connect(MAINTENANCE).is_err() {
            if begin.elapsed() > PATIENCE {
                return Err("the server does not start".into());
            }
            sleep(LOOK);
        }
        let now = Instant::now();
        Ok((now, now - begin))
    }

    fn call(&self, arguments: &str) -> Result<()> {
        let command = format!("{} {arguments}", self.pg_ctl);
        // The started server must not keep our output open.
        let status = Command::new("sh").args(["-c", &command]).stdout(Stdio::null()).status()?;
        if status.success() { Ok(()) } else { Err(format!("{command}: {status}").into()) }
    }
}

pub fn connect(database: &str) -> Result<Client> {
    database::connect_to(database, "xqueue measure")
}

/// A database for one case, with the extension, dropped at the end.
pub struct Scratch {
    pub name: String,
}

impl Scratch {
    pub fn create(name: &str) -> Result<Scratch> {
        let scratch = Scratch { name: name.into() };
        scratch.remove()?;
        connect(MAINTENANCE)?.batch_execute(&format!("CREATE DATABASE {name}"))?;
        scratch.connect()?.batch_execute("CREATE EXTENSION xqueue")?;
        Ok(scratch)
    }

    pub fn connect(&self) -> Result<Client> {
        connect(&self.name)
    }

    fn remove(&self) -> Result<()> {
        let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        Ok(connect(MAINTENANCE)?.batch_execute(&drop)?)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover database is removed before the next use.
        drop(self.remove());
    }
}
