//! Measures what a user of a queue waits for, and how it compares with SQL written by hand: one
//! Markdown section for each case, printed and kept in a file.

#[path = "../tour/database.rs"]
mod database;
mod effort;
mod holder;
mod killed;
mod late;
mod machine;
mod numbers;
mod options;
mod pgbench;
mod pinned;
mod report;
mod scripts;
mod stats;
mod throughput;
mod utube;
mod wake;
mod watchdog;

use std::error::Error;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use postgres::Client;

use effort::Effort;
use options::{Command, Options};
use report::Section;

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A measurement: its name on the command line, and what carries it out.
type Case = (&'static str, fn(&Effort) -> Result<Section>);

pub const CASES: [Case; 7] = [
    ("killed", killed::measure),
    ("wake", wake::measure),
    ("late", late::measure),
    ("stats", stats::measure),
    ("throughput", throughput::measure),
    ("pinned", pinned::measure),
    ("utube", utube::measure),
];

fn main() -> ExitCode {
    let outcome = match options::parse(std::env::args().skip(1)) {
        Err(message) => {
            eprintln!("measure: {message}\n\n{}", options::help());
            return ExitCode::from(2);
        }
        Ok(Command::Help) => {
            println!("{}", options::help());
            Ok(())
        }
        Ok(Command::Holder) => holder::hold(),
        Ok(Command::Measure(options)) => measure(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("measure: {} ({})", explain(&*error), watchdog::phase());
            ExitCode::FAILURE
        }
    }
}

/// An error with all its causes: postgres tells only there what the server said.
fn explain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn measure(options: &Options) -> Result<()> {
    watchdog::start(options.effort.limit);
    let mut db = database::connect("xqueue measure")?;
    db.batch_execute("DROP SCHEMA IF EXISTS measure CASCADE; CREATE SCHEMA measure;")?;
    until_running(&mut db)?;
    let mut text = machine::describe(&mut db, &options.effort)?;
    println!("{text}");
    for (name, case) in CASES {
        if options.cases.is_empty() || options.cases.iter().any(|wanted| wanted == name) {
            watchdog::enter(name);
            let section = case(&options.effort)?.to_string();
            println!("{section}");
            text = format!("{text}\n{section}");
            // After each case: who interrupts the rest keeps what there is.
            if let Some(output) = &options.output {
                std::fs::write(output, &text)?;
            }
        }
    }
    Ok(())
}

/// The extension's worker starts a moment after the extension is created.
fn until_running(db: &mut Client) -> Result<()> {
    watchdog::enter("waiting for the worker");
    while db.query_one("SELECT xqueue.state()", &[])?.get::<_, &str>(0) != "RUNNING" {
        sleep(Duration::from_millis(5));
    }
    Ok(())
}
