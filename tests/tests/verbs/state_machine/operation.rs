//! The statements that sessions run.

use std::collections::BTreeMap;

use super::features::Features;
use super::model::Key;

/// A statement about tasks.
#[derive(Clone, Debug)]
pub enum Operation {
    Put {
        keys: Vec<Key>,
        given: Given,
    },
    Take {
        count: usize,
        given: Given,
    },
    TakeNamed {
        keys: Vec<Key>,
        given: Given,
    },
    /// One of the functions that name their tasks.
    Step {
        verb: Verb,
        keys: Vec<Key>,
        given: Given,
    },
    Plow {
        n: usize,
        given: Given,
    },
    Kick {
        n: usize,
    },
    ReleaseAll,
    GiveBack,
    /// `runat`: given, in the future.
    Insert {
        key: Key,
        status: Option<char>,
        runat: bool,
    },
    Update {
        key: Key,
        by_hand: ByHand,
    },
    Remove {
        key: Key,
    },
    Truncate,
    /// Features are switched. `convert`: see [`Model::upgrade`].
    Upgrade {
        features: Features,
        convert: BTreeMap<char, Option<char>>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verb {
    Ack,
    Release,
    Bury,
    Touch,
    Dig,
    Switch(char),
    Snatch,
    Restart,
    Delete,
}

impl Verb {
    pub fn name(self) -> &'static str {
        match self {
            Verb::Ack => "ack",
            Verb::Release => "release",
            Verb::Bury => "bury",
            Verb::Touch => "touch",
            Verb::Dig => "dig",
            Verb::Switch(_) => "switch",
            Verb::Snatch => "snatch",
            Verb::Restart => "restart",
            Verb::Delete => "delete",
        }
    }

    /// As the statistics call it.
    pub fn call(self, given: &Given) -> &'static str {
        match self {
            Verb::Dig => "kick",
            Verb::Release if given.unused => "give_back",
            _ => self.name(),
        }
    }
}

/// What a call gives besides the tasks.
#[derive(Clone, Debug, Default)]
pub struct Given {
    pub delay: bool,
    pub ttl: bool,
    pub ttr: bool,
    pub priority: Option<i64>,
    pub tube: Option<&'static str>,
    pub update: Option<i64>,
    pub attempt: Option<i64>,
    /// A release that uses up no attempt.
    pub unused: bool,
    /// A release says what went wrong.
    pub error: bool,
    /// What a put does with a task that is there; None for an error.
    pub conflict: Option<Conflict>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Conflict {
    Nothing,
    /// `at_once`: with a delay of zero.
    Update {
        at_once: bool,
    },
}

#[derive(Clone, Copy, Debug)]
pub enum ByHand {
    Status(char),
    Priority(i64),
    Tube(&'static str),
    Payload(i64),
    /// The worker is to act on it now.
    Due,
    /// Its life is over.
    Expired,
}

impl Operation {
    pub fn names_several(&self) -> bool {
        matches!(self, Operation::Step { keys, .. } if keys.len() > 1)
    }
}
