//! What the open transaction has done to a queue itself: its definition, its table, the table's owner.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The definition or the table has changed.
    pub redefined: bool,
    /// The queue was paused (true), or resumed (false).
    pub paused: Option<bool>,
    /// The slot is there because of this transaction.
    pub created: bool,
    /// Whose the table was before it was altered.
    pub owner_before: Option<u32>,
    /// A role that is no superuser has altered it.
    pub altered_by_user: bool,
    /// It is about to be another's: that is noted in the slot.
    pub given_away: bool,
    /// The table or the definition is gone (true), or there again (false).
    pub dropped: Option<bool>,
}

impl Change {
    pub fn absorb(&mut self, later: &Change) {
        self.redefined |= later.redefined;
        self.paused = later.paused.or(self.paused);
        self.created |= later.created;
        self.owner_before = self.owner_before.or(later.owner_before);
        self.altered_by_user |= later.altered_by_user;
        self.given_away |= later.given_away;
        self.dropped = later.dropped.or(self.dropped);
    }
}
