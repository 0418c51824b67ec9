//! The job worker: does what the worker of a database hands over to it, which is what runs code of a table's
//! owner. It is ended when that takes too long, so nothing here outlives a job but caches, and serves one owner
//! only, so what that owner's code leaves in the session is found by none but itself.

use crate::background_worker;
use crate::parts::schedule::jobs::{self, JobId};
use crate::server::{callbacks, spi, user, worker, xact};
use crate::worker::job::Manner;
use crate::worker::work;
use pgrx::pg_sys::Oid;
use std::time::{Duration, Instant};

/// How long a job worker waits for more work before it leaves its place to other background workers.
const IDLE_TIME: Duration = Duration::from_secs(5);
/// What code may have left in the session that others see or wait for, such as locks.
const RESETS: [&str; 3] =
    ["SELECT pg_catalog.pg_advisory_unlock_all()", "DEALLOCATE ALL", "DISCARD SEQUENCES"];

background_worker!(xqueue_job_main => main);

fn main(argument: u32) {
    callbacks::at_exit(leave_on_exit, 0);
    let Some(database) = jobs::register(JobId::from_argument(argument)) else { return };
    worker::handle_signals();
    worker::connect(Some(database));
    if let Some(owner) = jobs::served_owner().filter(|owner| *owner != jobs::COUNTER)
        && let Err(failure) = xact::try_in_transaction(|| user::become_session_of(owner.into()))
    {
        return failure.warn("act for the owner of a queue");
    }
    let mut idle = Instant::now();
    loop {
        worker::reload_settings();
        if let Some((table, work)) = jobs::next() {
            let report = work::perform(Oid::from(table), &work, Manner::Patient);
            reset();
            jobs::report(&report);
            if jobs::served_owner() == Some(jobs::COUNTER) {
                return;
            }
            idle = Instant::now();
        } else if jobs::leaves(idle.elapsed() >= IDLE_TIME) {
            return;
        } else {
            worker::report_idle();
            worker::wait_idle(Some(IDLE_TIME));
        }
    }
}

fn leave_on_exit(_argument: u32) {
    jobs::unregister();
}

/// A failure is of no account: the next job does it again.
fn reset() {
    let _ = xact::try_in_transaction(|| {
        spi::connect(|spi| RESETS.iter().for_each(|sql| drop(spi.run(sql))));
    });
}
