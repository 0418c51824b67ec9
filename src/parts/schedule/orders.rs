//! Orders to job workers and their reports: as values, and as stored in shared memory.

use crate::model::position::Position;
use crate::server::types::Uuid;
use crate::server::xact::Failure;

/// Maximum number of sessions per order; the others follow in the next one.
pub const SESSIONS: usize = 128;
/// Maximum number of positions per order; the tasks of a session with more are found by an index scan.
pub const PLACES: usize = 512;
/// Maximum length of an error message in bytes; longer ones are cut off.
const ERROR_LENGTH: usize = 512;

/// Work on a queue, in one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Acts on what is due at `now`: delays, times to run, ends of life; begins with the kind at index `first`.
    /// Nothing is due before `since`.
    Timed { now: i64, since: i64, first: u8 },
    /// Gives back tasks without a session, and finds sessions that have ended unnoticed.
    FindLost,
    /// Gives back the tasks of these sessions; by position, if these are known.
    Reap { sessions: Vec<Uuid>, places: Option<Vec<Position>> },
    /// Counts the tasks, without a time limit.
    Recount,
}

/// How a job has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum End {
    /// Its transaction has committed; with an error, incompletely.
    Done,
    /// The table is locked exclusively; retried later.
    Busy,
    /// The table is no longer a queue.
    Gone,
    /// Changes of the table run code of its owner, which the worker of the database must not do.
    RunsUserCode,
    /// It took too long for the worker of the database; left to a job worker.
    Slow,
    /// The table's owner is not the one that the job worker serves.
    OtherOwner,
    /// No job worker is available.
    NoWorker,
    #[default]
    Failed,
}

/// Whether to continue at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Progress {
    /// There was progress, or nothing is left.
    Made,
    /// The rest is locked by other transactions.
    #[default]
    Locked,
    /// The rest was changed without effect, as by a trigger.
    Stuck,
}

/// The report of a job.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub end: End,
    pub progress: Progress,
    /// The next instant to act, after `Timed`.
    pub next: Option<i64>,
    /// Sessions that were found to have ended, or that still hold tasks.
    pub sessions: Vec<Uuid>,
    /// There is more than could be done or reported.
    pub has_more: bool,
    pub has_row_security: bool,
    /// A time limit was reached, even if the work was completed within others.
    pub is_slow: bool,
    /// The kind with which the next job has to begin, after `Timed`.
    pub first: u8,
    /// Of the table, with `OtherOwner`.
    pub owner: u32,
    pub failure: Option<Failure>,
    /// Its job worker was terminated, as it took too long. Not reported by itself.
    pub is_ended: bool,
}

impl Report {
    /// Nothing was done.
    pub fn none(end: End) -> Report {
        Report { end, ..Report::default() }
    }

    pub fn failed(failure: Failure) -> Report {
        Report { is_slow: failure.is_canceled(), failure: Some(failure), ..Report::default() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Timed,
    FindLost,
    Reap,
    ReapPlaces,
    Recount,
}

/// An order and its report. All-zero bytes are a valid value.
#[repr(C)]
pub(in crate::parts) struct Order {
    pub table: u32,
    kind: Kind,
    now: i64,
    since: i64,
    /// Of the work, and then of the report.
    first: u8,
    session_count: u32,
    place_count: u32,
    sessions: [Uuid; SESSIONS],
    places: [Position; PLACES],
    end: End,
    progress: Progress,
    next: i64,
    has_next: bool,
    has_more: bool,
    has_row_security: bool,
    is_slow: bool,
    owner: u32,
    has_failed: bool,
    error_code: i32,
    error_length: u32,
    error: [u8; ERROR_LENGTH],
}

impl Order {
    /// Allocates nothing. Work that does not fit is cut off: the caller keeps to the limits.
    pub fn write_work(&mut self, table: u32, work: &Work) {
        self.table = table;
        (self.session_count, self.place_count) = (0, 0);
        match work {
            Work::Timed { now, since, first } => {
                self.kind = Kind::Timed;
                (self.now, self.since, self.first) = (*now, *since, *first);
            }
            Work::FindLost => self.kind = Kind::FindLost,
            Work::Recount => self.kind = Kind::Recount,
            Work::Reap { sessions, places } => {
                self.kind = if places.is_some() { Kind::ReapPlaces } else { Kind::Reap };
                self.session_count = copy(&mut self.sessions, sessions);
                self.place_count = copy(&mut self.places, places.as_deref().unwrap_or_default());
            }
        }
    }

    /// Fills `sessions` and `places`, which have the capacity.
    pub fn read_work(&self, mut sessions: Vec<Uuid>, mut places: Vec<Position>) -> Work {
        sessions.extend_from_slice(&self.sessions[..self.session_count as usize]);
        places.extend_from_slice(&self.places[..self.place_count as usize]);
        match self.kind {
            Kind::Timed => Work::Timed { now: self.now, since: self.since, first: self.first },
            Kind::FindLost => Work::FindLost,
            Kind::Recount => Work::Recount,
            Kind::Reap => Work::Reap { sessions, places: None },
            Kind::ReapPlaces => Work::Reap { sessions, places: Some(places) },
        }
    }

    pub fn write_report(&mut self, report: &Report) {
        (self.end, self.progress) = (report.end, report.progress);
        (self.has_next, self.next) = (report.next.is_some(), report.next.unwrap_or_default());
        self.session_count = copy(&mut self.sessions, &report.sessions);
        self.has_more = report.has_more || report.sessions.len() > SESSIONS;
        self.has_row_security = report.has_row_security;
        (self.is_slow, self.first, self.owner) = (report.is_slow, report.first, report.owner);
        self.has_failed = report.failure.is_some();
        self.error_code = report.failure.as_ref().map_or(0, |failure| failure.code as i32);
        let message = report.failure.as_ref().map_or("", |failure| failure.message.as_str());
        let message = &message[..message.floor_char_boundary(ERROR_LENGTH)];
        self.error_length = copy(&mut self.error, message.as_bytes());
    }

    /// Fills `sessions` and `error`, which have the capacity.
    pub fn read_report(&self, mut sessions: Vec<Uuid>, mut error: Vec<u8>) -> Report {
        sessions.extend_from_slice(&self.sessions[..self.session_count as usize]);
        error.extend_from_slice(&self.error[..self.error_length as usize]);
        let failure = || Failure {
            message: String::from_utf8(error).unwrap_or_default(),
            code: self.error_code.into(),
        };
        Report {
            end: self.end,
            progress: self.progress,
            next: self.has_next.then_some(self.next),
            sessions,
            has_more: self.has_more,
            has_row_security: self.has_row_security,
            is_slow: self.is_slow,
            first: self.first,
            owner: self.owner,
            failure: self.has_failed.then(failure),
            is_ended: false,
        }
    }
}

/// Buffers with the capacity that `read_work` and `read_report` need.
pub(in crate::parts) fn session_room() -> Vec<Uuid> {
    Vec::with_capacity(SESSIONS)
}

pub(in crate::parts) fn place_room() -> Vec<Position> {
    Vec::with_capacity(PLACES)
}

pub(in crate::parts) fn error_room() -> Vec<u8> {
    Vec::with_capacity(ERROR_LENGTH)
}

/// Copies what fits and returns the number of bytes.
fn copy<T: Copy>(to: &mut [T], from: &[T]) -> u32 {
    let count = from.len().min(to.len());
    to[..count].copy_from_slice(&from[..count]);
    count as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgrx::PgSqlErrorCode;

    fn order() -> Box<Order> {
        // SAFETY: all-zero bytes are a valid value.
        unsafe { Box::new(std::mem::zeroed()) }
    }

    fn through(order: &mut Order, work: &Work) -> Work {
        order.write_work(7, work);
        order.read_work(session_room(), place_room())
    }

    #[test]
    fn work_arrives_as_it_was_sent() {
        let mut order = order();
        let sessions = vec![[1; 16], [2; 16]];
        for work in [
            Work::Reap { sessions: sessions.clone(), places: Some(vec![3, u128::MAX]) },
            Work::Timed { now: 5, since: i64::MIN, first: 3 },
            Work::Reap { sessions, places: None },
            Work::FindLost,
            Work::Recount,
            Work::Reap { sessions: vec![[4; 16]], places: Some(vec![]) },
        ] {
            assert_eq!(through(&mut order, &work), work);
        }
        assert_eq!(order.table, 7);
    }

    #[test]
    fn a_report_arrives_as_it_was_sent_but_for_what_is_too_long() {
        let mut order = order();
        let code = PgSqlErrorCode::ERRCODE_QUERY_CANCELED;
        let failure = Failure { message: "ä".repeat(300), code };
        let sent = Report {
            end: End::Done,
            progress: Progress::Stuck,
            next: Some(-1),
            sessions: vec![[9; 16]; SESSIONS + 1],
            has_row_security: true,
            is_slow: true,
            first: 2,
            owner: 11,
            failure: Some(failure),
            ..Report::default()
        };
        order.write_report(&sent);
        let got = order.read_report(session_room(), error_room());
        assert_eq!((got.end, got.progress, got.next), (End::Done, Progress::Stuck, Some(-1)));
        assert!(got.is_slow && got.first == 2 && got.owner == 11);
        assert!(got.has_more && got.has_row_security && got.sessions.len() == SESSIONS);
        let failure = got.failure.expect("a failure");
        assert!(failure.is_canceled() && failure.message == "ä".repeat(256));
        order.write_report(&Report::none(End::Gone));
        let got = order.read_report(session_room(), error_room());
        assert!(got.failure.is_none() && got.sessions.is_empty() && got.end == End::Gone);
    }
}
