//! Takes from sub-queues with priorities. The sub-queue with the most urgent first task goes first; among equals, the
//! one that has waited longest for its turn.

use crate::error::Result;
use crate::parts::subqueues;
use crate::server::spi::{Rows, Spi};
use crate::server::xact;
use crate::transaction;
use crate::write::start;
use crate::write::subqueues::{Found, Take, claim, give_back};
use xqueue_core::level::{LAST, Level};
use xqueue_core::slot_id::SlotId;
use xqueue_core::subqueues::Back;

/// Maximum number of the transaction's own sub-queues whose level is looked up; the others are tried once there is
/// nothing else left.
const OWN_SUBQUEUES: usize = 100;

/// Maximum number of sub-queues that a take gives back because they are less urgent than recorded; beyond it the take
/// ignores levels.
const CORRECTIONS: u32 = 100_000;

/// A sub-queue known only to this transaction, and the level of its first task.
type Own = (Level, u64);

impl Take<'_> {
    pub(super) fn take_by_level(
        &mut self,
        spi: &Spi,
        count: usize,
        see: &mut impl FnMut(&Rows) -> Result<()>,
    ) -> Result<usize> {
        let slot = self.queue.slot;
        match xact::is_serializable() {
            true => self.read_all(spi),
            false => self.complete_ring(spi),
        }
        let mut own = self.own_subqueues(spi);
        let mut corrections = CORRECTIONS;
        // Sub-queues that stay claimed do not return to the ring.
        let mut kept = Vec::new();
        let mut taken = 0;
        while taken < count && !self.passed.is_exhausted() {
            let own_level = own.last().map(|(level, _)| *level);
            if let Some((_, subqueue)) = own.pop_if(|(level, _)| is_first(slot, *level)) {
                taken += self.take_from_own_subqueue(spi, subqueue, see)?;
                continue;
            }
            let mut next = None;
            let claim = || {
                next = subqueues::claim_next(slot);
                next.map(|next| next.subqueue).ok_or(())
            };
            let claimed = transaction::note(slot, |delta| delta.subqueues.claim(claim));
            let (Ok(subqueue), Some(next)) = (claimed, next) else { break };
            let limit = if corrections > 0 { next.limit(own_level) } else { LAST };
            match self.try_claimed(spi, subqueue, limit, see)? {
                Found::Taken => taken += 1,
                Found::Later => corrections -= 1,
                Found::Kept => kept.push(subqueue),
                Found::Dropped => {}
            }
        }
        for subqueue in kept {
            give_back(self.queue, subqueue, Back::Tail);
        }
        if taken < count {
            let is_complete = subqueues::begin_scan(slot).is_none();
            taken += match is_complete && !start::searches_all(self.queue) {
                true => self.take_from_own(spi, count - taken, see)?,
                false => self.take_in_turns(spi, count - taken, see)?,
            };
        }
        Ok(taken)
    }

    /// Returns the sub-queues that only this transaction knows and that have a task to take, the most urgent one last.
    fn own_subqueues(&self, spi: &Spi) -> Vec<Own> {
        let pending = transaction::pending_subqueues(self.queue.slot);
        let may_have_some = pending
            .iter()
            .filter(|(_, change)| change.is_left() || change.offers && !change.exhausted);
        let level = |subqueue| Some((self.first_level(spi, subqueue)?, subqueue));
        let subqueues = may_have_some.take(OWN_SUBQUEUES).map(|(subqueue, _)| subqueue);
        let mut own: Vec<Own> = subqueues.filter_map(level).collect();
        own.sort_by_key(|(level, _)| std::cmp::Reverse(*level));
        own
    }

    fn take_from_own_subqueue(
        &mut self,
        spi: &Spi,
        subqueue: u64,
        see: &mut impl FnMut(&Rows) -> Result<()>,
    ) -> Result<usize> {
        let slot = self.queue.slot;
        if transaction::pending_subqueue(slot, subqueue).is_left() {
            return Ok(self.look(spi, subqueue, LAST, see)?.tasks());
        }
        if claim(slot, subqueue).is_err() {
            return Ok(0);
        }
        let found = self.take_from_claimed(spi, subqueue, see)?;
        Ok(usize::from(found == Found::Taken))
    }
}

/// Returns whether a level comes before all levels in the ring; an equal level does not.
fn is_first(slot: SlotId, level: Level) -> bool {
    subqueues::least_level(slot).is_none_or(|others| level < others)
}
