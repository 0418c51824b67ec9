//! Changes that a transaction makes to a queue itself: its definition, its table, the table's owner.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableChange {
    /// The definition or the table has changed.
    pub redefined: bool,
    /// The queue was paused (true), or resumed (false).
    pub paused: Option<bool>,
    /// The slot was assigned by this transaction.
    pub created: bool,
    /// Owner of the table before it was altered.
    pub owner_before: Option<u32>,
    /// The table was altered by a role that is not a superuser.
    pub altered_by_user: bool,
    /// The owner of the table is about to change, and the slot has been marked accordingly.
    pub given_away: bool,
    /// The table or the definition was dropped (true), or created again (false).
    pub dropped: Option<bool>,
}

impl TableChange {
    pub fn absorb(&mut self, later: &TableChange) {
        self.redefined |= later.redefined;
        self.paused = later.paused.or(self.paused);
        self.created |= later.created;
        self.owner_before = self.owner_before.or(later.owner_before);
        self.altered_by_user |= later.altered_by_user;
        self.given_away |= later.given_away;
        self.dropped = later.dropped.or(self.dropped);
    }
}
