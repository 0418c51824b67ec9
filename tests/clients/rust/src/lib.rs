//! Helpers shared by the Rust programs: unnumbered TAP lines, a consumer's work, PgBouncer's address.

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

/// The work of a consumer under test, which the program `attempt` does. At c the consumer is asked to stop.
pub struct Work {
    table: &'static str,
    pub urls: String,
    pub stopped: bool,
}

impl Work {
    pub fn new(table: &'static str) -> Self {
        Work { table, urls: String::new(), stopped: false }
    }

    pub async fn attempt(&mut self, url: &str) -> Result {
        self.urls.push_str(url);
        self.stopped = url == "c";
        let attempt = Command::new(env("XQUEUE_ATTEMPT")).args([self.table, &self.urls]).status()?;
        if attempt.success() { Ok(()) } else { Err("the work failed".into()) }
    }
}

/// Runs a test. It fails by returning an error or by a panic.
pub async fn test(name: &str, test: impl Future<Output = Result>) {
    match AssertUnwindSafe(test).catch_unwind().await {
        Ok(Ok(())) => println!("ok - {name}"),
        Ok(Err(error)) => println!("not ok - {name}\n{error:?}"),
        Err(_) => println!("not ok - {name}"), // the panic has printed why
    }
}
