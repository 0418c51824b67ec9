//! Takes from sub-queues, one task from each. Shared memory knows which sub-queues are worth a look, see
//! [`xqueue_core::subqueues`]. Only the table knows which tasks can be taken there, and in which order.

pub mod by_hand;
mod in_flight;
mod level;
mod look;
mod ring;

use crate::error::Result;
use crate::parts::waiters::Offer;
use crate::parts::{slot, subqueues};
use crate::queue::{Arguments, Queue, Statement};
use crate::server::spi::{self, Rows, Spi};
use crate::server::xact;
use crate::transaction;
use crate::write::passed::Passed;
use look::Looked;
use xqueue_core::level::{LAST as LAST_LEVEL, Level, UNKNOWN};
use xqueue_core::position::FIRST;
use xqueue_core::slot_id::SlotId;
use xqueue_core::subqueues::{Back, Refusal, Scan};

/// A take from sub-queues.
pub struct Take<'a> {
    pub queue: &'a Queue,
    pub passed: Passed<'a>,
    /// Whether `arguments` hold a time to run.
    pub ttr: bool,
    pub arguments: Arguments<'a>,
}

/// The result of a take from a claimed sub-queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Taken,
    /// The first task is not available at present.
    Kept,
    /// The first task comes after those of other sub-queues; the sub-queue is back in the ring, by its level.
    Later,
    /// There was no task to take. If that has changed since, the sub-queue is back in the ring.
    Dropped,
}

/// A take's search for sub-queues that have a task to take.
#[derive(Default)]
struct Search {
    /// Number of sub-queues of the ring that the take has yet to try.
    looks: u32,
    /// Sub-queues found in the table for which the ring has no room.
    spare: Vec<u64>,
    /// There was no room even for a claim.
    no_room: bool,
    /// Number of times that the end of the table's index was reached.
    ends: u32,
    /// Where to continue, in a snapshot that cannot complete the ring.
    part: Option<Scan>,
}

impl Search {
    fn is_over(&self) -> bool {
        self.looks == 0 && self.spare.is_empty()
    }
}

impl Take<'_> {
    /// Takes up to `count` tasks, or one task if only one sub-queue is wanted.
    pub fn run(
        &mut self,
        spi: &Spi,
        count: usize,
        only: Option<u64>,
        mut see: impl FnMut(&Rows) -> Result<()>,
    ) -> Result<usize> {
        match only {
            Some(subqueue) => self.take_from_one(spi, subqueue, &mut see),
            None if self.queue.has_levels() => self.take_by_level(spi, count, &mut see),
            None => self.take_in_turns(spi, count, &mut see),
        }
    }

    fn take_from_one(
        &mut self,
        spi: &Spi,
        subqueue: u64,
        see: &mut impl FnMut(&Rows) -> Result<()>,
    ) -> Result<usize> {
        if transaction::pending_subqueue(self.queue.slot, subqueue).is_left() {
            return Ok(self.look(spi, subqueue, LAST_LEVEL, see)?.tasks());
        }
        let slot = self.queue.slot;
        match claim(slot, subqueue) {
            Ok(subqueue) => {
                if self.take_from_claimed(spi, subqueue, see)? == Found::Taken {
                    return Ok(1);
                }
                self.pass_on();
                Ok(0)
            }
            Err(Refusal::InUse) => {
                self.pass_on();
                Ok(0)
            }
            Err(Refusal::NoRoom) => Err(by_hand::too_many(self.queue)),
        }
    }

    /// Takes from the sub-queues in the order in which they were last served.
    fn take_in_turns(
        &mut self,
        spi: &Spi,
        count: usize,
        see: &mut impl FnMut(&Rows) -> Result<()>,
    ) -> Result<usize> {
        let slot = self.queue.slot;
        let mut taken = 0;
        // Sub-queues whose first task is not available at present return to the ring.
        let mut vain = Vec::new();
        let mut search = Search { looks: subqueues::waiting(slot), ..Search::default() };
        while taken < count && !self.passed.is_exhausted() {
            let spare = if search.looks == 0 { search.spare.pop() } else { None };
            if search.looks == 0 && spare.is_none() {
                self.find_subqueues(spi, &mut search, vain.len() as u32);
                if search.is_over() {
                    break;
                }
                continue;
            }
            search.looks = search.looks.saturating_sub(1);
            match spare.map_or_else(|| claim_next(slot), |subqueue| claim(slot, subqueue)) {
                Ok(subqueue) => match self.take_from_claimed(spi, subqueue, see)? {
                    Found::Taken => taken += 1,
                    Found::Kept if spare.is_some() || vain.contains(&subqueue) => {}
                    Found::Kept => vain.push(subqueue),
                    Found::Later => {}
                    Found::Dropped => vain.retain(|known| *known != subqueue),
                },
                Err(Refusal::InUse) if spare.is_some() => {}
                Err(Refusal::InUse) => search.looks = 0,
                Err(Refusal::NoRoom) => {
                    search.no_room = true;
                    break;
                }
            }
        }
        if taken < count {
            taken += self.take_from_own(spi, count - taken, see)?;
        }
        if taken == 0 && search.no_room {
            return Err(by_hand::too_many(self.queue));
        }
        Ok(taken)
    }

    /// Takes from the sub-queues that only this transaction knows: sub-queues that it has claimed, freed by its acks,
    /// or put into.
    fn take_from_own(
        &mut self,
        spi: &Spi,
        count: usize,
        see: &mut impl FnMut(&Rows) -> Result<()>,
    ) -> Result<usize> {
        let slot = self.queue.slot;
        let mut taken = 0;
        for (subqueue, change) in transaction::pending_subqueues(slot).iter() {
            if taken == count || self.passed.is_exhausted() {
                break;
            }
            if change.is_left() {
                taken += self.look(spi, subqueue, LAST_LEVEL, see)?.tasks();
            } else if change.offers && !change.exhausted && claim(slot, subqueue).is_ok() {
                let found = self.take_from_claimed(spi, subqueue, see)?;
                taken += usize::from(matches!(found, Found::Taken));
            }
        }
        Ok(taken)
    }

    /// Takes from a sub-queue that this transaction has just claimed.
    fn take_from_claimed(
        &mut self,
        spi: &Spi,
        subqueue: u64,
        see: &mut impl FnMut(&Rows) -> Result<()>,
    ) -> Result<Found> {
        let found = self.try_claimed(spi, subqueue, LAST_LEVEL, see)?;
        if found == Found::Kept {
            give_back(self.queue, subqueue, Back::Tail);
        }
        Ok(found)
    }

    /// Takes from a claimed sub-queue if its first task is within a limit. A sub-queue with the result `Kept` stays
    /// claimed.
    fn try_claimed(
        &mut self,
        spi: &Spi,
        subqueue: u64,
        limit: Level,
        see: &mut impl FnMut(&Rows) -> Result<()>,
    ) -> Result<Found> {
        let slot = self.queue.slot;
        let looked = self.look(spi, subqueue, limit, see)?;
        // Changes that only this transaction sees can be rolled back, an old snapshot does not show new tasks, and row
        // security hides some.
        let sees_otherwise = || {
            transaction::pending_subqueue(slot, subqueue).is_seen_otherwise()
                || self.queue.may_be_changing()
                || self.queue.has_row_security
                || xact::has_fixed_snapshot()
        };
        let stays = match looked {
            Looked::Taken => return Ok(Found::Taken),
            // The taken task can be one of a statement in progress, which can still fail.
            Looked::Busy => self.queue.may_be_changing(),
            Looked::Later => {
                give_back(self.queue, subqueue, Back::Tail);
                return Ok(Found::Later);
            }
            Looked::Locked => true,
            Looked::Nothing => sees_otherwise(),
            // Another transaction might have locked the task's row.
            Looked::InVain => sees_otherwise() || self.is_takeable(spi, subqueue),
        };
        if !stays {
            give_back(self.queue, subqueue, Back::Away);
            return Ok(Found::Dropped);
        }
        // This transaction sees no task, but other transactions possibly do.
        if looked == Looked::Nothing {
            subqueues::end_look(slot, subqueue, FIRST, UNKNOWN);
        }
        Ok(Found::Kept)
    }

    /// Offers the next sub-queue to a consumer. The wake-up of a consumer that wants one sub-queue, and found no task
    /// there, was possibly meant for a consumer that would take from any. It is no new wake-up: two consumers that find
    /// nothing would wake each other for ever.
    fn pass_on(&self) {
        if let Some(mut queue) = slot::lock(self.queue.slot)
            && let Some(subqueue) = subqueues::next(self.queue.slot)
        {
            queue.waiters().offer_again(subqueue);
        }
    }
}

/// Takes the task whose key `arguments` hold, by `take`, if no other task of its sub-queue is in flight.
pub fn take_named(
    queue: &Queue,
    arguments: &Arguments,
    take: impl FnOnce() -> Result<usize>,
) -> Result<usize> {
    let slot = queue.slot;
    let subqueue = spi::connect(|spi| {
        let rows = queue.run(spi, &Statement::SubqueueOfTask, arguments);
        rows.value(0, 1).map(|subqueue| subqueue.to_integer() as u64)
    });
    let Some(subqueue) = subqueue else { return Ok(0) };
    // Even in an exhausted sub-queue a given task can be there.
    let is_own = transaction::pending_subqueue(slot, subqueue).is_own();
    if !is_own && claim(slot, subqueue).is_err() {
        return Ok(0);
    }
    let taken = if in_flight::is_free(queue, subqueue)? { take()? } else { 0 };
    if taken == 0 && !is_own {
        give_back(queue, subqueue, Back::Tail);
    }
    Ok(taken)
}

/// Claims a sub-queue out of its turn. Only the first claim of a transaction can use the memory that is reserved, so that
/// no transaction keeps others from their first.
fn claim(slot: SlotId, subqueue: u64) -> std::result::Result<u64, Refusal> {
    let claim = match transaction::holds_subqueue() {
        true => subqueues::claim_if_room,
        false => subqueues::claim,
    };
    transaction::note(slot, |delta| delta.subqueues.claim(|| claim(slot, subqueue)))
}

/// Claims the next sub-queue of the ring.
fn claim_next(slot: SlotId) -> std::result::Result<u64, Refusal> {
    let next = || subqueues::claim_next(slot).map(|next| next.subqueue).ok_or(Refusal::InUse);
    transaction::note(slot, |delta| delta.subqueues.claim(next))
}

/// Gives back a sub-queue that this transaction has claimed without taking a task. Keeps it if code of a user, called
/// meanwhile, has taken a task under the claim.
fn give_back(queue: &Queue, subqueue: u64, to: Back) {
    if transaction::pending_subqueue(queue.slot, subqueue).taken > 0 {
        return;
    }
    transaction::note(queue.slot, |delta| delta.subqueues.unclaim(subqueue));
    if subqueues::give_back(queue.slot, subqueue, to)
        && let Some(mut slot) = slot::lock(queue.slot)
    {
        slot.waiters().wake(1, Offer { tube: Some(subqueue) });
    }
}
