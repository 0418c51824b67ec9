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

/// How a script is run.
pub struct Bench {
    pub clients: u32,
    /// synchronous_commit
    pub commit: &'static str,
    pub seconds: u32,
}

pub struct Outcome {
    /// Of the whole script.
    pub per_second: f64,
    /// Mean latency of the whole script in microseconds.
    pub latency: f64,
    /// The lines with the mean latency of each statement.
    statements: Vec<String>,
}

impl Bench {
    pub fn run(&self, script: &Script, variables: &[(&str, u32)]) -> Result<Outcome> {
        let cores = std::thread::available_parallelism()?.get() as u32;
        let mut command = Command::new("pgbench");
        command
            .args(["-n", "-r", "-M", "prepared"])
            .args(["-T", &self.seconds.to_string()])
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
            statements: text.lines().map(str::to_owned).collect(),
        })
    }
}

impl Outcome {
    /// The mean latency, in microseconds, of the statement that holds `part`.
    pub fn latency_of(&self, part: &str) -> Result<f64> {
        let line = self.statements.iter().find(|line| line.contains(part));
        let value = line.and_then(|line| line.split_whitespace().next());
        Ok(value.ok_or(format!("pgbench says nothing of {part}"))?.parse::<f64>()? * 1000.0)
    }
}
