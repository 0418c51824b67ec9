//! Wake-ups: cause, offer and token.

/// An offer: there is a ready task, of this tube if it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    pub tube: Option<u64>,
}

/// Why consumers are woken.
#[derive(Clone, Copy, Debug)]
pub enum Cause {
    /// A committed transaction has made tasks ready.
    Commit,
    /// A transaction that had taken tasks is rolled back.
    Undo,
    /// A wake-up was not used.
    HandOn,
    /// A look came to nothing, or a sub-queue was given back that has something to take by now.
    GivenBack,
    /// The pause is over.
    PauseOver,
    /// The queue was redefined.
    Redefined,
}

/// Wake-up given to a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeToken {
    pub(super) offer: Offer,
    /// Number among the wake-ups of the queue; 0: for one process alone.
    pub(super) number: u64,
}

impl WakeToken {
    /// Makes the consumer look, without an offer.
    pub(in crate::parts) const NUDGE: WakeToken =
        WakeToken { offer: Offer { tube: None }, number: 0 };

    pub fn is_nudge(self) -> bool {
        self.number == 0
    }

    pub(in crate::parts) fn number(self) -> u64 {
        self.number
    }
}
