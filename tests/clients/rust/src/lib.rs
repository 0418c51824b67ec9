//! Helpers shared by the Rust programs: unnumbered TAP lines, a restart of the server, PgBouncer's address.

use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::process::Command;

pub type Result<T = (), E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Returns an environment variable, and panics if it is not set.
pub fn env(name: &str) -> String {
    std::env::var(name).expect(name)
}

/// Host and port of the server. `pooler` returns those of the PgBouncer in transaction mode in front of it.
pub fn server() -> (String, u16) {
    (env("PGHOST"), env("PGPORT").parse().expect("a port"))
}

pub fn pooler() -> (String, u16) {
    (env("POOLER_HOST"), env("POOLER_PORT").parse().expect("a port"))
}

/// The work of a consumer under test, with the tasks a, b, c, d of a table. The first attempt at a restarts the server.
/// During the second attempt another consumer takes a away. b fails. At c the consumer is asked to stop.
pub struct Work {
    table: &'static str,
    restart: Option<String>,
    pub urls: String,
    pub stopped: bool,
}

impl Work {
    pub fn new(table: &'static str) -> Self {
        let restart = std::env::var("XQUEUE_RESTART").ok();
        Work { table, restart, urls: String::new(), stopped: false }
    }

    /// If the server cannot be restarted, the first attempt at a is the one that loses its task.
    pub fn expected(&self) -> &'static str {
        if self.restart.is_some() { "aabc" } else { "abc" }
    }

    /// A restart uses up an attempt, like the end of the consumer's session.
    pub fn left(&self) -> &'static str {
        match self.restart {
            Some(_) => "b R 2 the work failed, d R 1",
            None => "b R 1 the work failed, d R 0",
        }
    }

    pub async fn attempt(&mut self, url: &str) -> Result {
        self.urls.push_str(url);
        match (url, &self.restart) {
            ("a", Some(restart)) if self.urls == "a" => run(&mut Command::new(restart)),
            ("a", _) => run(Command::new(env("XQUEUE_TAKE_AWAY")).args([self.table, url])),
            ("b", _) => return Err("the work failed".into()),
            _ => self.stopped = true,
        }
        Ok(())
    }
}

fn run(command: &mut Command) {
    assert!(command.status().expect("it runs").success(), "{command:?}");
}

/// Runs a test. It fails by returning an error or by a panic.
pub async fn test(name: &str, test: impl Future<Output = Result>) {
    match AssertUnwindSafe(test).catch_unwind().await {
        Ok(Ok(())) => println!("ok - {name}"),
        Ok(Err(error)) => println!("not ok - {name}\n{error:?}"),
        Err(_) => println!("not ok - {name}"), // the panic has printed why
    }
}
