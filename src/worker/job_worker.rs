//! The job worker: serves the queues of one owner whose changes run code of that owner or take too long, or counts one
//! large table.
//!
//! 1. It serves one owner only, so no other owner is exposed to state that this owner's code leaves in the session.
//! 2. It can be terminated at any point when it takes too long, so only caches outlive a job in this process.
//! 3. It leaves when it has had no work for `IDLE_TIME`. If others wait for its worker slot or its turn, it leaves as
//!    soon as it is not needed for a while or its turn has ended.

use crate::background_worker;
use crate::parts::schedule::workers::{WorkerAssignment, WorkerId};
use crate::parts::schedule::{NEVER, WorkKind, own, requests};
use crate::parts::slot;
use crate::server::{callbacks, spi, time, user, worker, xact};
use crate::worker::job;
use crate::worker::maintenance::Maintenance;
use crate::worker::recounts;
use pgrx::pg_sys::Oid;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use xqueue_core::pause::Limits;

/// How long a job worker waits for more work before it leaves its worker slot to other background workers.
const IDLE_TIME: Duration = Duration::from_secs(5);
/// Maximum sleep, because the system clock can be set.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);
/// Statements that reset session state that user code can leave behind, such as locks that others wait for.
const RESETS: [&str; 3] =
    ["SELECT pg_catalog.pg_advisory_unlock_all()", "DEALLOCATE ALL", "DISCARD SEQUENCES"];
/// Retry pauses for work whose worker had to be terminated.
const STOPPED_PAUSES: Limits = (Duration::from_secs(1), Duration::from_secs(60));
const STOPPED: &str =
    "it took longer than xqueue.worker_timeout and could not be cancelled: its worker was ended";

background_worker!(xqueue_job_main => main);

fn main(id: u32) {
    callbacks::at_exit(leave_on_exit, 0);
    let Some(own) = own::register(WorkerId(id)) else { return };
    worker::handle_signals();
    worker::connect(Some(own.database));
    if own.is_count() {
        if own::begin_round().is_some() {
            recounts::count_at_leisure(own.counts.into());
            own::end_round(NEVER, true);
            own::leave(NEVER, true);
        }
        return;
    }
    if let Err(failure) = xact::try_in_transaction(|| user::become_session_of(own.owner.into())) {
        return failure.warn("act for the owner of a queue");
    }
    serve(own);
}

fn serve(of: WorkerAssignment) {
    let mut queues: HashMap<Oid, Maintenance> = HashMap::new();
    let mut worked = Instant::now();
    while own::begin_round().is_some() {
        worker::reload_settings();
        let begun = Instant::now();
        let mut served = slot::of_job_worker(of.database, of.owner);
        let is_left = |table: &Oid, slot| !served.contains(&(slot, u32::from(*table)));
        queues.extract_if(|table, queue| is_left(table, queue.slot)).for_each(leave_sweep);
        // Healthy queues come first: a queue whose code does not end must not keep the worker from them.
        served.sort_by_cached_key(|(slot, _)| {
            slot::lock(*slot).map(|slot| slot.schedule.longest_retry())
        });
        for (slot, table) in served {
            let queue = queues.entry(table.into()).or_insert_with(|| Maintenance::of(slot));
            if queue.needed_at(time::now()) > time::now() {
                continue;
            }
            worked = Instant::now();
            own::get_on(Some(table), job::stop_at());
            let done = queue.work(table.into());
            reset();
            if done.is_err() {
                // The database worker decides again which process serves the queue.
                queue.forget();
                requests::request(of.database, |requests| requests.registry = true);
            }
        }
        worker::report_idle();
        let now = time::now();
        let needed_at = queues.values().map(|queue| queue.needed_at(now)).min().unwrap_or(NEVER);
        let is_idle = needed_at > now && worked.elapsed() >= IDLE_TIME;
        let waits = own::end_round(needed_at, worked >= begun);
        if (waits || is_idle) && own::leave(needed_at, is_idle) {
            return queues.into_iter().for_each(leave_sweep);
        }
        worker::wait_idle(Some(time::until(needed_at).min(CLOCK_INTERVAL)));
    }
}

/// Requests another sweep if only this process knows of sessions that have left tasks.
fn leave_sweep((_, queue): (Oid, Maintenance)) {
    if !queue.is_settled() {
        slot::with(queue.slot, |slot| slot.schedule.leave_sweep());
    }
}

/// Requests full rescans if this process ends in the middle of its work. A queue whose code took too long has a pause
/// first.
fn leave_on_exit(_argument: u32) {
    if let Some(ended) = own::end().filter(|ended| ended.is_abnormal) {
        let WorkerAssignment { database, owner, .. } = ended.of;
        for (slot, _) in slot::of_job_worker(database, owner) {
            slot::with(slot, |slot| slot.schedule.look_for_all());
        }
        // The table last worked on can belong to another owner by now.
        if let Some(mut slot) = slot::find(database, ended.table).and_then(slot::lock) {
            slot.schedule.look_for_all();
            if ended.is_stopped && slot.schedule.job_owner() == owner {
                let now = time::now();
                slot.fail(WorkKind::Timed, STOPPED);
                slot.schedule.retry_after(WorkKind::Timed, now, STOPPED_PAUSES);
                slot.schedule.retry_after(WorkKind::Orphans, now, STOPPED_PAUSES);
            }
        }
    }
    own::unregister();
}

/// Resets the session after a job. A failure does not matter: the next job resets it again.
fn reset() {
    let _ = xact::try_in_transaction(|| {
        spi::connect(|spi| RESETS.iter().for_each(|sql| drop(spi.run(sql))));
    });
}
