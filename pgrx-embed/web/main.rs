//! The board: a web page on the queues of a database, from a single binary that includes the page.
//!
//! A request first passes `admission`: is it meant for this board, and which viewer sent it? The board answers it over
//! a connection of that viewer, so the privileges of the viewer's database role decide its access.

mod actions;
mod admission;
mod database;
mod failure;
mod json;
mod login;
mod options;
mod page;
mod places;
mod query;
mod sections;
mod serve;
mod sort;
mod viewer;

use std::io::Write;
use std::process::ExitCode;

use options::Command;

fn main() -> ExitCode {
    let command = match options::parse(std::env::args().skip(1)) {
        Ok(Command::Help) => {
            say(options::HELP);
            return ExitCode::SUCCESS;
        }
        Ok(Command::Board(options)) => run(options),
        Err(message) => {
            eprintln!("board: {message}\n\n{}", options::HELP);
            return ExitCode::from(2);
        }
    };
    match command {
        Ok(never) => match never {},
        Err(message) => {
            eprintln!("board: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a line, and ignores a closed pipe.
fn say(line: &str) {
    let _unread = writeln!(std::io::stdout(), "{line}");
}

/// Serves until the process is ended. One thread suffices, because the database server does the work.
fn run(options: options::Options) -> Result<std::convert::Infallible, String> {
    let database = database::Database::from_environment(options.dsn.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    runtime.block_on(serve::serve(options, database))
}
