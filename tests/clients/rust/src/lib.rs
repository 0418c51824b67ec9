//! What the Rust programs share: tests that print TAP lines without numbers.

use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;

pub type Result<T = (), E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// A schema for the tables of one run.
pub fn schema(client: &str) -> String {
    format!("{client}_{}", uuid::Uuid::new_v4().simple())
}

/// Runs a test, which fails with an error or in a panic.
pub async fn test(name: &str, test: impl Future<Output = Result>) {
    match AssertUnwindSafe(test).catch_unwind().await {
        Ok(Ok(())) => println!("ok - {name}"),
        Ok(Err(error)) => println!("not ok - {name}\n{error:?}"),
        Err(_) => println!("not ok - {name}"), // the panic has printed why
    }
}
