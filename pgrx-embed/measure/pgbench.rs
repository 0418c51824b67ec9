//! Runs pgbench and parses its output.

use std::fs;
use std::path::PathBuf;
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Result;
use crate::pgbench_log::{Log, Transaction};

/// A script in a temporary file.
pub struct Script(PathBuf);

impl Script {
    pub fn new(text: &str) -> Result<Script> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("xqueue-measure-{}-{number}.sql", process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text)?;
        Ok(Script(path))
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // A leftover in the temporary folder is harmless.
        drop(fs::remove_file(&self.0));
    }
}

/// The connections of pgbench's clients count as part of a run, although its rates exclude that time. Runs of many
/// clients are extended for it, at this rate.
const CONNECTED_PER_SECOND: u32 = 100;

/// Clients that warm up in one second: their first calls read the catalog, and they touch each page of memory for the
/// first time.
const WARMED_PER_SECOND: u32 = 40;

/// Returns the seconds at the start of a run that are not measured.
pub fn warm_up(clients: u32) -> u32 {
    1 + clients / WARMED_PER_SECOND
}

/// The length of a run.
#[derive(Clone, Copy)]
pub enum Length {
    Seconds(u32),
    /// Calls of each client.
    Calls(u32),
}

/// The parameters of a run.
pub struct Bench {
    pub clients: u32,
    /// synchronous_commit
    pub commit: &'static str,
    pub length: Length,
}

pub struct Outcome {
    /// Transactions per second, each of the whole script.
    pub per_second: f64,
    /// Mean latency of the whole script in microseconds.
    pub latency: f64,
    /// All output lines of pgbench.
    lines: Vec<String>,
}

impl Bench {
    pub fn run(&self, script: &Script, variables: &[(&str, String)]) -> Result<Outcome> {
        outcome(&mut self.command(script, variables)?)
    }

    /// Runs with this total rate over all clients.
    pub fn run_at(&self, per_second: u32, script: &Script) -> Result<Outcome> {
        outcome(self.command(script, &[])?.arg(format!("--rate={per_second}")))
    }

    /// Runs for a number of seconds after the warm-up. Also returns the log of each transaction, including the warm-up.
    pub fn run_logged(
        &self,
        script: &Script,
        variables: &[(&str, String)],
    ) -> Result<(Outcome, Vec<Transaction>)> {
        let log = Log::new()?;
        let length = match self.length {
            Length::Seconds(seconds) => Length::Seconds(seconds + warm_up(self.clients)),
            calls => calls,
        };
        let warmed = Bench { length, ..*self };
        let outcome = outcome(warmed.command(script, variables)?.args(log.arguments()))?;
        Ok((outcome, log.transactions()?))
    }

    fn command(&self, script: &Script, variables: &[(&str, String)]) -> Result<Command> {
        let cores = std::thread::available_parallelism()?.get() as u32;
        let length = match self.length {
            Length::Seconds(seconds) => {
                let seconds = seconds + self.clients / CONNECTED_PER_SECOND;
                ["-T".to_owned(), seconds.to_string()]
            }
            Length::Calls(calls) => ["-t".to_owned(), calls.to_string()],
        };
        let mut command = Command::new("pgbench");
        command
            .args(["-n", "-r", "-M", "prepared"])
            .args(length)
            .args(["-c", &self.clients.to_string()])
            .args(["-j", &self.clients.min(cores).to_string()])
            .arg("-f")
            .arg(&script.0)
            .env("PGOPTIONS", format!("-c synchronous_commit={}", self.commit));
        for (name, value) in variables {
            command.args(["-D", &format!("{name}={value}")]);
        }
        Ok(command)
    }
}

/// Runs pgbench and parses its summary.
fn outcome(command: &mut Command) -> Result<Outcome> {
    let output = command.output().map_err(|error| format!("pgbench: {error}"))?;
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // pgbench goes on without a client that fails, which would be a different measurement.
    if !output.status.success() || errors.contains("aborted") {
        return Err(format!("pgbench: {}\n{errors}", output.status).into());
    }
    let value = |name: &str| -> Result<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let value = line.and_then(|rest| rest.split_whitespace().next());
        Ok(value.ok_or(format!("pgbench says nothing of {name}:\n{text}"))?.parse()?)
    };
    Ok(Outcome {
        per_second: value("tps =")?,
        latency: value("latency average =")? * 1000.0,
        lines: text.lines().map(str::to_owned).collect(),
    })
}

impl Outcome {
    /// Returns the mean latencies, in microseconds, of the script's first statements.
    pub fn first_statements<const N: usize>(&self) -> Result<[f64; N]> {
        let lines = self.lines.iter().skip_while(|line| !line.starts_with("statement latencies"));
        let mut latencies = [0.0; N];
        let mut found = lines.skip(1);
        for latency in &mut latencies {
            let value = found.next().and_then(|line| line.split_whitespace().next());
            *latency = value.ok_or("pgbench says nothing of a statement")?.parse::<f64>()? * 1000.0;
        }
        Ok(latencies)
    }
}
