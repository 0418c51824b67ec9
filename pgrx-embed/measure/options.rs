//! The command line.

use std::path::PathBuf;

use crate::crowd::cell::Cell;
use crate::crowd::kind::Kind;
use crate::crowd::selection::{self, Selection};
use crate::effort::{Effort, FULL, QUICK};
use crate::figures::{FIGURES, Figure};
use crate::many;
use crate::race::COMMITS;
use crate::{CASES, ON_REQUEST};

/// The address of the server with the other build.
pub struct Server {
    pub sockets: PathBuf,
    pub port: u16,
}

pub enum Command {
    Measure(Box<Options>),
    /// Compares the figures of two builds, this one and the one in another server.
    Compare(Box<Options>, Server),
    /// A child of `Compare`: measures one figure of one server.
    Figure(&'static Figure, Effort),
    /// A child of `Compare`: measures a round of a crowd in one server.
    Round(Cell, Effort),
    /// A child of `killed`: acks this number of tasks first.
    Holder(u32),
    Help,
}

pub struct Options {
    pub effort: Effort,
    /// The arguments that define the effort.
    pub effort_arguments: Vec<String>,
    /// Cases to run. Empty means all.
    pub cases: Vec<String>,
    /// Folders of the queues to compare with.
    pub peers: Vec<PathBuf>,
    /// Competing contenders. Empty means all.
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
         --minutes N    the length of the cases flat, pinned, utube-pinned and beside-queries\n  \
         --deep         the case depth with ten million ready and done tasks as well\n  \
         --kind NAME,…  of the case crowd only these: {},\n  \
         \x20              or with utube-, priority- or tube- before them, of which the first word alone means all\n  \
         --clients N,…  the numbers of its clients\n  \
         --commit on|off\n  \
         \x20              its synchronous_commit (default: both in turn; with --against: off)\n  \
         --by NAME      only this contender; may be given more than once\n  \
         --output FILE  where the Markdown goes as well, with plots beside it\n  \
         --peer FOLDER  a queue to compare with, as pgrx-embed/bench fetches it\n  \
         --pg-ctl COMMAND\n  \
         \x20              stops and starts the server, with \"-m fast -w stop\" and \"-W start\" after it: for the cases many-…\n  \
         --against SOCKETS:PORT\n  \
         \x20              the server of another build: both are measured in turn, and the ratios told\n  \
         CASE           {} (default: all but {}; many means all that begin so)\n  \
         \x20              with --against: {} (default: all of these), {}",
        selection::kinds_of_a_plain_queue(),
        CASES.map(|(name, _)| name).join(", "),
        ON_REQUEST.join(", "),
        FIGURES.each_ref().map(|figure| figure.name).join(", "),
        selection::CASE
    )
}

pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Command, String> {
    let (mut effort, mut effort_arguments) = (FULL, Vec::new());
    let mut crowd = Selection::ALL;
    let (mut cases, mut peers, mut output) = (Vec::new(), Vec::new(), None);
    let (mut names, mut against, mut figure) = (Vec::new(), None, None);
    let (mut rounds, mut seconds, mut minutes, mut backlog) = (None, None, None, None);
    let (mut deep, mut is_round, mut pg_ctl) = (false, false, None);
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
            "--kind" => {
                for name in value()?.split(',') {
                    let named = Kind::named(name);
                    let known = Some(named).filter(|kinds| !kinds.is_empty());
                    crowd.kinds.extend(known.ok_or(format!("what is {name}?"))?);
                }
            }
            "--clients" => {
                for clients in value()?.split(',') {
                    crowd.clients.push(number(clients)?);
                }
            }
            "--commit" => {
                let value = value()?;
                let known = COMMITS.into_iter().find(|commit| *commit == value);
                crowd.commits.push(known.ok_or("--commit takes on or off")?);
            }
            "round" => is_round = true,
            "--by" => names.push(value()?),
            "--output" => output = Some(value()?.into()),
            "--peer" => peers.push(value()?.into()),
            "--pg-ctl" => pg_ctl = Some(value()?),
            "--against" => against = Some(server(&value()?)?),
            "--help" | "-h" => return Ok(Command::Help),
            "holder" => return Ok(Command::Holder(value()?.parse().map_err(|_| "how many?")?)),
            "figure" => {
                let name = value()?;
                figure = Some(Figure::named(&name).ok_or(format!("what is {name}?"))?);
            }
            many::ALL => cases.extend(many::CASES.map(str::to_owned)),
            _ => cases.push(argument),
        }
    }
    let is_known = |case: &str| match against {
        Some(_) => Figure::named(case).is_some() || case == selection::CASE,
        None => CASES.iter().any(|(known, _)| *known == case),
    };
    if let Some(unknown) = cases.iter().find(|case| !is_known(case)) {
        return Err(format!("what is {unknown}?"));
    }
    effort.rounds = rounds.map_or(effort.rounds, |rounds| rounds as usize);
    effort.seconds = seconds.unwrap_or(effort.seconds);
    effort.backlog = backlog.unwrap_or(effort.backlog);
    if let Some(minutes) = minutes {
        effort.in_minutes(minutes);
    }
    effort.ten_times = deep;
    effort.crowd = crowd;
    effort.pg_ctl = pg_ctl;
    if is_round {
        let cell =
            Cell::of(&effort.crowd).ok_or("a round is of one kind, with a number of clients")?;
        return Ok(Command::Round(cell, effort));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_part_of_a_crowd_is_chosen_by_lists() {
        let Ok(Command::Measure(options)) =
            parsed("crowd --kind done,tube --clients 4,200 --quick")
        else {
            panic!("it is not understood");
        };
        assert_eq!(options.effort.crowd.kinds.len(), 1 + 6);
        assert_eq!(options.effort.crowd.clients, [4, 200]);
        assert!(parsed("crowd --kind don").is_err() && parsed("crowd --clients 4,0").is_err());
        assert!(matches!(
            parsed("round --kind done --clients 4 --commit off"),
            Ok(Command::Round(..))
        ));
        assert!(parsed("round --kind done --clients 4").is_err());
    }

    #[test]
    fn many_means_all_cases_that_begin_so() {
        let Ok(Command::Measure(options)) = parsed("many --pg-ctl stop --minutes 60") else {
            panic!("it is not understood");
        };
        assert_eq!(options.cases, many::CASES);
        assert_eq!(options.effort.pinned.beside, 360);
        assert!(parsed("many --against /tmp:5432").is_err());
    }
}
