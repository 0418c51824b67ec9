//! Changes of the open transaction to the leases of the connection's own session on tasks of a queue; applied to
//! `parts::leases::held` at commit.

use crate::transaction::Given;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseChange {
    /// Number of tasks taken by this session.
    pub taken: u32,
    /// Leases that the connection's own session has got and lost.
    pub held: HeldChange,
    /// Foreign sessions that were given tasks by hand, and sessions left since the queue was changed.
    pub given: Given,
}

impl LeaseChange {
    pub fn absorb(&mut self, later: &LeaseChange) {
        self.taken = self.taken.saturating_add(later.taken);
        self.held.absorb(later.held);
        self.given.absorb(&later.given);
    }
}

/// Numbers of leases. The loss of a lease can be recorded before the lease itself. The triggers of a statement fire at
/// its end, after the functions that the statement calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldChange {
    pub got: u64,
    pub lost: u64,
}

impl HeldChange {
    pub fn absorb(&mut self, later: HeldChange) {
        (self.got, self.lost) = (self.got + later.got, self.lost + later.lost);
    }

    /// Returns the number of leases after the change if there were `count` before. The result is never negative: leases
    /// that a session was given by hand are counted as lost, but never as got.
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
