//! The figures that two builds are compared by: one number each, from its own queue.

use crate::effort::Effort;
use crate::killed::Poll;
use crate::numbers::Sample;
use crate::peer::{self, Load, MANY, Peer, Work};
use crate::pgbench::Length;
use crate::snapshot::OldSnapshot;
use crate::{Result, wake};

/// Ready tasks in addition to the lifecycles' tasks, so that no take finds all of them locked.
const STOCK: u32 = 1000;
const CLIENTS: u32 = 4;
/// synchronous_commit off: the time of flushes would hide the difference.
const COMMIT: &str = "off";

#[derive(Clone, Copy, PartialEq)]
pub enum Unit {
    TasksPerSecond,
    Microseconds,
}

pub struct Figure {
    pub name: &'static str,
    pub unit: Unit,
    pub measure: fn(&Effort) -> Result<f64>,
}

pub const FIGURES: [Figure; 13] = [
    per_second("put", |effort| steady(peer::ROWS, Work::Put, effort)),
    per_second("lifecycle-rows", |effort| steady(peer::ROWS, Work::Lifecycle, effort)),
    per_second("lifecycle-jsonb", |effort| steady("xqueue-jsonb", Work::Lifecycle, effort)),
    per_second("lifecycle-done", |effort| steady("xqueue-done", Work::Lifecycle, effort)),
    per_second("lifecycle-next", |effort| steady("xqueue-next", Work::Lifecycle, effort)),
    per_second("insert", |effort| steady("xqueue-insert", Work::Put, effort)),
    per_second("batch-put", |effort| steady(peer::ROWS, Work::PutMany, effort)),
    per_second("batch-take", batch_take),
    per_second("pinned", |effort| beside_snapshot(&mut *peer::named(peer::ROWS)?, effort)),
    per_second("utube", |effort| run(&mut *sub_queues()?, Work::Lifecycle, effort)),
    per_second("utube-pinned", |effort| beside_snapshot(&mut *sub_queues()?, effort)),
    microseconds("killed", killed),
    microseconds("wake", |effort| wake::median(16, COMMIT, effort.wakes)),
];

const fn per_second(name: &'static str, measure: fn(&Effort) -> Result<f64>) -> Figure {
    Figure { name, unit: Unit::TasksPerSecond, measure }
}

const fn microseconds(name: &'static str, measure: fn(&Effort) -> Result<f64>) -> Figure {
    Figure { name, unit: Unit::Microseconds, measure }
}

impl Figure {
    pub fn named(name: &str) -> Option<&'static Figure> {
        FIGURES.iter().find(|figure| figure.name == name)
    }

    /// Returns the speed of the new build relative to the old one.
    pub fn ratio(&self, new: f64, old: f64) -> f64 {
        match self.unit {
            Unit::TasksPerSecond => new / old,
            Unit::Microseconds => old / new,
        }
    }
}

fn steady(name: &str, work: Work, effort: &Effort) -> Result<f64> {
    run(&mut *peer::named(name)?, work, effort)
}

fn run(peer: &mut dyn Peer, work: Work, effort: &Effort) -> Result<f64> {
    peer.fill(STOCK, COMMIT)?;
    peer.run(work, &load(Length::Seconds(effort.seconds)))
}

/// Measures a fixed number of batches: a fixed time would use up the backlog.
fn batch_take(effort: &Effort) -> Result<f64> {
    let mut peer = peer::named(peer::ROWS)?;
    peer.fill(effort.backlog, COMMIT)?;
    let batches = effort.backlog * 9 / 10 / MANY / CLIENTS;
    peer.run(Work::TakeAndAckMany, &load(Length::Calls(batches)))
}

/// Returns the rate of the second period. In the first period, rows that VACUUM cannot remove accumulate.
fn beside_snapshot(peer: &mut dyn Peer, effort: &Effort) -> Result<f64> {
    peer.fill(STOCK, COMMIT)?;
    let _snapshot = OldSnapshot::take()?;
    let load = load(Length::Seconds(effort.seconds));
    peer.run(Work::Lifecycle, &load)?;
    peer.run(Work::Lifecycle, &load)
}

fn killed(effort: &Effort) -> Result<f64> {
    let mut poll = Poll::open()?;
    let mut times = Sample::default();
    for _ in 0..effort.kills.div_ceil(10) {
        times.add_duration(poll.killed(0)?);
    }
    Ok(times.median())
}

fn sub_queues() -> Result<Box<dyn Peer>> {
    let [_, ours] = peer::with_sub_queues()?;
    Ok(ours)
}

fn load(length: Length) -> Load {
    Load { clients: CLIENTS, commit: COMMIT, length }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_above_one_is_faster() {
        let ratio = |name, new, old| Figure::named(name).map(|figure| figure.ratio(new, old));
        assert_eq!(ratio("put", 1200.0, 1000.0), Some(1.2));
        assert_eq!(ratio("wake", 100.0, 150.0), Some(1.5));
        assert!(Figure::named("in-server").is_none());
    }
}
