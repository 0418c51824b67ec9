//! The command line.

use std::path::PathBuf;

use crate::CASES;
use crate::effort::{Effort, FULL, QUICK};

pub enum Command {
    Measure(Options),
    /// A child of `killed`.
    Holder,
    Help,
}

pub struct Options {
    pub effort: Effort,
    /// Those to run; none means all.
    pub cases: Vec<String>,
    pub output: Option<PathBuf>,
}

pub fn help() -> String {
    format!(
        "measure [--quick] [--output FILE] [CASE...]\n\n\
         Measures, in the database that PGHOST, PGPORT, PGUSER and PGDATABASE name and that has the\n\
         extension xqueue, on tables in a schema measure that is made anew. pgbench must be in PATH.\n\n  \
         --quick        few rounds: to see that it works, not how fast\n  \
         --output FILE  where the Markdown goes as well\n  \
         CASE           {} (default: all)",
        CASES.map(|(name, _)| name).join(", ")
    )
}

pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut options = Options { effort: FULL, cases: Vec::new(), output: None };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => options.effort = QUICK,
            "--output" => {
                let file = arguments.next().ok_or("--output takes a file")?;
                options.output = Some(file.into());
            }
            "--help" | "-h" => return Ok(Command::Help),
            "holder" => return Ok(Command::Holder),
            name if CASES.iter().any(|(case, _)| *case == name) => options.cases.push(argument),
            _ => return Err(format!("what is {argument}?")),
        }
    }
    Ok(Command::Measure(options))
}
