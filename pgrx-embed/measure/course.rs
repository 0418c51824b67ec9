//! Lifecycles without a pause, period by period: does the rate stay? And does it beside a transaction that
//! keeps an old snapshot, so that VACUUM removes nothing?

use crate::effort::Effort;
use crate::peer::{Load, Peer, Peers, Work};
use crate::pgbench::Length;
use crate::plot::{Lines, Plot};
use crate::report::Section;
use crate::{Result, database, watchdog};

const CLIENTS: u32 = 4;
/// Ready tasks besides those of the lifecycles, so that no take finds all of them locked.
const BACKLOG: u32 = 1000;
const COMMIT: &str = "off";

pub fn flat(effort: &Effort, peers: &mut Peers) -> Result<Section> {
    let (periods, seconds) = effort.flat;
    let rates = courses(peers, |peer| periods_of(peer, periods, seconds));
    Ok(section(
        "Lifecycles minute by minute",
        seconds,
        rates,
        format!("{periods} periods of {seconds} s without a pause; the ratio is to the first."),
    ))
}

pub fn pinned(effort: &Effort, peers: &mut Peers) -> Result<Section> {
    let (periods, seconds) = effort.pinned;
    let rates = courses(peers, |peer| {
        let mut rates = periods_of(peer, 1, seconds)?;
        let mut holder = database::connect("xqueue measure snapshot")?;
        let mut snapshot = holder
            .build_transaction()
            .isolation_level(postgres::IsolationLevel::RepeatableRead)
            .start()?;
        snapshot.execute("SELECT", &[])?;
        rates.extend(periods_of(peer, periods, seconds)?);
        snapshot.rollback()?;
        Ok(rates)
    });
    Ok(section(
        "Lifecycles beside an old snapshot",
        seconds,
        rates,
        format!(
            "First {seconds} s without, then {periods} periods beside a repeatable read transaction that has \
             a snapshot and does nothing; the ratio is to the first."
        ),
    ))
}

type Courses = Vec<(String, Vec<f64>)>;

fn courses(
    peers: &mut Peers,
    mut course: impl FnMut(&mut dyn Peer) -> Result<Vec<f64>>,
) -> Courses {
    let mut courses = Vec::new();
    peers.each(Work::Lifecycle, |peer| {
        peer.fill(BACKLOG, COMMIT)?;
        courses.push((peer.name().to_owned(), course(peer)?));
        Ok(())
    });
    courses
}

fn periods_of(peer: &mut dyn Peer, periods: u32, seconds: u32) -> Result<Vec<f64>> {
    let load = Load { clients: CLIENTS, commit: COMMIT, length: Length::Seconds(seconds) };
    let mut rates = Vec::new();
    for period in 1..=periods {
        watchdog::enter(format!("lifecycles of {}, period {period}", peer.name()));
        rates.push(peer.run(Work::Lifecycle, &load)?);
    }
    Ok(rates)
}

fn section(title: &'static str, seconds: u32, courses: Courses, note: String) -> Section {
    let mut rows = Vec::new();
    for (name, rates) in &courses {
        for (period, rate) in (1..).zip(rates) {
            let until = format!("{} s", period * seconds);
            let ratio = format!("{:.2}", rate / rates[0]);
            rows.push(vec![name.clone(), until, format!("{rate:.0}"), ratio]);
        }
    }
    Section {
        title,
        header: vec!["by", "until", "tasks per second", "to the first"],
        rows,
        notes: vec![format!(
            "put, take, ack by {CLIENTS} clients, synchronous_commit {COMMIT}. {note}"
        )],
        plot: Some(Plot::Lines(Lines { unit: "tasks per second", step: seconds, lines: courses })),
    }
}
