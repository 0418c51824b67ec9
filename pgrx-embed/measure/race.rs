//! A race of all contenders that support a work, in turn and in several rounds, compared with SQL written by hand.

use crate::effort::Effort;
use crate::numbers::Sample;
use crate::peer::{HAND, Load, MANY, Peers, Work};
use crate::pgbench::Length;
use crate::plot::{Bars, Plot};
use crate::report::Section;
use crate::{Result, watchdog};

pub const COMMITS: [&str; 2] = ["on", "off"];

pub struct Race {
    pub title: &'static str,
    pub work: Work,
    pub clients: u32,
    /// Ready tasks at the start of each round.
    pub stock: u32,
    pub note: &'static str,
}

impl Race {
    /// Runs with synchronous_commit on, and off.
    pub fn run(&self, effort: &Effort, peers: &mut Peers) -> Result<Section> {
        let mut rows = Vec::new();
        let mut groups = Vec::new();
        for commit in COMMITS {
            let results = self.rounds(effort, peers, commit);
            let hand =
                results.iter().find(|(name, _)| name == HAND).map(|(_, rates)| rates.median());
            let mut bars = Vec::new();
            for (name, rates) in results {
                let range = [0.0, 1.0].map(|share| format!("{:.0}", rates.percentile(share)));
                let ratio = hand.map(|hand| format!("{:.2}", rates.median() / hand));
                rows.push(vec![
                    name.clone(),
                    commit.into(),
                    format!("{:.0}", rates.median()),
                    range.join(" … "),
                    ratio.unwrap_or_default(),
                ]);
                bars.push((name, rates.median()));
            }
            groups.push((format!("synchronous_commit {commit}"), bars));
        }
        let (rounds, seconds) = (effort.rounds, effort.seconds);
        let length = match self.work {
            Work::TakeAndAckMany => format!("of {} batches for each client", self.batches()),
            _ => format!("of {seconds} s"),
        };
        Ok(Section {
            title: self.title,
            header: vec![
                "by",
                "synchronous_commit",
                "tasks per second",
                "range",
                "to hand-written",
            ],
            rows,
            notes: vec![
                format!(
                    "{} clients. Median of {rounds} rounds {length}, in turn; before each the queue is \
                     emptied, filled with {} ready tasks and vacuumed.",
                    self.clients, self.stock
                ),
                self.note.into(),
            ],
            plot: Some(Plot::Bars(Bars { unit: "tasks per second", groups })),
        })
    }

    fn rounds(
        &self,
        effort: &Effort,
        peers: &mut Peers,
        commit: &'static str,
    ) -> Vec<(String, Sample)> {
        let length = match self.work {
            // A fixed time would use up the stock.
            Work::TakeAndAckMany => Length::Calls(self.batches()),
            _ => Length::Seconds(effort.seconds),
        };
        let load = Load { clients: self.clients, commit, length };
        let mut results: Vec<(String, Sample)> = Vec::new();
        for _ in 0..effort.rounds {
            peers.each(self.work, |peer| {
                let name = peer.name().to_owned();
                watchdog::enter(format!("{}, {name}, synchronous_commit {commit}", self.title));
                peer.fill(self.stock, commit)?;
                let rate = peer.run(self.work, &load)?;
                match results.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, rates)) => rates.add(rate),
                    None => results.push((name, Sample::from_iter([rate]))),
                }
                Ok(())
            });
        }
        results
    }

    /// Returns the number of batches that leaves some tasks, so that no consumer finds an empty queue.
    fn batches(&self) -> u32 {
        self.stock * 9 / 10 / MANY / self.clients
    }
}
