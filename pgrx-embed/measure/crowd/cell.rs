//! The measurement of one child in a comparison: one kind, with one number of clients.

use super::kind::Kind;
use super::round::Round;
use super::selection::Selection;
use crate::effort::Effort;
use crate::{Result, peer};

pub struct Cell {
    pub kind: Kind,
    pub round: Round,
}

impl Cell {
    /// Returns the cell if the selection names exactly one of each.
    pub fn of(selection: &Selection) -> Option<Cell> {
        let Selection { kinds, clients, commits } = selection;
        let ([kind], [clients], [commit]) = (&kinds[..], &clients[..], &commits[..]) else {
            return None;
        };
        let round = Round { group: kind.group, clients: *clients, commit };
        Some(Cell { kind: *kind, round })
    }

    /// Runs as a child of `compare`. Returns the rate and the 99th percentile of a take in microseconds.
    pub fn measure(&self, effort: &Effort) -> Result<String> {
        let mut peer = peer::of_variant(self.kind.way.contender(), self.kind.group.variant)?;
        self.round.fill(&mut *peer, effort)?;
        let timed = self.round.run(&mut *peer, effort)?.ok_or("its takes are not timed")?;
        Ok(format!("{} {}", timed.per_second, timed.takes.percentile(0.99)))
    }

    pub fn arguments(&self) -> Vec<String> {
        let Round { clients, commit, .. } = self.round;
        let selection =
            ["--kind", &self.kind.name(), "--clients", &clients.to_string(), "--commit", commit]
                .map(str::to_owned);
        ["round".to_owned()].into_iter().chain(selection).collect()
    }
}
