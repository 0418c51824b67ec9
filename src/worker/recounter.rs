//! Counting the tasks of a queue again: by the worker of the database, which has more urgent things to do, if that
//! takes no time, else by a process apart, for as long as it takes.

use crate::parts::schedule::jobs;
use crate::parts::schedule::orders::{End, Progress, Report};
use crate::queue::recount::{self, Counted, Purpose, Stopped};
use crate::queue::{self};
use crate::server::injection;
use crate::server::relation::{self, Lock, Relation};
use crate::server::worker::Timeout;
use crate::server::xact;
use pgrx::pg_sys::Oid;
use std::time::Duration;

/// A table with more pages is not begun with in the worker of the database.
pub const MOST_PAGES: u32 = 1000;

/// Counts within a limit. `Slow`: not here; it was begun with only if the report says that it is slow. None: the table
/// has more pages than `most_pages`.
pub fn recount_briefly(table: Oid, limit: Duration, most_pages: u32) -> Option<Report> {
    let counted = xact::try_in_transaction(|| {
        let _limit = Timeout::after(limit);
        recount(table, Purpose::RenewBriefly, most_pages)
    });
    match counted {
        Ok(end) => end.map(ended),
        // A process apart finds out what is wrong.
        Err(failure) => Some(Report { is_slow: failure.is_canceled(), ..Report::none(End::Slow) }),
    }
}

/// Counts without a limit, in a job worker.
pub fn recount_at_leisure(table: Oid) -> Report {
    jobs::put_off(i64::MAX);
    injection::point(c"xqueue-recounter-begins");
    let counted = xact::try_in_transaction(|| recount(table, Purpose::Renew, u32::MAX));
    counted.map_or_else(Report::failed, |end| ended(end.unwrap_or(End::Slow)))
}

fn ended(end: End) -> Report {
    Report { progress: Progress::Made, ..Report::none(end) }
}

/// What comes to nothing is asked for again by the claim that is dropped.
fn recount(table: Oid, purpose: Purpose, most_pages: u32) -> Option<End> {
    if !queue::try_lock() || !relation::try_lock_whole(table, Lock::AccessShare) {
        return Some(End::Busy);
    }
    let pages = Relation::open(table, Lock::None).map_or(0, |relation| relation.pages());
    if pages > most_pages {
        return None;
    }
    let queue = match queue::find(table) {
        Ok(Some(queue)) => queue,
        Ok(None) => return Some(End::Gone),
        Err(_) => return Some(End::Busy),
    };
    Some(match recount::count(&queue, purpose) {
        Ok(Counted { counts, mut slot, .. }) => {
            slot.set_counted(&counts);
            slot.nudge_for_counted();
            End::Done
        }
        Err(Stopped::InTheWay) => End::Busy,
        Err(Stopped::TooLong) => End::Slow,
    })
}
