//! One of the kinds of work that the worker does for a queue, and when it tries again what could not be done.

use crate::parts::schedule::KeptPause;
use crate::parts::schedule::orders::{End, Progress, Report};
use crate::parts::slot;
use crate::parts::slot_id::SlotId;
use crate::server::time;
use crate::server::xact::Failure;
use std::time::{Duration, Instant};

/// Retry delay for a locked table or row: doubled each time, up to a limit.
pub const BUSY_PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// Before the next try after a failure. Whatever fails, healthy tasks come to be ready in between.
pub const FAILURE_PAUSES: (Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(1));
/// Before the next try where tasks are as they were before they were changed, as when a trigger reverts it.
const STUCK_PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(2));
/// Retry delay for work that took too long, which delays others.
const SLOW_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Work of one kind, its failures, and when it may be tried again.
pub struct Retry {
    slot: SlotId,
    /// None: at once.
    at: Option<Instant>,
    /// The last one, until something comes of the work.
    pause: Duration,
    has_failed: bool,
}

impl Retry {
    pub fn of(slot: SlotId) -> Retry {
        // A worker before this one may have left it.
        let has_failed = slot::lock(slot).is_some_and(|slot| slot.has_error());
        Retry { slot, at: None, pause: Duration::ZERO, has_failed }
    }

    pub fn is_due(&self) -> bool {
        self.at.is_none_or(|at| Instant::now() >= at)
    }

    pub fn left(&self) -> Option<Duration> {
        self.at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Returns the last pause, and the instant at which it ends, for the next worker.
    pub fn kept(&self, now: i64) -> Option<KeptPause> {
        let micros = |duration: Duration| duration.as_micros() as i64;
        let until = now.saturating_add(micros(self.left()?));
        Some(KeptPause { pause: micros(self.pause), until })
    }

    /// Goes on with the pause of a worker before this one.
    pub fn resume(&mut self, kept: Option<KeptPause>) {
        let Some(KeptPause { pause, until }) = kept else { return };
        let left = until.saturating_sub(time::now()).clamp(0, pause);
        self.pause = Duration::from_micros(pause.max(0) as u64);
        self.at = Some(Instant::now() + Duration::from_micros(left.max(0) as u64));
    }

    pub fn after(&mut self, (first, longest): (Duration, Duration)) {
        self.pause = (self.pause * 2).clamp(first, longest);
        self.at = Some(Instant::now() + self.pause);
    }

    /// Notes what came of a job: what has failed, or has come to nothing, is tried again later.
    pub fn note(&mut self, report: &Report) {
        match (report.end, &report.failure) {
            (End::Done, None) => {
                self.end_failure();
                match report.progress {
                    Progress::Made => self.pause = Duration::ZERO,
                    Progress::Locked => self.after(BUSY_PAUSES),
                    Progress::Stuck => self.after(STUCK_PAUSES),
                }
            }
            // The tasks that have failed rest by themselves.
            (End::Done, Some(failure)) if report.progress == Progress::Made => {
                self.note_failure(failure);
                (self.at, self.pause) = (None, Duration::ZERO);
            }
            (End::Done | End::Failed, Some(failure)) => self.note_failure(failure),
            (End::Busy, _) => self.after(BUSY_PAUSES),
            (End::Gone, _) => self.after(SLOW_PAUSES),
            // At once, by a job worker, or by that of another owner.
            (End::RunsUserCode | End::Slow | End::OtherOwner, _) => self.at = None,
            // When there is one again is known where they are employed.
            (End::NoWorker, _) => self.at = None,
            (End::Failed, None) => self.after(FAILURE_PAUSES),
        }
    }

    /// Shows that there is no job worker.
    pub fn note_no_worker(&mut self, message: &str) {
        self.has_failed = true;
        if let Some(mut slot) = slot::lock(self.slot) {
            slot.set_error(message);
        }
    }

    fn end_failure(&mut self) {
        self.at = None;
        if std::mem::take(&mut self.has_failed)
            && let Some(mut slot) = slot::lock(self.slot)
        {
            slot.clear_error();
        }
    }

    fn note_failure(&mut self, failure: &Failure) {
        self.has_failed = true;
        self.after(if failure.is_canceled() { SLOW_PAUSES } else { FAILURE_PAUSES });
        if let Some(mut slot) = slot::lock(self.slot) {
            slot.set_error(&failure.message);
        }
    }
}
