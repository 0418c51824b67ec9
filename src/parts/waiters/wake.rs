//! Wake-ups: the offer of a task, and the token for a consumer.

/// An offer: there is a ready task, in this tube if the tube is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    pub tube: Option<u64>,
}

/// A wake-up given to a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeToken {
    pub(super) offer: Offer,
    /// Number among the wake-ups of the queue; 0 if it concerns one process only.
    pub(super) number: u64,
}

impl WakeToken {
    /// Makes the consumer check, without an offer.
    pub(in crate::parts) const NUDGE: WakeToken =
        WakeToken { offer: Offer { tube: None }, number: 0 };

    pub fn is_nudge(self) -> bool {
        self.number == 0
    }

    pub fn names_tube(self) -> bool {
        self.offer.tube.is_some()
    }

    /// Returns whether the wake-up is for tasks of this tube.
    pub fn is_for(self, tube: Option<u64>) -> bool {
        self.offer.tube == tube
    }
}
