//! What a put does with a task whose key is there already.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Conflict {
    /// The put fails.
    Error,
    /// The task stays as it is.
    Nothing,
    /// The task gets the values that the put gives. `at_once`: it need not wait any more.
    Update { at_once: bool },
}

impl Conflict {
    /// Reads the argument `on_conflict`; None if it is no such word.
    pub fn named(name: &str) -> Option<Conflict> {
        match name {
            "error" => Some(Conflict::Error),
            "nothing" => Some(Conflict::Nothing),
            "update" => Some(Conflict::Update { at_once: false }),
            _ => None,
        }
    }
}
