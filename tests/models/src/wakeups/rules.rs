//! The rules of wake-ups: which process is woken, and what becomes of a token. `N` numbers wake-ups.

/// What a consumer knows while it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knows<N> {
    /// The wake-up that it looks for.
    pub token: Option<N>,
    /// The one that has taken it out of the line since.
    pub woken: Option<N>,
    /// The last before its look began.
    pub seen: N,
}

/// What follows from a look in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vain<N> {
    pub looks_again: bool,
    /// The token for that look.
    pub kept: Option<N>,
    /// The one that goes on to another.
    pub passed: Option<N>,
}

/// The rules, each of which may be left out.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// A look in vain where others may find what it does not passes its token on.
    pub passes_on: bool,
    /// So does one that has been given another token meanwhile.
    pub passes_first: bool,
    /// One during which there were wake-ups is not the last.
    pub looks_again: bool,
    /// A token goes on to none that has looked since the last wake-up.
    pub goes_round: bool,
    /// One that ends leaves its tokens to others,
    pub leaves: bool,
    /// also if it has found a task for the first of them.
    pub leaves_second: bool,
}

impl Rules {
    /// What a look in vain leads to. `by_caller`: others may find what it did not.
    pub fn vain<N: Copy + PartialEq>(&self, of: Knows<N>, last: N, by_caller: bool) -> Vain<N> {
        let has_changed = of.seen != last;
        let looks_again = has_changed && of.woken.is_none() && self.looks_again;
        let passes = match by_caller {
            true => self.passes_on,
            false => has_changed && !looks_again && self.passes_first,
        };
        Vain {
            looks_again,
            kept: of.token.filter(|_| looks_again && !by_caller),
            passed: of.token.filter(|_| passes && self.looks_again),
        }
    }

    /// Returns whether a token may go on to a consumer in the wait queue whose look began after wake-up `seen`.
    pub fn may_go_to<N: PartialOrd>(&self, seen: N, last: N) -> bool {
        seen < last || !self.goes_round
    }

    /// The tokens that a consumer hands on as it leaves the line, in their order.
    pub fn left<N: Copy>(&self, of: Knows<N>, has_found: bool) -> [Option<N>; 2] {
        let token = of.token.filter(|_| !has_found && self.leaves);
        let another = of.woken.filter(|_| self.leaves && (!has_found || self.leaves_second));
        [token, another]
    }
}
