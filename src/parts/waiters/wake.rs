//! Wake-ups: offer and token.

/// An offer: there is a ready task, of this tube if it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    pub tube: Option<u64>,
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
}
