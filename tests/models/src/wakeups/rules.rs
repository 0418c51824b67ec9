//! The rules of wake-ups: which process is woken, and where its token goes. `N` numbers wake-ups.

/// The knowledge of a consumer during its check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knows<N> {
    /// The wake-up whose task the consumer is searching for.
    pub token: Option<N>,
    /// The wake-up that has removed it from the wait queue since.
    pub woken: Option<N>,
    /// The last wake-up before its check began.
    pub seen: N,
}

/// The consequences of an unsuccessful check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vain<N> {
    pub looks_again: bool,
    /// The token for the next check.
    pub kept: Option<N>,
    /// The token that goes to another consumer.
    pub passed: Option<N>,
}

/// The rules; a flaw can switch off each of them.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// After an unsuccessful check the token is passed on if other consumers can find other tasks.
    pub passes_on: bool,
    /// The token is also passed on if the consumer has received another one meanwhile.
    pub passes_first: bool,
    /// A check during which there were wake-ups is repeated.
    pub looks_again: bool,
    /// A token never goes to a consumer that has checked since the last wake-up.
    pub goes_round: bool,
    /// A consumer that ends leaves its tokens to others.
    pub leaves: bool,
    /// It leaves the second token even if it has found a task for the first.
    pub leaves_second: bool,
}

impl Rules {
    /// Returns the consequences of an unsuccessful check. `by_caller`: other consumers can find tasks that it did not
    /// find.
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

    /// Returns whether a token can go to a consumer in the wait queue whose check began after wake-up `seen`.
    pub fn may_go_to<N: PartialOrd>(&self, seen: N, last: N) -> bool {
        seen < last || !self.goes_round
    }

    /// Returns the tokens that a consumer hands on when it leaves the wait queue, in order.
    pub fn left<N: Copy>(&self, of: Knows<N>, has_found: bool) -> [Option<N>; 2] {
        let token = of.token.filter(|_| !has_found && self.leaves);
        let another = of.woken.filter(|_| self.leaves && (!has_found || self.leaves_second));
        [token, another]
    }
}
