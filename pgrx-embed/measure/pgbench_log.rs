//! pgbench's log of each transaction.

use std::fs;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Result;

/// A folder for the logs of a run: pgbench writes one file for each of its threads.
pub struct Log(PathBuf);

/// A transaction of a client.
#[derive(Debug, PartialEq)]
pub struct Transaction {
    /// Its number among the client's transactions, counted from 0.
    pub place: u64,
    /// In microseconds.
    pub latency: f64,
    /// The time of its end, in seconds.
    pub end: f64,
}

impl Log {
    pub fn new() -> Result<Log> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("xqueue-measure-{}-{number}", process::id()));
        fs::create_dir(&folder)?;
        Ok(Log(folder))
    }

    pub fn arguments(&self) -> [String; 2] {
        ["--log".into(), format!("--log-prefix={}", self.0.join("log").display())]
    }

    pub fn transactions(&self) -> Result<Vec<Transaction>> {
        let mut transactions = Vec::new();
        for file in fs::read_dir(&self.0)? {
            let text = fs::read_to_string(file?.path())?;
            for line in text.lines() {
                let transaction = parse(line).ok_or(format!("pgbench logs {line}"))?;
                transactions.push(transaction);
            }
        }
        Ok(transactions)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // A leftover in the temporary folder is harmless.
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Parses the fields: client, number of the transaction, latency, script and time.
fn parse(line: &str) -> Option<Transaction> {
    let mut fields = line.split_whitespace().skip(1);
    let number: u64 = fields.next()?.parse().ok()?;
    let latency = fields.next()?.parse().ok()?;
    let seconds: f64 = fields.nth(1)?.parse().ok()?;
    let microseconds: f64 = fields.next()?.parse().ok()?;
    let end = seconds + microseconds / 1e6;
    Some(Transaction { place: number.checked_sub(1)?, latency, end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_place_latency_and_end() {
        let transaction = Transaction { place: 2, latency: 1523.0, end: 1763978400.5 };
        assert_eq!(parse("7 3 1523 0 1763978400 500000"), Some(transaction));
        assert_eq!(parse("7 0 1523 0 1763978400 995598"), None);
        assert_eq!(parse("7 3 skipped 0 1763978400 995598"), None);
    }
}
