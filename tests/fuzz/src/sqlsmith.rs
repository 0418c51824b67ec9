//! Runs sqlsmith, a program that generates random statements from the catalogue and rolls each back.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// sqlsmith must write its report and end within this time.
const PATIENCE: Duration = Duration::from_secs(10);

pub struct Sqlsmith {
    child: Child,
    reader: JoinHandle<Report>,
}

/// The last report of sqlsmith.
#[derive(Default)]
pub struct Report {
    pub statements: u64,
    /// Other output, printed if it ran no statement.
    said: String,
}

impl Sqlsmith {
    /// Starts sqlsmith as this role.
    pub fn start(folder: &str, role: &str, seed: u32) -> Sqlsmith {
        let target = format!(
            "--target=host={folder} port=5432 dbname=postgres user={role} options='-csearch_path=shield,pg_catalog'"
        );
        let mut child = Command::new("sqlsmith")
            .args([&target, &format!("--seed={}", seed >> 1), "--verbose", "--exclude-catalog"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("sqlsmith: {e}"));
        let output = child.stderr.take().expect("it is piped");
        let reader = std::thread::spawn(move || {
            let mut report = Report::default();
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line);
                match line.strip_prefix("queries: ").and_then(|count| count.trim().parse().ok()) {
                    Some(count) => report.statements = count,
                    None if report.said.len() < 2000 => report.said += &line,
                    None => {}
                }
            }
            report
        });
        Sqlsmith { child, reader }
    }

    /// Stops sqlsmith and returns its report.
    pub fn stop(mut self) -> Report {
        // An interrupt makes it report; its handler can hang, so the wait is limited.
        drop(Command::new("kill").args(["-INT", &self.child.id().to_string()]).status());
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(self.child.kill());
        drop(self.child.wait());
        let report = self.reader.join().unwrap_or_default();
        if report.statements == 0 {
            println!("# sqlsmith says: {}", report.said);
        }
        report
    }
}
