//! Helpers shared by the Rust programs: unnumbered TAP lines, a consumer's work, PgBouncer's address.

use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::process::Command;
use std::time::Duration;

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
    pub stopped: bool,
}

impl Work {
    pub async fn begin(table: &'static str) -> Result<Self> {
        let mut work = Work { table, stopped: false };
        work.attempt("begin").await?;
        Ok(work)
    }

    pub async fn attempt(&mut self, step: &str) -> Result {
        let mut attempt = Command::new(env("XQUEUE_ATTEMPT")).args([self.table, step]).spawn()?;
        // Meanwhile a pool can give back tasks.
        let status = loop {
            match attempt.try_wait()? {
                Some(status) => break status,
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        self.stopped = step == "c";
        if status.success() { Ok(()) } else { Err("the work failed".into()) }
    }
}

pub const LOOP: &str = "a consumer's loop outlives a restart, a task taken away and failures, \
    and gives back what it has not begun";
pub const PGBOUNCER: &str = "through PgBouncer, take and ack in one transaction";

/// Runs a test. It fails by returning an error, by a panic, or by leaving a task in the table.
pub async fn test(table: &str, name: &str, test: impl Future<Output = Result>) {
    let outcome = AssertUnwindSafe(test).catch_unwind().await;
    let delete = format!("DELETE FROM {table} RETURNING *");
    let left = Command::new("psql").args(["-XAtqc", &delete]).output().expect("psql runs");
    match outcome {
        Ok(Ok(())) if left.status.success() && left.stdout.is_empty() => println!("ok - {name}"),
        Ok(outcome) => println!("not ok - {name}\n{outcome:?}\n{left:?}"),
        Err(_) => println!("not ok - {name}"), // the panic has printed why
    }
}
