//! The tour: an existing table becomes a queue that does real work.
//!
//! A table of files is filled and upgraded to a queue. Consumers, each a process with its own connection, compute the
//! SHA-256 of each file. Some tasks are delayed, and some consumers are killed. At the end every digest is compared
//! with that of sha256sum, and a report is printed.

mod child;
mod consumer;
mod database;
mod files;
mod kill;
mod options;
mod progress;
mod report;
mod run;
mod table;
mod verify;
mod watchdog;

use std::error::Error;
use std::process::ExitCode;

use options::{Command, Options};

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    match options::parse(std::env::args().skip(1)) {
        Err(message) => {
            eprintln!("tour: {message}\n\n{}", options::HELP);
            ExitCode::from(2)
        }
        Ok(Command::Help) => {
            println!("{}", options::HELP);
            ExitCode::SUCCESS
        }
        Ok(Command::Consumer(number)) => match consumer::work(&number) {
            Err(error) => {
                eprintln!("tour: consumer {number}: {}", explain(&*error));
                ExitCode::FAILURE
            }
            Ok(never) => match never {},
        },
        Ok(Command::Tour(options)) => {
            let passed = tour(&options).unwrap_or_else(|error| {
                eprintln!("tour: {} ({})", explain(&*error), watchdog::phase());
                false
            });
            if options.test {
                println!("{}", watchdog::verdict(passed));
            }
            if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
    }
}

/// Formats an error with all its causes: the postgres crate has the server's message only there.
fn explain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Runs the tour, and returns true if all checks passed.
fn tour(options: &Options) -> Result<bool> {
    watchdog::start(options);
    watchdog::enter("looking for files");
    let files = files::find(options.files)?;
    let mut db = database::connect("xqueue tour")?;
    let plan = table::Plan::new(&files);
    watchdog::enter("making the table tour.files a queue");
    table::make(&mut db, &plan)?;
    let outcome = run::run(&mut db, &plan, options)?;
    watchdog::enter("comparing with sha256sum");
    let verdict = verify::verify(&mut db, &plan, &outcome, options)?;
    report::print(&mut db, &plan, &outcome, &verdict)?;
    Ok(verdict.problems.is_empty())
}
