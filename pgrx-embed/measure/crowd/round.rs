//! A round: one contender, one number of clients.

use super::kind::Group;
use crate::effort::Effort;
use crate::peer::{Load, MANY, Peer, Timed, Work};
use crate::pgbench::{Length, warm_up};
use crate::{Result, watchdog};

#[derive(Clone, Copy)]
pub struct Round {
    pub group: Group,
    pub clients: u32,
    /// synchronous_commit
    pub commit: &'static str,
}

impl Round {
    /// Fills the contender's queue before the timed part.
    pub fn fill(&self, peer: &mut dyn Peer, effort: &Effort) -> Result<()> {
        let (title, clients, commit) = (self.group.title(), self.clients, self.commit);
        watchdog::enter(format!("{title}, {}, {clients} clients, commit {commit}", peer.name()));
        let (_, each) = self.stock(effort);
        peer.fill(each, commit)
    }

    pub fn run(&self, peer: &mut dyn Peer, effort: &Effort) -> Result<Option<Timed>> {
        let (stock, _) = self.stock(effort);
        let length = match self.group.work {
            // Leaves some tasks, so that no consumer finds an empty queue.
            Work::TakeAndAckMany => Length::Calls(stock * 9 / 10 / MANY / self.clients),
            _ => Length::Seconds(effort.seconds),
        };
        let load = Load { clients: self.clients, commit: self.commit, length };
        let timed = peer.run_timed(self.group.work, &load)?;
        let taken = timed.as_ref().map_or(0.0, |timed| timed.tasks);
        let is_limited = self.group.work == Work::TakeAndAck && !peer.only_reads();
        if is_limited && taken > 0.95 * f64::from(stock) {
            return Err(format!("the backlog of {stock} tasks was at an end").into());
        }
        Ok(timed)
    }

    fn stock(&self, effort: &Effort) -> (u32, u32) {
        self.group.stock(effort.seconds + warm_up(self.clients), effort.backlog)
    }
}
