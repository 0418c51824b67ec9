//! Runs pgbench and reads what it says.

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
        // What is left in the temporary folder does no harm.
        drop(fs::remove_file(&self.0));
    }
}

/// pgbench counts the time in which its clients connect, which its rates leave out, as part of a run. A crowd gets as much
/// more as it needs at this rate.
const CONNECTED_PER_SECOND: u32 = 100;

/// Clients whose first calls, which read the catalogue, and whose first access to each page of memory are done in a second.
const WARMED_PER_SECOND: u32 = 40;

/// Seconds of a run that are not measured.
pub fn warm_up(clients: u32) -> u32 {
    1 + clients / WARMED_PER_SECOND
}

/// How long a script is run.
#[derive(Clone, Copy)]
pub enum Length {
    Seconds(u32),
    /// Of each client.
    Calls(u32),
}

/// How a script is run.
pub struct Bench {
    pub clients: u32,
    /// synchronous_commit
    pub commit: &'static str,
    pub length: Length,
}

pub struct Outcome {
    /// Of the whole script.
    pub per_second: f64,
    /// Mean latency of the whole script in microseconds.
    pub latency: f64,
    /// All that pgbench says.
    lines: Vec<String>,
}

impl Bench {
    pub fn run(&self, script: &Script, variables: &[(&str, String)]) -> Result<Outcome> {
        outcome(&mut self.command(script, variables)?)
    }

    /// At this rate, all clients together.
    pub fn run_at(&self, per_second: u32, script: &Script) -> Result<Outcome> {
        outcome(self.command(script, &[])?.arg(format!("--rate={per_second}")))
    }

    /// Runs a number of seconds after a while in which the clients warm up. Returns as well what is logged of each
    /// transaction, that of the warm-up too.
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

/// Runs pgbench.
fn outcome(command: &mut Command) -> Result<Outcome> {
    let output = command.output().map_err(|error| format!("pgbench: {error}"))?;
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // A client that fails ends, and the others go on: then it has measured something else.
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
    /// The mean latencies, in microseconds, of the first statements of the script.
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
