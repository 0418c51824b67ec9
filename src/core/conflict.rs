//! Action of a put on a task whose key already exists.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Conflict {
    /// The put fails.
    Error,
    /// The task stays unchanged.
    Nothing,
    /// The task gets the values of the put. With `at_once` a waiting task becomes ready.
    Update { at_once: bool },
}

impl Conflict {
    /// Parses the argument `on_conflict`; None if it is not a known word.
    pub fn named(name: &str) -> Option<Conflict> {
        match name {
            "error" => Some(Conflict::Error),
            "nothing" => Some(Conflict::Nothing),
            "update" => Some(Conflict::Update { at_once: false }),
            _ => None,
        }
    }
}
