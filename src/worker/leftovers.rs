//! What sessions that have ended have left in a queue: the worker gives it back.

use super::job::Batch;
use super::leases::Ended;
use super::retry::Retry;
use crate::delta::SlotId;
use crate::error::OrRaise;
use crate::model::position::Position;
use crate::pg::spi;
use crate::pg::transaction::Failure;
use crate::pg::value::Value;
use crate::registry::{Arguments, Queue, Statement};
use crate::session::store;
use crate::shmem::left::HeldTasks;
use crate::shmem::sessions::Uuid;
use crate::shmem::{doubts, queues};
use crate::statement::{Change, Parameter};
use pgrx::pg_sys::Oid;
use std::collections::HashSet;
use std::time::Duration;

/// So many sessions are looked after at a time of which it is known what they have left.
const LEAVERS: usize = 100;

/// What is to be given back of one queue, and to whom it belonged.
pub struct Leftovers {
    slot: SlotId,
    /// The queue's triggers tell of every task.
    is_told: bool,
    /// All taken tasks have to be compared with the live sessions.
    sweep: bool,
    /// Sessions that have ended and may have left tasks, which are looked for.
    ended: Vec<Uuid>,
    /// Those of which it is known which tasks they have left.
    leavers: Vec<Leaver>,
    for_ended: Retry,
    for_leavers: Retry,
}

/// A session that has ended, and the places of the tasks that it has left.
struct Leaver {
    uuid: Uuid,
    /// So many doubts there were when it began.
    since: u64,
    places: Vec<Position>,
}

impl Leftovers {
    pub fn of(slot: SlotId) -> Leftovers {
        Leftovers {
            slot,
            is_told: true,
            sweep: true,
            ended: vec![],
            leavers: vec![],
            for_ended: Retry::of(slot),
            for_leavers: Retry::of(slot),
        }
    }

    /// What is taken by hand while nobody tells of it no session notes. What was so before this is known is
    /// looked for.
    pub fn set_told(&mut self, is_told: bool) {
        match (std::mem::replace(&mut self.is_told, is_told), is_told) {
            (true, false) => {
                doubts::note_untold();
                self.sweep = true;
            }
            (false, true) => doubts::raise(self.slot),
            _ => {}
        }
    }

    /// All taken tasks are to be compared with the live sessions.
    pub fn sweep(&mut self) {
        self.sweep = true;
    }

    /// Looks for nothing any more: the tasks are another server's.
    pub fn forget(&mut self) {
        *self = Leftovers { is_told: self.is_told, sweep: false, ..Leftovers::of(self.slot) };
    }

    /// Takes note of sessions that have ended.
    pub fn note(&mut self, ended: &[Ended]) {
        let Some(doubt) = self.doubt_if_taken().filter(|_| !ended.is_empty()) else { return };
        for Ended { uuid, tasks } in ended {
            let is_sure = |held: &&HeldTasks| self.is_told && held.since >= doubt;
            let Some(held) = tasks.as_ref().filter(is_sure) else {
                self.ended.push(*uuid);
                continue;
            };
            let places = held.tasks.iter().filter(|task| task.slot == self.slot);
            let places: Vec<Position> = places.map(|task| task.position).collect();
            if !places.is_empty() {
                self.leavers.push(Leaver { uuid: *uuid, since: held.since, places });
            }
        }
    }

    /// The last doubt about what has happened to the queue's tasks, if there may be some that are taken.
    fn doubt_if_taken(&self) -> Option<u64> {
        let slot = queues::lock(self.slot)?;
        slot.has_taken().then(|| slot.doubt())
    }

    /// How long there is nothing to do; None: until somebody says so.
    pub fn pause(&self) -> Option<Duration> {
        let has_ended = self.sweep || !self.ended.is_empty();
        let ended = has_ended.then(|| self.for_ended.left().unwrap_or_default());
        let has_leavers = !self.leavers.is_empty();
        let leavers = has_leavers.then(|| self.for_leavers.left().unwrap_or_default());
        ended.into_iter().chain(leavers).min()
    }

    /// Gives tasks back. `see` sees the queue.
    pub fn give_back(&mut self, table: Oid, see: impl Fn(&Queue)) {
        if !self.leavers.is_empty() && self.for_leavers.is_due() {
            self.reap_leavers(table, &see);
        }
        if self.sweep && self.for_ended.is_due() {
            self.find_lost(table, &see);
        }
        if !self.ended.is_empty() && self.for_ended.is_due() {
            self.reap_ended(table, &see);
        }
    }

    /// Of some sessions at a time.
    fn reap_leavers(&mut self, table: Oid, see: &impl Fn(&Queue)) {
        let others = self.leavers.split_off(self.leavers.len().min(LEAVERS));
        let leavers = std::mem::replace(&mut self.leavers, others);
        let uuids: Vec<Uuid> = leavers.iter().map(|leaver| leaver.uuid).collect();
        let places: Vec<_> = leavers.iter().flat_map(|leaver| leaver.places.clone()).collect();
        let reaped = self.for_leavers.run_batch(table, |queue| {
            see(queue);
            reap(queue, &uuids, Some(&places))
        });
        // Whoever has moved one of these tasks has raised a doubt before that could be seen.
        let doubt = queues::lock(self.slot).map_or(u64::MAX, |slot| slot.doubt());
        let (sure, unsure): (Vec<_>, Vec<_>) =
            leavers.into_iter().partition(|leaver| leaver.since >= doubt);
        self.ended.extend(unsure.iter().map(|leaver| leaver.uuid));
        let may_hold = |leaver: &Leaver| {
            reaped.as_ref().is_none_or(|(_, holders)| holders.contains(&leaver.uuid))
        };
        self.leavers.extend(sure.into_iter().filter(may_hold));
        self.for_leavers
            .go_on(self.leavers.is_empty() || reaped.is_some_and(|(tasks, _)| tasks > 0));
    }

    /// Gives back what no session holds, and finds the sessions that have ended unnoticed.
    fn find_lost(&mut self, table: Oid, see: &impl Fn(&Queue)) {
        let found = self.for_ended.run(table, |queue| {
            see(queue);
            let holders = owners(queue, &Statement::Holders, &Arguments::default());
            let ownerless = match holders.contains(&None) {
                true => Batch::of(queue, Change::ReapOwnerless, Arguments::default()).run(),
                false => 0,
            };
            let lost = store::lost(holders.into_iter().flatten().collect()).or_raise();
            (lost, ownerless)
        });
        if let Some((lost, ownerless)) = found {
            self.sweep = ownerless > 0;
            self.for_ended.go_on(true);
            let is_new = |uuid: &Uuid| !self.ended.contains(uuid);
            let lost: Vec<Uuid> = lost.into_iter().filter(is_new).collect();
            self.ended.extend(lost);
        }
    }

    fn reap_ended(&mut self, table: Oid, see: &impl Fn(&Queue)) {
        let ended = &self.ended;
        let reaped = self.for_ended.run_batch(table, |queue| {
            see(queue);
            reap(queue, ended, None)
        });
        let Some((changed, holders)) = reaped else { return };
        self.ended.retain(|uuid| holders.contains(uuid));
        self.for_ended.go_on(self.ended.is_empty() || changed > 0);
    }
}

/// How many tasks have come back, and which sessions hold some yet.
type Reaped = (usize, HashSet<Uuid>);

/// Gives back tasks that sessions had taken, those in these places if they are given.
fn reap(
    queue: &Queue,
    sessions: &[Uuid],
    places: Option<&[Position]>,
) -> (Reaped, Option<Failure>) {
    let mut arguments = Arguments::of(Parameter::Sessions, Value::uuids(sessions));
    // Without triggers that tell, nobody has been told where they are.
    let keys = places.filter(|_| queue.is_told).and_then(|places| queue.keys_at(places));
    let named = keys.is_some();
    arguments.set_or_null(Parameter::Keys, keys);
    let (changed, failure) =
        Batch::of(queue, Change::Reap { named }, arguments.clone()).run_or_each();
    // Rows that somebody has locked were passed over: then there is more to do.
    let holders = owners(queue, &Statement::Holding { named }, &arguments);
    ((changed, holders.into_iter().flatten().collect()), failure)
}

/// The sessions that a statement finds; None for no session.
fn owners(queue: &Queue, find: &Statement, arguments: &Arguments) -> Vec<Option<Uuid>> {
    spi::connect(|spi| {
        let rows = queue.run(spi, find, arguments);
        (0..rows.len()).map(|row| rows.value(row, 1).map(Value::to_uuid)).collect()
    })
}
