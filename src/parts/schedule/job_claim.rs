//! The claim of a database to a place for a job worker. Pure.
//!
//! A worker that needs a place for a job worker as well claims that too, and keeps the claim beyond its turn: without, each
//! would give its place up for the others' claims before one becomes free for its own. Once the claim is the first, the next
//! free place is kept for it, and the worker keeps its own, usually for longer than the turn of a worker that is in the way.
//! If that was in vain the claims behind it pass, and no place is kept for any job worker for a while.

use crate::parts::schedule::rota::TURN;

/// How long a place is kept for a job worker (µs): others give theirs up meanwhile. After one in vain it is twice as long for the
/// same claim, up to a limit: others' jobs may end whenever its worker has just gone.
const KEPT: (i64, i64) = (2 * TURN, 8 * TURN);
/// After a place was kept for a job worker in vain none is for this many times as long: most of the time is for workers.
const RESTS: i64 = 2;

/// When a place was last kept for a job worker, of any database, and for how long.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct LastKept {
    at: i64,
    length: i64,
}

impl LastKept {
    /// Returns whether no other place is kept as yet.
    fn rests(&self, now: i64) -> bool {
        (0..(1 + RESTS) * self.length).contains(&now.saturating_sub(self.at))
    }
}

/// What other databases there are beside one that claims a place for a job worker.
#[derive(Clone, Copy, Debug)]
pub struct Rivals {
    /// Some have workers: places become free as these go.
    pub have_places: bool,
    /// One has waited for such a place for longer, whether it has a worker at present or not.
    pub are_before: bool,
}

/// The claim of a database to a place for a job worker, while its worker has one. It outlasts the worker's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct JobClaim {
    /// Since when it has been wanted; 0 if it is not.
    since: i64,
    /// When a place began to be kept for it, in this worker's turn; 0 if none was.
    kept_at: i64,
    /// For how long then; 0: the least.
    length: i64,
}

impl JobClaim {
    pub const NONE: JobClaim = JobClaim { since: 0, kept_at: 0, length: 0 };

    /// Claims a place, anew if one was kept for it in vain.
    pub fn claim(&mut self, now: i64) {
        if self.waits_since(now).is_none() {
            self.wait_again();
            self.since = now;
        }
        // The clock may have been set back.
        self.since = self.since.min(now);
    }

    /// Waits again, if a place was kept for it in vain: in the turn of the next worker, for as long as it has.
    pub fn wait_again(&mut self) {
        if self.kept_at != 0 {
            self.length = (2 * self.length()).min(KEPT.1);
        }
        self.kept_at = 0;
    }

    fn length(&self) -> i64 {
        self.length.max(KEPT.0)
    }

    /// Returns whether it has waited for longer than another.
    pub fn is_before(&self, other: &JobClaim) -> bool {
        self.since != 0 && self.since < other.since
    }

    /// Keeps the next free place for it. False if others come first.
    pub fn keep(&mut self, now: i64, rivals: Rivals, last: &mut LastKept) -> bool {
        let may_begin = rivals.have_places && !rivals.are_before && !last.rests(now);
        if self.kept_at == 0 && may_begin {
            self.kept_at = now;
            *last = LastKept { at: now, length: self.length() };
        }
        self.kept_until(now).is_some()
    }

    /// Returns until when the next free place is kept for it, and its worker stays.
    pub fn kept_until(&self, now: i64) -> Option<i64> {
        let is_kept =
            self.kept_at != 0 && (0..self.length()).contains(&now.saturating_sub(self.kept_at));
        is_kept.then_some(self.kept_at + self.length())
    }

    /// Ends the claim: a place was found, or is needed no more. False if there was none.
    pub fn end(&mut self, now: i64, last: &mut LastKept) -> bool {
        if self.kept_until(now).is_some() {
            *last = LastKept::default();
        }
        std::mem::replace(self, JobClaim::NONE) != JobClaim::NONE
    }

    /// Returns since when it has waited; None if it does not, or a place was kept for it in vain.
    pub fn waits_since(&self, now: i64) -> Option<i64> {
        let waits = self.since != 0 && (self.kept_at == 0 || self.kept_until(now).is_some());
        waits.then_some(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::schedule::rota::tests::{MILLISECOND, ROUND, SECOND, START, begun_at};
    use crate::parts::schedule::rota::{Claim, Purpose, Tenure};
    use proptest::prelude::*;

    const RIVALS: Rivals = Rivals { have_places: true, are_before: false };

    #[test]
    fn a_claim_for_a_job_outlasts_the_turn_and_what_was_kept_in_vain() {
        let mut job = JobClaim::NONE;
        job.claim(SECOND);
        job.claim(2 * SECOND);
        assert_eq!(job.waits_since(2 * SECOND), Some(SECOND));
        for length in [KEPT.0, 2 * KEPT.0, KEPT.1, KEPT.1] {
            let mut last = LastKept::default();
            assert!(job.keep(3 * SECOND, RIVALS, &mut last));
            let until = 3 * SECOND + length;
            assert!(job.keep(until - 1, RIVALS, &mut last) && !job.keep(until, RIVALS, &mut last));
            assert_eq!(job.kept_until(until - 1), Some(until));
            assert_eq!(
                (job.kept_until(until), job.waits_since(until)),
                (None, None),
                "others pass"
            );
            // The clock was set back.
            assert_eq!(job.kept_until(2 * SECOND), None);
            job.wait_again();
            assert_eq!(job.waits_since(until), Some(SECOND));
        }
        assert!(job.keep(3 * SECOND, RIVALS, &mut LastKept::default()));
        job.claim(4 * SECOND);
        assert_eq!(job.waits_since(4 * SECOND), Some(SECOND));
        job.claim(3 * SECOND + KEPT.1);
        assert_eq!(job.waits_since(6 * SECOND), Some(3 * SECOND + KEPT.1), "behind the others");
        job.claim(2 * SECOND);
        assert_eq!(job.waits_since(2 * SECOND), Some(2 * SECOND));
        const { assert!(KEPT.0 >= TURN + START, "a worker in the way is gone by then") };
    }

    #[test]
    fn one_place_at_a_time_is_kept_for_a_job_worker() {
        let (mut one, mut other, mut last) = (JobClaim::NONE, JobClaim::NONE, LastKept::default());
        one.claim(SECOND);
        other.claim(SECOND);
        assert!(one.keep(SECOND, RIVALS, &mut last) && !other.keep(SECOND, RIVALS, &mut last));
        assert!(one.end(2 * SECOND, &mut last) && !one.end(2 * SECOND, &mut last));
        // That one was in vain.
        let until = SECOND + (1 + RESTS) * KEPT.0;
        assert!(!other.keep(until - 1, RIVALS, &mut last));
        assert!(other.keep(until, RIVALS, &mut last));
        // This one was not.
        assert!(other.end(until + 1, &mut last));
        one.claim(until + 2);
        let (alone, late) =
            (Rivals { have_places: false, ..RIVALS }, Rivals { are_before: true, ..RIVALS });
        assert!(!one.keep(until + 2, alone, &mut last) && !one.keep(until + 2, late, &mut last));
        assert!(one.keep(until + 2, RIVALS, &mut last));
        assert!(one.keep(until + 3, alone, &mut last) && one.keep(until + 3, late, &mut last));
    }

    /// A database that always has something to do, also for a job worker.
    #[derive(Clone, Copy, Debug)]
    struct Employer {
        tenure: Option<Tenure>,
        needed_at: i64,
        job: JobClaim,
        /// The claim is one of those that wait.
        is_counted: bool,
        /// Since when a job has not been begun.
        idle_since: i64,
        job_ends: Option<i64>,
    }

    impl Employer {
        fn is_at_work(&self, now: i64) -> bool {
            self.tenure.is_some_and(|tenure| tenure.first_round <= now)
        }

        /// Returns whether its worker is to give its place up, as others wait.
        fn is_over(&self, now: i64, waiting: usize) -> bool {
            let is_asked = waiting > usize::from(self.is_counted);
            let stays = self.job_ends.is_some() || self.job.kept_until(now).is_some();
            is_asked && !stays && self.tenure.is_some_and(|tenure| tenure.gives_up(now, now))
        }
    }

    fn rivals(all: &[Employer], index: usize, now: i64) -> Rivals {
        let others = || all.iter().enumerate().filter(|(other, _)| *other != index);
        Rivals {
            have_places: others().any(|(_, known)| known.tenure.is_some()),
            are_before: others().any(|(_, known)| {
                let waits = known.tenure.is_none() || known.job.waits_since(now).is_some();
                waits && known.job.is_before(&all[index].job)
            }),
        }
    }

    /// Lets databases share places, of which each needs two at a time; returns how long each was without a job at most.
    fn simulate_jobs(count: usize, places: usize, job: i64, until: i64) -> Vec<i64> {
        let first = Employer {
            tenure: None,
            needed_at: 0,
            job: JobClaim::NONE,
            is_counted: false,
            idle_since: 0,
            job_ends: None,
        };
        let (mut all, mut longest) = (vec![first; count], vec![0; count]);
        let (mut waiting, mut last) = (0, LastKept::default());
        for instant in (ROUND..until).step_by(ROUND as usize) {
            let mut claims = vec![];
            for (database, known) in all.iter_mut().enumerate() {
                if known.job_ends.is_some_and(|at| at <= instant) {
                    (known.job_ends, known.idle_since) = (None, instant);
                }
                let wants = known.is_at_work(instant) && known.job_ends.is_none();
                if wants && !known.is_over(instant, waiting) {
                    known.job.claim(instant);
                }
                let (since, purpose) = match known.tenure {
                    None => (Some(known.needed_at), Purpose::Worker),
                    Some(_) => (known.job.waits_since(instant).filter(|_| wants), Purpose::Job),
                };
                let database = database as u32;
                claims.extend(since.map(|since| Claim { since, database, purpose }));
                known.is_counted = false;
            }
            claims.sort_unstable();
            let used = |known: &Employer| {
                usize::from(known.tenure.is_some()) + usize::from(known.job_ends.is_some())
            };
            let mut free = places - all.iter().map(used).sum::<usize>();
            waiting = 0;
            for claim in claims {
                let index = claim.database as usize;
                let rivals = rivals(&all, index, instant);
                let known = &mut all[index];
                match claim.purpose {
                    // An unmet claim before it.
                    _ if waiting > 0 => waiting += 1,
                    Purpose::Worker if free == 0 => waiting += 1,
                    Purpose::Worker => {
                        known.tenure = Some(begun_at(instant));
                        known.job.wait_again();
                        free -= 1;
                    }
                    Purpose::Job if free == 0 => {
                        waiting += usize::from(known.job.keep(instant, rivals, &mut last));
                    }
                    Purpose::Job
                        if !known.job.keep(instant, rivals, &mut last) && rivals.have_places => {}
                    Purpose::Job => {
                        longest[index] =
                            instant.max(longest[index] + known.idle_since) - known.idle_since;
                        known.job.end(instant, &mut last);
                        known.job_ends = Some(instant + job);
                        free -= 1;
                    }
                }
                let known = &mut all[index];
                known.is_counted = waiting > 0 && claim.purpose == Purpose::Job;
            }
            for known in &mut all {
                if known.is_at_work(instant) && known.is_over(instant, waiting) {
                    (known.tenure, known.needed_at, known.is_counted) = (None, instant, false);
                    waiting -= 1;
                }
            }
        }
        let without = |known: &&Employer| known.job_ends.is_none();
        for (longest, known) in longest.iter_mut().zip(&all).filter(|(_, known)| without(known)) {
            *longest = until.max(*longest + known.idle_since) - known.idle_since;
        }
        longest
    }

    #[test]
    fn databases_with_jobs_share_two_places() {
        for count in 2..8 {
            let longest = simulate_jobs(count, 2, 100 * MILLISECOND, 10 * SECOND);
            assert!(longest.iter().all(|longest| *longest < 4 * SECOND), "{count}: {longest:?}");
        }
    }

    proptest! {
        /// Where each needs a second place as well, it comes to that.
        #[test]
        fn no_job_waits_for_longer_than_the_turns_and_jobs_of_the_others(
            count in 1..8usize,
            places in 2..6usize,
            job in 1..2_000i64,
        ) {
            let job = job * MILLISECOND;
            let longest_turn = START + TURN + job + 4 * ROUND;
            let in_vain = (1 + RESTS) * KEPT.1;
            let bound = 3 * (count + 1) as i64 * longest_turn / 2 + in_vain;
            for longest in simulate_jobs(count, places, job, 60 * SECOND) {
                prop_assert!(longest <= bound, "{longest} µs of {bound}");
            }
        }
    }
}
