//! Measures what a user of a queue waits for, and how it compares with SQL written by hand: one
//! Markdown section for each case, printed and kept in a file.

mod against;
mod calls;
mod counters;
mod course;
#[path = "../tour/database.rs"]
mod database;
mod depth;
mod effort;
mod figures;
mod holder;
mod in_server;
mod killed;
mod late;
mod machine;
mod numbers;
mod options;
mod peer;
mod pgbench;
mod plot;
mod race;
mod rates;
mod report;
mod snapshot;
mod stats;
mod storage;
mod triggers;
mod utube;
mod waiters;
mod wake;
mod watchdog;
mod worker;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use postgres::Client;

use effort::Effort;
use figures::Figure;
use options::{Command, Options};
use peer::Peers;
use report::Section;

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A measurement: its name on the command line, and what carries it out.
type Case = (&'static str, fn(&Effort, &mut Peers) -> Result<Section>);

pub const CASES: [Case; 22] = [
    ("killed", |effort, _| killed::measure(effort)),
    ("wake", wake::measure),
    ("waiters", |effort, _| waiters::measure(effort)),
    ("late", |effort, _| late::measure(effort)),
    ("stats", |effort, _| stats::measure(effort)),
    ("calls", calls::measure),
    (in_server::CASE, |_, _| in_server::measure()),
    ("put", rates::put),
    ("lifecycle", rates::lifecycle),
    ("flat", course::flat),
    ("pinned", course::pinned),
    ("utube-pinned", course::utube_pinned),
    ("backlog", rates::backlog),
    ("batch-put", rates::batch_put),
    ("batch-take", rates::batch_take),
    ("depth", depth::measure),
    ("storage", storage::measure),
    ("triggers", |effort, _| triggers::measure(effort)),
    ("counters", |effort, _| counters::measure(effort)),
    ("flood", |effort, _| worker::flood(effort)),
    ("idle", |effort, _| worker::idle(effort)),
    ("utube", |effort, _| utube::measure(effort)),
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
        Ok(Command::Holder(before)) => holder::hold(before),
        Ok(Command::Measure(options)) => measure(&options),
        Ok(Command::Compare(options, other)) => compare(&options, &other),
        Ok(Command::Figure(figure, effort)) => tell(figure, &effort),
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

/// Prints a figure of the server that the environment names.
fn tell(figure: &Figure, effort: &Effort) -> Result<()> {
    watchdog::start(effort.limit);
    prepare()?;
    println!("{}", (figure.measure)(effort)?);
    Ok(())
}

fn compare(options: &Options, other: &options::Server) -> Result<()> {
    watchdog::start(options.effort.limit);
    let mut db = database::connect("xqueue measure")?;
    let machine = machine::describe(&mut db, &options.effort)?;
    println!("{machine}");
    let section = against::compare(options, other)?;
    println!("{section}");
    if let Some(output) = &options.output {
        std::fs::write(output, format!("{machine}\n{section}"))?;
    }
    Ok(())
}

/// A schema for what is measured, anew.
fn prepare() -> Result<Client> {
    let mut db = database::connect("xqueue measure")?;
    db.batch_execute("DROP SCHEMA IF EXISTS measure CASCADE; CREATE SCHEMA measure;")?;
    until_running(&mut db)?;
    Ok(db)
}

fn measure(options: &Options) -> Result<()> {
    watchdog::start(options.effort.limit);
    let mut db = prepare()?;
    let mut peers = peer::built_in()?;
    let mut text = machine::describe(&mut db, &options.effort)?;
    text += &invite(&options.peers, &mut peers);
    if !options.names.is_empty() {
        peers.keep(&options.names)?;
    }
    println!("{text}");
    let mut left_out = Vec::new();
    for (name, case) in CASES {
        // It wants another build.
        let is_default = options.cases.is_empty() && name != in_server::CASE;
        if is_default || options.cases.iter().any(|wanted| wanted == name) {
            watchdog::enter(name);
            let mut section = case(&options.effort, &mut peers)?;
            let failed = peers.left_out();
            section.notes.extend_from_slice(&failed);
            left_out.extend(failed);
            println!("{section}");
            text = format!("{text}\n{section}");
            // After each case: an interrupted run keeps what there is.
            if let Some(output) = &options.output {
                std::fs::write(output, &text)?;
                if let Some(plot) = &section.plot {
                    std::fs::write(
                        output.with_file_name(format!("{name}.svg")),
                        plot.svg(section.title),
                    )?;
                }
            }
        }
    }
    if left_out.is_empty() { Ok(()) } else { Err(left_out.join("\n").into()) }
}

/// Adds the peers that were fetched; returns which they are and which are missing.
fn invite(folders: &[PathBuf], peers: &mut Peers) -> String {
    let mut text = String::new();
    for folder in folders {
        let name = peer::name_of(folder);
        watchdog::enter(format!("installing {name}"));
        match peer::open(folder) {
            Ok(peer) => {
                text += &format!("\n- beside it: {name} {}", peer.version());
                peers.push(peer);
            }
            Err(error) => text += &format!("\n- left out: {name} ({})", explain(&*error)),
        }
    }
    text + "\n"
}

/// The extension's worker starts a moment after the extension is created.
fn until_running(db: &mut Client) -> Result<()> {
    watchdog::enter("waiting for the worker");
    while db.query_one("SELECT xqueue.state()", &[])?.get::<_, &str>(0) != "RUNNING" {
        sleep(Duration::from_millis(5));
    }
    Ok(())
}
