//! The command line.

use std::path::PathBuf;

use crate::CASES;
use crate::effort::{Effort, FULL, QUICK};

pub enum Command {
    Measure(Box<Options>),
    /// A child of `killed`, which acks so many tasks first.
    Holder(u32),
    Help,
}

pub struct Options {
    pub effort: Effort,
    /// Those to run; none means all.
    pub cases: Vec<String>,
    /// Folders of the queues to compare with.
    pub peers: Vec<PathBuf>,
    /// Who competes; none means all.
    pub names: Vec<String>,
    pub output: Option<PathBuf>,
}

pub fn help() -> String {
    format!(
        "measure [OPTION...] [CASE...]\n\n\
         Measures, in the database that PGHOST, PGPORT, PGUSER and PGDATABASE name and that has the\n\
         extension xqueue, on tables in a schema measure that is made anew. pgbench must be in PATH.\n\n  \
         --quick        few rounds: to see that it works, not how fast\n  \
         --rounds N     how often each contender runs in each case\n  \
         --seconds N    the length of a round\n  \
         --backlog N    how many tasks are there in the cases backlog and batch-take\n  \
         --minutes N    the length of the case flat\n  \
         --deep         the case depth with ten million ready and done tasks as well\n  \
         --by NAME      only this contender; may be given more than once\n  \
         --output FILE  where the Markdown goes as well, with plots beside it\n  \
         --peer FOLDER  a queue to compare with, as pgrx-embed/bench fetches it\n  \
         CASE           {} (default: all but in-server)",
        CASES.map(|(name, _)| name).join(", ")
    )
}

pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Command, String> {
    let (mut effort, mut cases, mut peers, mut output) = (FULL, Vec::new(), Vec::new(), None);
    let mut names = Vec::new();
    let (mut rounds, mut seconds, mut minutes, mut backlog) = (None, None, None, None);
    let mut deep = false;
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} takes a value"));
        match argument.as_str() {
            "--quick" => effort = QUICK,
            "--rounds" => rounds = Some(number(&value()?)?),
            "--seconds" => seconds = Some(number(&value()?)?),
            "--backlog" => backlog = Some(number(&value()?)?),
            "--minutes" => minutes = Some(number(&value()?)?),
            "--deep" => deep = true,
            "--by" => names.push(value()?),
            "--output" => output = Some(value()?.into()),
            "--peer" => peers.push(value()?.into()),
            "--help" | "-h" => return Ok(Command::Help),
            "holder" => return Ok(Command::Holder(value()?.parse().map_err(|_| "how many?")?)),
            name if CASES.iter().any(|(case, _)| *case == name) => cases.push(argument),
            _ => return Err(format!("what is {argument}?")),
        }
    }
    effort.rounds = rounds.map_or(effort.rounds, |rounds| rounds as usize);
    effort.seconds = seconds.unwrap_or(effort.seconds);
    effort.backlog = backlog.unwrap_or(effort.backlog);
    effort.flat = minutes.map_or(effort.flat, |minutes| (minutes, 60));
    effort.ten_times = deep;
    Ok(Command::Measure(Box::new(Options { effort, cases, peers, names, output })))
}

fn number(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or(format!("{text} is no number above 0"))
}
