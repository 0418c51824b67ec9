//! Measures the waits of queue users, in comparison with SQL written by hand. Each case prints one Markdown section and
//! saves it in a file.

mod against;
mod beside_queries;
mod calls;
mod columns;
mod counters;
mod course;
mod crowd;
#[path = "../tour/database.rs"]
mod database;
mod depth;
mod effort;
mod figures;
mod holder;
mod in_server;
mod keys;
mod killed;
mod late;
mod machine;
mod many;
mod numbers;
mod options;
mod peer;
mod pgbench;
mod pgbench_log;
mod plot;
mod race;
mod rates;
mod report;
mod snapshot;
mod stats;
mod storage;
mod tables;
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
use options::{Command, Options};
use peer::Peers;
use report::Section;

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A measurement: its name on the command line, and its function.
type Case = (&'static str, fn(&Effort, &mut Peers) -> Result<Section>);

pub const CASES: [Case; 32] = [
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
    (beside_queries::CASE, beside_queries::measure),
    ("backlog", rates::backlog),
    ("batch-put", rates::batch_put),
    ("batch-take", rates::batch_take),
    (crowd::CASE, crowd::measure),
    ("depth", depth::measure),
    ("storage", storage::measure),
    (tables::CASE, tables::measure),
    (tables::PUTS, tables::measure_puts),
    (keys::CASE, keys::measure),
    (columns::CASE, columns::measure),
    ("triggers", |effort, _| triggers::measure(effort)),
    ("counters", |effort, _| counters::measure(effort)),
    ("flood", |effort, _| worker::flood(effort)),
    ("idle", |effort, _| worker::idle(effort)),
    ("utube", |effort, _| utube::measure(effort)),
    // These come last: they restart the server, which ends the connections of all contenders.
    (many::queues::CASE, |effort, _| many::queues::measure(effort)),
    (many::restart::CASE, |effort, _| many::restart::measure(effort)),
    (many::databases::CASE, |effort, _| many::databases::measure(effort)),
    (many::waiters::CASE, |effort, _| many::waiters::measure(effort)),
];

/// Cases that need another build, hours, or a server that they are allowed to restart.
const ON_REQUEST: [&str; 11] = [
    in_server::CASE,
    crowd::CASE,
    tables::CASE,
    tables::PUTS,
    keys::CASE,
    columns::CASE,
    beside_queries::CASE,
    many::queues::CASE,
    many::restart::CASE,
    many::databases::CASE,
    many::waiters::CASE,
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
        Ok(Command::Figure(figure, effort)) => {
            tell(&effort, || Ok((figure.measure)(&effort)?.to_string()))
        }
        Ok(Command::Round(cell, effort)) => tell(&effort, || cell.measure(&effort)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("measure: {} ({})", explain(&*error), watchdog::phase());
            ExitCode::FAILURE
        }
    }
}

/// Formats an error with all its causes: the postgres crate has the server's message only there.
fn explain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Prints a measurement of the server that the environment names.
fn tell(effort: &Effort, measure: impl FnOnce() -> Result<String>) -> Result<()> {
    watchdog::start(effort.limit);
    prepare()?;
    println!("{}", measure()?);
    Ok(())
}

fn compare(options: &Options, other: &options::Server) -> Result<()> {
    watchdog::start(options.effort.limit);
    let mut db = database::connect("xqueue measure")?;
    let mut text = machine::describe(&mut db, &options.effort)?;
    println!("{text}");
    let is_wanted = |case: &str| options.cases.iter().any(|wanted| wanted == case);
    type Comparison = fn(&Options, &options::Server) -> Result<Section>;
    let comparisons: [(bool, Comparison); 2] = [
        (
            options.cases.iter().any(|case| case != crowd::CASE) || options.cases.is_empty(),
            against::compare,
        ),
        (is_wanted(crowd::CASE), crowd::compare),
    ];
    for (_, compare) in comparisons.into_iter().filter(|(is_wanted, _)| *is_wanted) {
        let section = compare(options, other)?;
        println!("{section}");
        text = format!("{text}\n{section}");
        if let Some(output) = &options.output {
            std::fs::write(output, &text)?;
        }
    }
    Ok(())
}

/// Recreates the schema for measurements.
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
        let is_default = options.cases.is_empty() && !ON_REQUEST.contains(&name);
        if is_default || options.cases.iter().any(|wanted| wanted == name) {
            watchdog::enter(name);
            let mut section = case(&options.effort, &mut peers)?;
            let failed = peers.left_out();
            section.notes.extend_from_slice(&failed);
            left_out.extend(failed);
            println!("{section}");
            text = format!("{text}\n{section}");
            // Saved after each case, so that an interrupted run keeps its results.
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

/// Adds the fetched peers, and returns a text that names the added and the missing ones.
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

/// Waits for the extension's worker, which starts a moment after the extension is created.
fn until_running(db: &mut Client) -> Result<()> {
    watchdog::enter("waiting for the worker");
    while db.query_one("SELECT xqueue.state()", &[])?.get::<_, &str>(0) != "RUNNING" {
        sleep(Duration::from_millis(5));
    }
    Ok(())
}
