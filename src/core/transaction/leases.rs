//! Changes of the open transaction to the leases of the connection's own session on tasks of a queue; applied to
//! `parts::leases::held` at commit.

use crate::transaction::Given;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseChange {
    /// Number of tasks taken by this session.
    pub taken: u32,
    /// Leases that the connection's own session has got and lost.
    pub held: HeldChange,
    /// Foreign sessions that were given tasks by hand.
    pub given: Given,
}

impl LeaseChange {
    pub fn absorb(&mut self, later: &LeaseChange) {
        self.taken = self.taken.saturating_add(later.taken);
        self.held.absorb(later.held);
        self.given.absorb(&later.given);
    }
}

/// Numbers of leases. A task may be recorded as lost before it is recorded as got: a statement's triggers fire at its
/// end, so a call within it comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldChange {
    pub got: u64,
    pub lost: u64,
}

impl HeldChange {
    pub fn absorb(&mut self, later: HeldChange) {
        (self.got, self.lost) = (self.got + later.got, self.lost + later.lost);
    }

    /// Returns how many are held after it of `count` before. Tasks that a session was given by hand are lost, but never
    /// got.
    pub fn applied_to(self, count: u64) -> u64 {
        (count + self.got).saturating_sub(self.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_may_come_before_its_gain_and_more_may_be_lost_than_was_got() {
        let mut change = HeldChange { got: 0, lost: 1 };
        change.absorb(HeldChange { got: 2, lost: 0 });
        assert_eq!(change.applied_to(0), 1);
        assert_eq!(HeldChange { got: 1, lost: 5 }.applied_to(3), 0);
    }
}
