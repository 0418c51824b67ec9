//! What a wake-up is: why there is one, of what it tells, and the token that it gives.

/// A wake-up: there is a ready task, of this tube where that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    pub tube: Option<u64>,
}

/// Why consumers are woken.
#[derive(Clone, Copy, Debug)]
pub enum Cause {
    /// A transaction is committed that has made tasks ready.
    Commit,
    /// One is undone that had taken some.
    Undo,
    /// A wake-up that was not used.
    HandOn,
    /// A look came to nothing, or a sub-queue was given back in which there is something by now.
    GivenBack,
    /// The pause is over.
    PauseOver,
    /// What the queue gives is another.
    Redefined,
}

/// A wake-up that a consumer has been given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeToken {
    pub(super) offer: Offer,
    /// Its number among the wake-ups of the queue; 0: it is for one process alone.
    pub(super) number: u64,
}

impl WakeToken {
    /// To look, and no more.
    pub(in crate::parts) const NUDGE: WakeToken =
        WakeToken { offer: Offer { tube: None }, number: 0 };

    pub fn is_nudge(self) -> bool {
        self.number == 0
    }

    pub(in crate::parts) fn number(self) -> u64 {
        self.number
    }
}
