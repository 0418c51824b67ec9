//! Sessions that can have ended before a commit gives them tasks. These are foreign sessions to which the open
//! transaction has assigned tasks by hand, and sessions that this connection has left. At commit, the sessions that
//! have ended or never existed are handed to the worker.

/// Maximum number of sessions recorded; beyond it the worker compares all owners with live sessions.
const SESSIONS_NOTED: usize = 16;

/// Sessions by their identifiers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    sessions: Vec<[u8; 16]>,
    /// There are more sessions than recorded.
    pub more: bool,
}

impl Given {
    pub fn knows(&self, session: [u8; 16]) -> bool {
        self.sessions.contains(&session)
    }

    /// Records a session.
    pub fn add(&mut self, session: [u8; 16]) {
        if self.knows(session) {
            return;
        }
        match self.sessions.len() < SESSIONS_NOTED {
            true => self.sessions.push(session),
            false => self.more = true,
        }
    }

    pub fn absorb(&mut self, later: &Given) {
        later.sessions().for_each(|session| self.add(session));
        self.more |= later.more;
    }

    pub fn sessions(&self) -> impl Iterator<Item = [u8; 16]> {
        self.sessions.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_noted_once_and_very_many_are_not() {
        let (mut given, mut later) = (Given::default(), Given::default());
        given.add([1; 16]);
        given.add([1; 16]);
        later.add([2; 16]);
        given.absorb(&later);
        assert_eq!(given.sessions().collect::<Vec<_>>(), [[1; 16], [2; 16]]);
        assert!(given.knows([2; 16]) && !given.knows([3; 16]));
        (0..16).for_each(|session| given.add([session; 16]));
        assert!(!given.more && given.sessions().count() == SESSIONS_NOTED);
        given.add([99; 16]);
        assert!(given.more && !given.knows([99; 16]));
        assert_eq!(given.sessions().count(), SESSIONS_NOTED);
    }
}
