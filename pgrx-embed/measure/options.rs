//! The command line.

use std::path::PathBuf;

use crate::CASES;
use crate::effort::{Effort, FULL, QUICK};
use crate::figures::{FIGURES, Figure};

/// Where the server with the other build is.
pub struct Server {
    pub sockets: PathBuf,
    pub port: u16,
}

pub enum Command {
    Measure(Box<Options>),
    /// Figures of this build and of the one in another server.
    Compare(Box<Options>, Server),
    /// A child of `Compare`: one figure of one server.
    Figure(&'static Figure, Effort),
    /// A child of `killed`, which acks this number of tasks first.
    Holder(u32),
    Help,
}

pub struct Options {
    pub effort: Effort,
    /// The arguments that it was made of.
    pub effort_arguments: Vec<String>,
    /// Those to run; none means all.
    pub cases: Vec<String>,
    /// Folders of the queues to compare with.
    pub peers: Vec<PathBuf>,
    /// Competing contenders; none means all.
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
         --against SOCKETS:PORT\n  \
         \x20              the server of another build: both are measured in turn, and the ratios told\n  \
         CASE           {} (default: all but in-server)\n  \
         \x20              with --against: {} (default: all)",
        CASES.map(|(name, _)| name).join(", "),
        FIGURES.each_ref().map(|figure| figure.name).join(", ")
    )
}

pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Command, String> {
    let (mut effort, mut effort_arguments) = (FULL, Vec::new());
    let (mut cases, mut peers, mut output) = (Vec::new(), Vec::new(), None);
    let (mut names, mut against, mut figure) = (Vec::new(), None, None);
    let (mut rounds, mut seconds, mut minutes, mut backlog) = (None, None, None, None);
    let mut deep = false;
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} takes a value"));
        let mut counted = || {
            let value = value()?;
            effort_arguments.extend([argument.clone(), value.clone()]);
            number(&value)
        };
        match argument.as_str() {
            "--quick" => {
                effort = QUICK;
                effort_arguments.push(argument);
            }
            "--rounds" => rounds = Some(counted()?),
            "--seconds" => seconds = Some(counted()?),
            "--backlog" => backlog = Some(counted()?),
            "--minutes" => minutes = Some(counted()?),
            "--deep" => deep = true,
            "--by" => names.push(value()?),
            "--output" => output = Some(value()?.into()),
            "--peer" => peers.push(value()?.into()),
            "--against" => against = Some(server(&value()?)?),
            "--help" | "-h" => return Ok(Command::Help),
            "holder" => return Ok(Command::Holder(value()?.parse().map_err(|_| "how many?")?)),
            "figure" => {
                let name = value()?;
                figure = Some(Figure::named(&name).ok_or(format!("what is {name}?"))?);
            }
            _ => cases.push(argument),
        }
    }
    let is_known = |case: &str| match against {
        Some(_) => Figure::named(case).is_some(),
        None => CASES.iter().any(|(known, _)| *known == case),
    };
    if let Some(unknown) = cases.iter().find(|case| !is_known(case)) {
        return Err(format!("what is {unknown}?"));
    }
    effort.rounds = rounds.map_or(effort.rounds, |rounds| rounds as usize);
    effort.seconds = seconds.unwrap_or(effort.seconds);
    effort.backlog = backlog.unwrap_or(effort.backlog);
    effort.flat = minutes.map_or(effort.flat, |minutes| (minutes, 60));
    effort.ten_times = deep;
    if let Some(figure) = figure {
        return Ok(Command::Figure(figure, effort));
    }
    let options = Box::new(Options { effort, effort_arguments, cases, peers, names, output });
    Ok(match against {
        Some(server) => Command::Compare(options, server),
        None => Command::Measure(options),
    })
}

fn server(address: &str) -> Result<Server, String> {
    let parts =
        address.rsplit_once(':').and_then(|(sockets, port)| Some((sockets, port.parse().ok()?)));
    let (sockets, port) = parts.ok_or(format!("{address} is no SOCKETS:PORT"))?;
    Ok(Server { sockets: sockets.into(), port })
}

fn number(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or(format!("{text} is no number above 0"))
}
