//! Lifecycles without a pause, period by period: does the rate stay constant? Does it also stay while a transaction
//! holds an old snapshot, so that VACUUM removes nothing?

use crate::effort::{Effort, Pinned};
use crate::peer::{self, Load, Peer, Peers, Work};
use crate::pgbench::Length;
use crate::plot::{Lines, Plot};
use crate::report::Section;
use crate::snapshot::OldSnapshot;
use crate::{Result, watchdog};

const CLIENTS: u32 = 4;
/// Ready tasks, in each sub-queue if there are any, in addition to the tasks of the lifecycles. No take finds all of
/// them locked.
const BACKLOG: u32 = 1000;
const COMMIT: &str = "off";

pub fn flat(effort: &Effort, peers: &mut Peers) -> Result<Section> {
    let (periods, seconds) = effort.flat;
    let rates = courses(peers, |peer| periods_of(peer, periods, seconds));
    Ok(section(
        "Lifecycles minute by minute",
        1,
        seconds,
        rates,
        format!("{periods} periods of {seconds} s without a pause; the ratio is to the first."),
    ))
}

pub fn pinned(effort: &Effort, peers: &mut Peers) -> Result<Section> {
    let courses = courses(peers, |peer| beside_snapshot(peer, effort));
    Ok(pinned_section("Lifecycles under an old snapshot", effort, courses, ""))
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
        "Lifecycles in sub-queues under an old snapshot",
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

/// Returns the rates of periods without an old snapshot, and then under one.
pub fn beside_snapshot(peer: &mut dyn Peer, effort: &Effort) -> Result<Vec<f64>> {
    let Pinned { before, beside, seconds } = effort.pinned;
    let mut rates = periods_of(peer, before, seconds)?;
    let _snapshot = OldSnapshot::take()?;
    rates.extend(periods_of(peer, beside, seconds)?);
    Ok(rates)
}

fn pinned_section(title: &'static str, effort: &Effort, courses: Courses, more: &str) -> Section {
    let Pinned { before, beside, seconds } = effort.pinned;
    let first = before * seconds;
    section(
        title,
        before,
        seconds,
        courses,
        format!(
            "First {first} s without, then {beside} periods of {seconds} s beside a repeatable read transaction that has \
             a snapshot and does nothing; the ratio is to the first {first} s.{more}"
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

/// Makes a section of the courses. `first` is the number of periods in the baseline, and in the mean of each row.
fn section(
    title: &'static str,
    first: u32,
    seconds: u32,
    courses: Courses,
    note: String,
) -> Section {
    let mut rows = Vec::new();
    let mut notes =
        vec![format!("put, take, ack by {CLIENTS} clients, synchronous_commit {COMMIT}. {note}")];
    for (name, rates) in &courses {
        let (means, least) = summary(rates, first as usize);
        for (until, rate) in (1..).map(|row| until(row * first, seconds)).zip(&means) {
            let ratio = format!("{:.2}", rate / means[0]);
            rows.push(vec![name.clone(), until, format!("{rate:.0}"), ratio]);
        }
        if first > 1 {
            notes
                .push(format!("{name}: the slowest {seconds} s had {least:.2} of the first rate."));
        }
    }
    let periods = courses.iter().map(|(_, rates)| rates.len()).max().unwrap_or(0) as u32;
    let labels = (1..=periods).map(|period| until(period, seconds)).collect();
    Section {
        title,
        header: vec!["by", "until", "tasks per second", "to the first"],
        rows,
        notes,
        plot: Some(Plot::Lines(Lines { unit: "tasks per second", labels, lines: courses })),
    }
}

/// Returns the mean of each `periods` periods, and the lowest rate of a period relative to the first mean.
fn summary(rates: &[f64], periods: usize) -> (Vec<f64>, f64) {
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
    let means: Vec<_> = rates.chunks(periods).map(mean).collect();
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let ratio = means.first().map_or(f64::NAN, |first| least / first);
    (means, ratio)
}

fn until(period: u32, seconds: u32) -> String {
    format!("{} s", period * seconds)
}

#[cfg(test)]
mod tests {
    use super::summary;

    #[test]
    fn a_minute_is_the_mean_of_its_periods() {
        let (means, least) = summary(&[100.0, 300.0, 150.0, 50.0, 70.0], 2);
        assert_eq!(means, [200.0, 100.0, 70.0]);
        assert_eq!(least, 0.25);
        assert_eq!(summary(&[10.0, 9.0], 1), (vec![10.0, 9.0], 0.9));
    }
}
