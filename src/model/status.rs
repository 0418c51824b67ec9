//! The six states of a task, their letters and names, and counters by state.

use serde::{Deserialize, Serialize};

/// State of a task. The letters are those of the Tarantool module xqueue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Status {
    #[serde(rename = "R")]
    Ready,
    #[serde(rename = "T")]
    Taken,
    #[serde(rename = "W")]
    Waiting,
    #[serde(rename = "B")]
    Buried,
    #[serde(rename = "Z")]
    Zombie,
    #[serde(rename = "D")]
    Done,
}

impl Status {
    pub const ALL: [Status; 6] = [
        Status::Ready,
        Status::Taken,
        Status::Waiting,
        Status::Buried,
        Status::Zombie,
        Status::Done,
    ];

    pub fn letter(self) -> char {
        ['R', 'T', 'W', 'B', 'Z', 'D'][self as usize]
    }

    /// Returns the state with this letter or name.
    pub fn named(text: &str) -> Option<Status> {
        let is_named =
            |status: &Status| text == status.name() || text == status.letter().to_string();
        Status::ALL.into_iter().find(is_named)
    }

    /// Returns whether the task has been processed.
    pub fn is_over(self) -> bool {
        matches!(self, Status::Zombie | Status::Done)
    }

    /// Returns the state's name in statistics and metrics.
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

/// Names of the states, in the order of [`Status::ALL`].
pub const NAMES: [&str; 6] = ["ready", "taken", "waiting", "buried", "zombie", "done"];

/// Number of tasks by state, indexed by `Status as usize`.
pub type Tasks = [i64; Status::ALL.len()];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_names_follow_the_order_of_all() {
        let letters: String = Status::ALL.iter().map(|status| status.letter()).collect();
        assert_eq!(letters, "RTWBZD");
        let names: Vec<_> = Status::ALL.iter().map(|status| status.name()).collect();
        assert_eq!(names, NAMES);
    }

    #[test]
    fn a_status_is_written_as_its_letter() {
        for status in Status::ALL {
            let written = serde_json::to_value(status).expect("a status can be written");
            assert_eq!(written, serde_json::json!(status.letter().to_string()));
        }
    }
}
