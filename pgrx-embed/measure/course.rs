//! Lifecycles without a pause, period by period: does the rate stay? And does it beside a transaction that
//! keeps an old snapshot, so that VACUUM removes nothing?

use crate::effort::Effort;
use crate::peer::{self, Load, Peer, Peers, Work};
use crate::pgbench::Length;
use crate::plot::{Lines, Plot};
use crate::report::Section;
use crate::snapshot::OldSnapshot;
use crate::{Result, watchdog};

const CLIENTS: u32 = 4;
/// Ready tasks, in each sub-queue if there are any, besides those of the lifecycles, so that no take finds all of them locked.
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
    let courses = courses(peers, |peer| beside_snapshot(peer, effort));
    Ok(pinned_section("Lifecycles beside an old snapshot", effort, courses, ""))
}

pub fn utube_pinned(effort: &Effort, peers: &mut Peers) -> Result<Section> {
    let mut courses = Courses::new();
    for mut peer in peer::with_sub_queues()? {
        if peers.named(peer.name()).is_some() {
            peer.fill(BACKLOG, COMMIT)?;
            courses.push((peer.name().to_owned(), beside_snapshot(&mut *peer, effort)?));
        }
    }
    Ok(pinned_section(
        "Lifecycles in sub-queues beside an old snapshot",
        effort,
        courses,
        " Ten sub-queues (utube), of which one task is in flight at a time; a put goes to any of them. By hand a row \
         for each sub-queue says whether it is busy.",
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

fn beside_snapshot(peer: &mut dyn Peer, effort: &Effort) -> Result<Vec<f64>> {
    let (periods, seconds) = effort.pinned;
    let mut rates = periods_of(peer, 1, seconds)?;
    let _snapshot = OldSnapshot::take()?;
    rates.extend(periods_of(peer, periods, seconds)?);
    Ok(rates)
}

fn pinned_section(title: &'static str, effort: &Effort, courses: Courses, more: &str) -> Section {
    let (periods, seconds) = effort.pinned;
    section(
        title,
        seconds,
        courses,
        format!(
            "First {seconds} s without, then {periods} periods beside a repeatable read transaction that has \
             a snapshot and does nothing; the ratio is to the first.{more}"
        ),
    )
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
