//! Takes of candidates that another take has read ahead, see [`xqueue_core::marks::ring`].

use crate::parts::marks::claim::Claim;
use crate::parts::shortcuts::{self, Shortcut};
use crate::parts::slot;
use crate::queue::{Arguments, Queue, Start};
use crate::server::heap::{Bound, FoundRow, Holder, Is, Open, ScanStep};
use crate::server::{injection, operators, time, xact};
use crate::write::assign::applies;
use crate::write::direct::attempt::{Attempt, Attempts};
use crate::write::start;
use pgrx::pg_sys::Oid;
use xqueue_core::change::StateAndTube;
use xqueue_core::field::Field;
use xqueue_core::marks::candidate::{Candidate, Handed, More, Read, Refill};
use xqueue_core::order::Ties;
use xqueue_core::position::{FIRST, Group};
use xqueue_core::statement::Parameter;
use xqueue_core::statement::rule::Applies;
use xqueue_core::status::Status;

/// Maximum number of successive candidates that cannot be taken; beyond it the index is searched.
const MISSES: usize = 8;

/// A take that has read ahead but is handed no candidate reads again at most once per this number of wanted tasks. Its
/// tasks were possibly handed to other takes.
const TASKS_PER_READ: usize = 32;

/// The candidates that a take was handed out.
pub struct Ahead {
    claim: Claim,
    handed: Handed,
    more: More,
}

/// The group that a take searches, and how to find its tasks.
#[derive(Clone, Copy)]
pub struct Search<'take, 'call> {
    pub group: Group,
    pub index: Oid,
    pub arguments: &'take Arguments<'call>,
    /// The number of tasks wanted.
    pub tasks: usize,
}

/// Hands out the next candidates of a group, if its ring can be used. The take must look at them under a younger
/// snapshot.
pub fn begin(queue: &Queue, group: Group, tasks: usize) -> Option<Ahead> {
    start::may_read_ahead(queue, group).then(|| hand_out(queue, group, tasks))
}

fn hand_out(queue: &Queue, group: Group, tasks: usize) -> Ahead {
    let mut more = More::besides_one(tasks);
    injection::point(c"xqueue-candidate-is-wanted");
    let (claim, now) = (Claim::begin(queue.slot), time::now());
    let handed =
        slot::lock(queue.slot).map(|mut slot| slot.marks().hand_out(group, &mut more, now));
    injection::point(c"xqueue-candidate-is-handed-out");
    Ahead { claim, handed: handed.unwrap_or_default(), more }
}

/// Tries candidates. Returns whether the index has to be searched for more. A claim that is dropped discards the rings.
pub fn take(search: Search, open: &mut Open, mut ahead: Ahead, attempts: &mut Attempts) -> bool {
    let queue = attempts.queue;
    let mut taking = Taking { search, open, attempts, misses: 0, reads: 0 };
    loop {
        if let Some(is_to_search) = taking.follow(ahead) {
            return is_to_search;
        }
        ahead = hand_out(queue, search.group, search.tasks - taking.attempts.rows.len());
        taking.open.renew_snapshot();
    }
}

/// A take that works through its candidates.
struct Taking<'now, 'heap, 'take, 'call, 'passed> {
    search: Search<'now, 'now>,
    open: &'now mut Open<'heap>,
    attempts: &'now mut Attempts<'take, 'call, 'passed>,
    /// Number of candidates since the last one that was taken.
    misses: usize,
    reads: usize,
}

impl Taking<'_, '_, '_, '_, '_> {
    /// Follows the ring's instructions. At the end, returns whether the index has to be searched.
    fn follow(&mut self, Ahead { claim, handed, more }: Ahead) -> Option<bool> {
        if let Some(refill) = handed.refill {
            let is_often = self.reads > self.search.tasks / TASKS_PER_READ;
            if is_often && handed.candidate.is_none() {
                self.give_up(claim, &handed);
                return Some(true);
            }
            let there_are_some = self.read_ahead(&refill);
            if refill.from == FIRST && handed.candidate.is_none() && !there_are_some {
                claim.end();
                return Some(false);
            }
            self.reads += 1;
        }
        if let Some(locker) = ended_locker(&handed) {
            if let Some(mut slot) = slot::lock(self.attempts.queue.slot) {
                slot.marks().locker_ended(&handed, locker);
            }
            claim.end();
            return Some(true);
        }
        if handed.candidate.is_none() && handed.refill.is_none() {
            claim.end();
            return Some(true);
        }
        let mut candidates = handed.candidate.into_iter().chain(more.take());
        while let Some(candidate) = candidates.next() {
            let seen = self.look(candidate);
            let is_taken = matches!(seen, Attempt::Taken);
            shortcuts::count(Shortcut::TakeAhead, usize::from(is_taken));
            self.misses = if is_taken { 0 } else { self.misses + 1 };
            if matches!(seen, Attempt::Impossible) || self.misses > MISSES {
                self.give_up(claim, &handed);
                return Some(true);
            }
            self.note(&handed, &seen);
            if self.attempts.is_over() {
                match candidates.next() {
                    Some(_) => self.give_up(claim, &handed),
                    None => claim.end(),
                }
                return Some(false);
            }
        }
        claim.end();
        None
    }

    /// Attempts to take a candidate: its row, or, if the row has moved, the row that the index has for its position.
    fn look(&mut self, candidate: Candidate) -> Attempt {
        let (queue, search, attempts) = (self.attempts.queue, self.search, &mut *self.attempts);
        let mut seen = None;
        self.open.see_at(candidate.row, |found| {
            let place = StateAndTube { status: Status::Ready, tube: queue.tube_of(found) };
            let is_it = queue.position_of(found) == Some(candidate.position())
                && (search.group == Group::ALL
                    || search.group.meets(queue.group_of(found, &place)));
            if is_it {
                seen = Some(match is_of_tube(queue, search, found) {
                    true => attempts.attempt(found),
                    false => Attempt::Impossible,
                });
            }
        });
        if let Some(seen) = seen {
            return seen;
        }
        let position = candidate.position();
        let names_task = queue.order.is_some_and(|order| order.names(position));
        let start = queue.start_at(position).into_iter().flat_map(|start| start.at(names_task));
        let Some(bounds) = bounds(queue, search.group, search.arguments, start) else {
            return Attempt::Impossible;
        };
        let mut seen = Attempt::Unfit;
        self.open.scan(search.index, &bounds, |found| {
            match queue.position_of(found) {
                // The scan can begin a little before the position.
                Some(at) if at < position => return ScanStep::GoesOn,
                Some(at) if at == position => {}
                _ => return ScanStep::Ends,
            }
            seen = attempts.attempt(found);
            let goes_on = matches!(seen, Attempt::Unfit | Attempt::Held(Holder::Changes(_)));
            if goes_on { ScanStep::GoesOn } else { ScanStep::Ends }
        });
        seen
    }

    /// Reports to the ring a task that the take has passed over, because of another transaction or because it cannot be
    /// taken.
    fn note(&self, handed: &Handed, seen: &Attempt) {
        let locker = match seen {
            Attempt::Refused | Attempt::Held(Holder::Changes(_)) => None,
            Attempt::Held(holder) => Some(holder.transaction()),
            Attempt::Taken | Attempt::Unfit | Attempt::Impossible => return,
        };
        if let Some(mut slot) = slot::lock(self.attempts.queue.slot) {
            match locker {
                Some(locker) => slot.marks().pass_over(handed, locker, time::now()),
                None => slot.marks().leave_out(handed),
            }
        }
    }

    /// Ends the handing out before all candidates were tried; their ring is discarded.
    fn give_up(&self, claim: Claim, handed: &Handed) {
        if let Some(mut slot) = slot::lock(self.attempts.queue.slot) {
            slot.marks().give_up(handed);
        }
        claim.end();
    }

    /// Reads the next tasks of the group, and returns whether there are any. A task that another transaction is
    /// changing is left out. If that transaction has reported its change, its rollback discards the rings.
    fn read_ahead(&self, refill: &Refill) -> bool {
        injection::point(c"xqueue-ring-is-refilled");
        let (queue, search) = (self.attempts.queue, self.search);
        let from = match refill.from {
            FIRST => refill.mark,
            // A task behind the last candidate can have its position.
            from if queue.order.is_some_and(|order| order.ties != Ties::None) => from - 1,
            from => from,
        };
        let from = (from != FIRST)
            .then(|| queue.start_at(from))
            .flatten()
            .into_iter()
            .flat_map(Start::at_least);
        let Some(bounds) = bounds(queue, search.group, search.arguments, from) else {
            return true;
        };
        let mut read = Read { found: Vec::with_capacity(refill.room), has_left_out: false };
        self.open.scan(search.index, &bounds, |found| {
            if applies(queue, Applies::TO_TAKE, found) {
                match queue.position_of(found).filter(|_| !is_being_changed(found)) {
                    Some(position) => read.found.push(Candidate::new(position, found.id())),
                    None => read.has_left_out = true,
                }
            }
            if read.found.len() < refill.room { ScanStep::GoesOn } else { ScanStep::Ends }
        });
        injection::point(c"xqueue-ring-is-read");
        if let Some(mut slot) = slot::lock(queue.slot) {
            slot.marks().end_refill(refill, &read, time::now());
        }
        read.has_left_out || !read.found.is_empty()
    }
}

/// Returns one of the transactions whose locks were in the way, if it has ended.
fn ended_locker(handed: &Handed) -> Option<u32> {
    handed.lockers.into_iter().find(|locker| *locker != 0 && !xact::is_in_progress(*locker))
}

/// Returns whether a task has the wanted label; different labels can have the same hash.
fn is_of_tube(queue: &Queue, search: Search, found: &FoundRow) -> bool {
    let Some((wanted, tube)) = search.arguments.get(Parameter::Tube).zip(queue.tube()) else {
        return true;
    };
    let label = queue.value_of(found, Field::Tube);
    label.is_some_and(|label| operators::equal(label, wanted, tube.collation))
}

/// Returns whether a transaction in progress is changing the row. After a rollback the row can still name the old
/// transaction.
fn is_being_changed(found: &FoundRow) -> bool {
    matches!(found.holder(), Holder::Changes(id) if xact::is_in_progress(id))
}

/// Returns the bounds of a group's tasks in the index, with additional bounds for their positions.
pub fn bounds<'m>(
    queue: &Queue,
    group: Group,
    arguments: &Arguments<'m>,
    position: impl Iterator<Item = Bound<'m>>,
) -> Option<Vec<Bound<'m>>> {
    let Group::Ready { tube, priority } = group else { return None };
    let mut bounds = Vec::with_capacity(4);
    let equal = |value| Bound { is: Is::Equal, value };
    if tube.is_some() {
        bounds.push(equal(arguments.get(Parameter::Tube)?));
    }
    if let Some(priority) = priority {
        bounds.push(equal(queue.priority_value(priority)?));
    }
    bounds.extend(position);
    Some(bounds)
}
