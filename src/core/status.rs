//! The states of a task, their letters and names, and counters by state.

use crate::listed::listed;
use serde::{Deserialize, Serialize};

listed! {
    /// State of a task. It has the same letter in the Tarantool module xqueue.
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
}

impl Status {
    pub const fn letter(self) -> char {
        match self {
            Status::Ready => 'R',
            Status::Taken => 'T',
            Status::Waiting => 'W',
            Status::Buried => 'B',
            Status::Zombie => 'Z',
            Status::Done => 'D',
        }
    }

    /// Returns the state's name in statistics and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Ready => "ready",
            Status::Taken => "taken",
            Status::Waiting => "waiting",
            Status::Buried => "buried",
            Status::Zombie => "zombie",
            Status::Done => "done",
        }
    }

    /// Returns the state with this letter or name.
    pub fn named(text: &str) -> Option<Status> {
        let is_named =
            |status: &Status| text == status.name() || text == status.letter().to_string();
        Status::ALL.into_iter().find(is_named)
    }

    /// Returns whether the task has been processed.
    pub const fn is_over(self) -> bool {
        match self {
            Status::Ready | Status::Taken | Status::Waiting | Status::Buried => false,
            Status::Zombie | Status::Done => true,
        }
    }

    /// Returns whether the task is deleted at the end of its life.
    pub const fn is_mortal(self) -> bool {
        match self {
            Status::Ready | Status::Waiting | Status::Buried => true,
            Status::Taken | Status::Zombie | Status::Done => false,
        }
    }
}

/// Names of the states, in the order of [`Status::ALL`].
pub const NAMES: [&str; Status::ALL.len()] = {
    let mut names = [""; Status::ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = Status::ALL[index].name();
        index += 1;
    }
    names
};

/// Number of tasks by state, indexed by `Status as usize`.
pub type Tasks = [i64; Status::ALL.len()];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_names_follow_the_order_of_all() {
        let letters: String = Status::ALL.iter().map(|status| status.letter()).collect();
        assert_eq!(letters, "RTWBZD");
        assert_eq!(NAMES, ["ready", "taken", "waiting", "buried", "zombie", "done"]);
    }

    #[test]
    fn a_status_is_written_as_its_letter() {
        for status in Status::ALL {
            let written = serde_json::to_value(status).expect("a status can be written");
            assert_eq!(written, serde_json::json!(status.letter().to_string()));
        }
    }
}
