//! Names and problems of a queue, shown in statistics. The texts of problems are stored apart because few queues have
//! any.

pub const NAME_LENGTH: usize = 64;
pub const ERROR_LENGTH: usize = 512;

/// Text of a failure or a missing object, and the time at which it was found.
#[repr(C)]
struct Problem {
    text: [u8; ERROR_LENGTH],
    at: i64,
}

/// Problems of a queue. Each is valid only while its flag in [`ShownState`] is set.
#[repr(C)]
pub struct Problems {
    /// The worker's last failure.
    error: Problem,
    /// A task that takes have skipped.
    refused: Problem,
    /// Objects made by `upgrade` that the table has lost.
    lack: Problem,
}

/// Time (µs) for which a task that takes have skipped is shown. Each take that skips it shows it again.
const REFUSED_FOR: i64 = 60_000_000;

/// Guarded by the queue's lock.
#[repr(C)]
pub struct ShownState {
    pub names: [[u8; NAME_LENGTH]; 3],
    /// Time at which the oldest ready task became ready, as of the last request for metrics; 0 if no task was ready.
    pub ready_since: i64,
    /// The queue's version before `ready_since` was determined.
    pub ready_at: i64,
    has_error: bool,
    has_refused: bool,
    lacks: bool,
}

impl Default for ShownState {
    fn default() -> ShownState {
        ShownState {
            names: [[0; NAME_LENGTH]; 3],
            ready_since: 0,
            ready_at: 0,
            has_error: false,
            has_refused: false,
            lacks: false,
        }
    }
}

/// Mutable view of the names and problems.
pub struct Shown<'q> {
    pub state: &'q mut ShownState,
    pub problems: &'q mut Problems,
}

impl ShownState {
    /// Returns the most important problem and the time at which it was found: the worker's last failure, else a skipped
    /// task, else the objects that the table lacks.
    pub fn problem(&self, of: &Problems, now: i64) -> Option<(Text<ERROR_LENGTH>, i64)> {
        let refuses = self.has_refused && now.saturating_sub(of.refused.at) < REFUSED_FOR;
        let problem = match (self.has_error, refuses, self.lacks) {
            (true, _, _) => &of.error,
            (_, true, _) => &of.refused,
            (_, _, true) => &of.lack,
            (false, false, false) => return None,
        };
        Some((Text(problem.text), problem.at))
    }

    /// Returns whether the worker's last failure is shown.
    pub fn has_error(&self) -> bool {
        self.has_error
    }

    pub fn clear_error(&mut self) {
        self.has_error = false;
    }

    /// Returns the names that metrics show: database, schema, table.
    pub fn names(&self) -> [Text<NAME_LENGTH>; 3] {
        self.names.map(Text)
    }

    pub fn set_names(&mut self, names: [&str; 3]) {
        for (place, name) in self.names.iter_mut().zip(names) {
            set_text(place, name);
        }
    }

    /// Records since when the oldest task has been ready. `version`: the version from before the scan for it.
    pub fn set_ready_since(&mut self, since: Option<i64>, version: i64) {
        (self.ready_since, self.ready_at) = (since.unwrap_or(0), version);
    }

    pub fn forget_ready_since(&mut self) {
        self.ready_since = 0;
    }
}

impl Shown<'_> {
    /// Records a failure of the worker, for the view `xqueue.queues`.
    pub fn set_error(&mut self, error: &str, now: i64) {
        self.state.has_error = !error.is_empty();
        if self.state.has_error {
            self.problems.error.set(error, now);
        }
    }

    /// Records a task that a take had to pass over.
    pub fn set_refused(&mut self, refused: &str, now: i64) {
        self.state.has_refused = true;
        self.problems.refused.set(refused, now);
    }

    /// Records a defect of the table, such as a missing index; an empty text if there is no defect.
    pub fn set_lack(&mut self, lack: &str, now: i64) {
        let is_news = !self.state.lacks || !Text(self.problems.lack.text).is(lack);
        self.state.lacks = !lack.is_empty();
        if self.state.lacks && is_news {
            self.problems.lack.set(lack, now);
        }
    }
}

impl Problem {
    fn set(&mut self, text: &str, now: i64) {
        set_text(&mut self.text, text);
        self.at = now;
    }
}

/// A text in shared memory. It is copied under the lock, where no memory can be allocated, and converted without it.
#[derive(Clone, Copy, Debug)]
pub struct Text<const LENGTH: usize>(pub [u8; LENGTH]);

impl<const LENGTH: usize> Text<LENGTH> {
    pub fn read(&self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(LENGTH);
        String::from_utf8_lossy(&self.0[..end]).into_owned()
    }

    /// Returns whether this is the given text, truncated to the length of the array.
    pub fn is(&self, text: &str) -> bool {
        let mut place = [0; LENGTH];
        set_text(&mut place, text);
        let end = place.iter().position(|byte| *byte == 0).unwrap_or(LENGTH - 1);
        self.0[..=end] == place[..=end]
    }
}

pub fn set_text(place: &mut [u8], text: &str) {
    let length = text.floor_char_boundary(place.len() - 1);
    place[..length].copy_from_slice(&text.as_bytes()[..length]);
    place[length] = 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> Problems {
        let none = || Problem { text: [b'?'; ERROR_LENGTH], at: 0 };
        Problems { error: none(), refused: none(), lack: none() }
    }

    #[test]
    fn a_failure_is_shown_before_what_is_missing() {
        let (mut state, mut problems) = (ShownState::default(), none());
        let mut shown = Shown { state: &mut state, problems: &mut problems };
        let problem = |shown: &Shown| {
            shown.state.problem(shown.problems, 9).map(|(text, at)| (text.read(), at))
        };
        assert_eq!(problem(&shown), None);
        shown.set_lack("an index", 5);
        shown.set_lack("an index", 6);
        assert_eq!(problem(&shown), Some(("an index".to_string(), 5)));
        shown.set_error("failed", 7);
        assert!(shown.state.has_error());
        assert_eq!(problem(&shown), Some(("failed".to_string(), 7)));
        shown.state.clear_error();
        shown.set_lack("", 8);
        assert_eq!(problem(&shown), None);
        shown.set_lack("an index", 9);
        assert_eq!(problem(&shown), Some(("an index".to_string(), 9)));
    }

    #[test]
    fn a_task_passed_over_is_shown_for_a_minute() {
        let (mut state, mut problems) = (ShownState::default(), none());
        let mut shown = Shown { state: &mut state, problems: &mut problems };
        shown.set_lack("an index", 5);
        shown.set_refused("a task", 6);
        let at = |now| state.problem(&problems, now).map(|(text, _)| text.read());
        assert_eq!(at(5 + REFUSED_FOR), Some("a task".to_string()));
        assert_eq!(at(6 + REFUSED_FOR), Some("an index".to_string()));
    }
}
