//! Changes to a trace that no server can have made: a replay that accepts one of these would accept anything. Each
//! model says which of them describe the same history again.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tampering {
    Dropped(usize),
    Doubled(usize),
    Swapped(usize, usize),
}

impl Tampering {
    /// An event is dropped, doubled, and swapped with the one at `before`.
    pub fn of_event(index: usize, before: Option<usize>) -> impl Iterator<Item = Tampering> {
        let swapped = before.map(|before| Tampering::Swapped(before, index));
        [Tampering::Dropped(index), Tampering::Doubled(index)].into_iter().chain(swapped)
    }

    /// The first event that is concerned.
    pub fn begins(self) -> usize {
        match self {
            Tampering::Dropped(index) | Tampering::Doubled(index) => index,
            Tampering::Swapped(one, _) => one,
        }
    }

    /// The trace with that done to it.
    pub fn of<E>(self, trace: &[E]) -> Vec<&E> {
        trace[..self.begins()].iter().chain(self.rest(trace)).collect()
    }

    /// Returns the changed trace from the first event that is concerned.
    pub fn rest<E>(self, trace: &[E]) -> impl Iterator<Item = &E> {
        let begins = self.begins();
        let twice = matches!(self, Tampering::Doubled(_)).then_some(begins);
        let rest = (begins..trace.len()).filter_map(move |index| match self {
            Tampering::Dropped(dropped) if dropped == index => None,
            Tampering::Swapped(one, other) if one == index => Some(other),
            Tampering::Swapped(one, other) if other == index => Some(one),
            _ => Some(index),
        });
        twice.into_iter().chain(rest).map(|index| &trace[index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_is_dropped_doubled_or_in_anothers_place() {
        let trace = ['a', 'b', 'c', 'd'];
        let done = |tampering: Tampering| tampering.of(&trace).into_iter().collect::<String>();
        assert_eq!(done(Tampering::Dropped(1)), "acd");
        assert_eq!(done(Tampering::Doubled(3)), "abcdd");
        assert_eq!(done(Tampering::Swapped(0, 2)), "cbad");
        let all: Vec<_> = Tampering::of_event(3, Some(1)).map(done).collect();
        assert_eq!(all, ["abc", "abcdd", "adcb"]);
    }
}
