//! What the Rust programs share: tests that print TAP lines without numbers, the server's restart, PgBouncer.

use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;

pub type Result<T = (), E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// The environment's variable, which has to be there.
pub fn env(name: &str) -> String {
    std::env::var(name).expect(name)
}

/// Host and port of the server, or of PgBouncer in transaction mode in front of it.
pub fn server() -> (String, u16) {
    (env("PGHOST"), env("PGPORT").parse().expect("a port"))
}

pub fn pooler() -> (String, u16) {
    (env("POOLER_HOST"), env("POOLER_PORT").parse().expect("a port"))
}

#[derive(Debug)]
pub struct WorkFailed;

/// The work of a consumer that is to be tested with the tasks a, b, c. The first attempt at a loses the server, which
/// is restarted, the second one fails. At b the consumer is asked to stop.
pub struct Work {
    restart: Option<String>,
    pub urls: String,
    pub stopped: bool,
}

impl Work {
    #[expect(clippy::new_without_default, reason = "it reads the environment")]
    pub fn new() -> Self {
        Work { restart: std::env::var("XQUEUE_RESTART").ok(), urls: String::new(), stopped: false }
    }

    /// Where the server cannot be restarted, the first attempt fails.
    pub fn expected(&self) -> &'static str {
        if self.restart.is_some() { "aab" } else { "ab" }
    }

    pub async fn attempt(&mut self, url: &str) -> Result<(), WorkFailed> {
        self.urls.push_str(url);
        self.stopped = self.urls.len() == self.expected().len();
        match &self.restart {
            _ if self.stopped => Ok(()),
            Some(restart) if self.urls.len() == 1 => {
                let status = std::process::Command::new(restart).status().expect("it runs");
                assert!(status.success(), "the server restarts");
                Ok(())
            }
            _ => Err(WorkFailed),
        }
    }
}

/// Runs a test, which fails with an error or in a panic.
pub async fn test(name: &str, test: impl Future<Output = Result>) {
    match AssertUnwindSafe(test).catch_unwind().await {
        Ok(Ok(())) => println!("ok - {name}"),
        Ok(Err(error)) => println!("not ok - {name}\n{error:?}"),
        Err(_) => println!("not ok - {name}"), // the panic has printed why
    }
}
