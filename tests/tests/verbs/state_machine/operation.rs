//! The statements that sessions run.

use super::model::Key;

/// A statement about tasks.
#[derive(Clone, Debug)]
pub enum Operation {
    Put(Vec<Key>, Given),
    /// A take of this many tasks.
    Take(usize, Given),
    TakeNamed(Vec<Key>, Given),
    /// A function that names its tasks.
    Step(Verb, Vec<Key>, Given),
    /// A plow of this many tasks.
    Plow(usize, Given),
    Kick(usize),
    ReleaseAll,
    GiveBack,
    /// The status, and whether `runat` is a time in the future.
    Insert(Key, Option<char>, bool),
    Update(Key, ByHand),
    Remove(Key),
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

    /// Returns the name of the call in the statistics.
    pub fn call(self, given: &Given) -> &'static str {
        match self {
            Verb::Dig => "kick",
            Verb::Release if given.unused => "give_back",
            _ => self.name(),
        }
    }
}

/// Arguments of a call besides the tasks.
#[derive(Clone, Debug, Default)]
pub struct Given {
    pub delay: bool,
    pub ttl: bool,
    pub ttr: bool,
    pub priority: Option<i64>,
    pub tube: Option<&'static str>,
    pub update: Option<i64>,
    pub attempt: Option<i64>,
    /// A task that the session does not hold is passed over.
    pub if_held: bool,
    /// A release that does not count as an attempt.
    pub unused: bool,
    /// The error text of a release.
    pub error: bool,
    /// The action of a put on an existing task; None raises an error.
    pub conflict: Option<Conflict>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Conflict {
    Nothing,
    Update,
    /// With a delay of zero.
    UpdateAtOnce,
}

#[derive(Clone, Copy, Debug)]
pub enum ByHand {
    Status(char),
    Priority(i64),
    Tube(&'static str),
    Payload(i64),
    /// The worker acts on it now.
    Due,
    /// Its life has expired.
    Expired,
}

impl Operation {
    /// Returns whether nothing reports its change of a row. A take that meets the changed row skips it, and a later take
    /// can get it up to a second late (docs/dev/internals.md).
    pub fn is_unreported(&self) -> bool {
        match self {
            Operation::Put(_, given) => given.conflict.is_some(),
            Operation::Update(_, by_hand) => matches!(by_hand, ByHand::Payload(_)),
            _ => false,
        }
    }

    pub fn names_several(&self) -> bool {
        matches!(self, Operation::Step(_, keys, _) if keys.len() > 1)
    }
}
