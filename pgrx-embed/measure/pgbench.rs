//! Runs pgbench and reads what it says.

use std::fs;
use std::path::PathBuf;
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Result;

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
    pub fn run(&self, script: &Script, variables: &[(&str, &str)]) -> Result<Outcome> {
        let cores = std::thread::available_parallelism()?.get() as u32;
        let length = match self.length {
            Length::Seconds(seconds) => ["-T".to_owned(), seconds.to_string()],
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
