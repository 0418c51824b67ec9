//! Position of a task in its queue: a number in take order.

/// A group of tasks with a mark of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// Ready tasks, optionally of one tube, given by its hash, and of one priority.
    Ready {
        tube: Option<u64>,
        priority: Option<i64>,
    },
    Buried,
}

/// The kinds of tasks that have marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    Ready,
    Buried,
}

impl Group {
    /// All ready tasks.
    pub const ALL: Group = Group::Ready { tube: None, priority: None };

    pub fn kind(self) -> TaskKind {
        if self == Group::Buried { TaskKind::Buried } else { TaskKind::Ready }
    }

    /// Returns whether a task can be in both groups.
    pub fn meets(self, other: Group) -> bool {
        match (self, other) {
            (
                Group::Ready { tube, priority },
                Group::Ready { tube: tubes, priority: priorities },
            ) => {
                let is_apart = tube.zip(tubes).is_some_and(|(one, other)| one != other);
                let is_later = priority.zip(priorities).is_some_and(|(one, other)| one != other);
                !is_apart && !is_later
            }
            _ => self == other,
        }
    }

    /// Returns the group that replaces this one if it does not fit into the bounded table: all tubes of the priority,
    /// or all tasks.
    pub fn wider(self) -> Group {
        match self {
            Group::Ready { tube: Some(_), priority } => Group::Ready { tube: None, priority },
            _ => Group::ALL,
        }
    }
}

impl TaskKind {
    /// Returns whether the record of a group can include tasks of this kind. The group of all tasks includes everything
    /// that did not fit.
    pub fn may_be_in(self, group: Group) -> bool {
        group == Group::ALL || group.kind() == self
    }
}

/// A position in take order. Equal positions say nothing about the order of their tasks.
pub type Position = u128;

/// Before all tasks.
pub const FIRST: Position = 0;
/// Behind all tasks.
pub const LAST: Position = Position::MAX;

/// Returns the position of an integer or an instant.
pub fn of_integer(key: i64) -> Position {
    Position::from(key as u64 ^ SIGN)
}

/// Returns the integer at a position, clamped to the range of its type.
pub fn to_integer(position: Position, (least, greatest): (i64, i64)) -> i64 {
    match u64::try_from(position) {
        Ok(bits) => ((bits ^ SIGN) as i64).clamp(least, greatest),
        Err(_) => greatest,
    }
}

/// Returns the position of a uuid, in bytewise order. `LAST` is reserved, so the greatest uuid shares its predecessor's
/// position.
pub fn of_bytes(key: [u8; 16]) -> Position {
    Position::from_be_bytes(key).min(LAST - 1)
}

pub fn to_bytes(position: Position) -> [u8; 16] {
    position.to_be_bytes()
}

/// Returns the position of a string of bytes, in bytewise order: its first 16 bytes.
pub fn of_prefix(bytes: &[u8]) -> Position {
    let mut prefix = [0; 16];
    let length = bytes.len().min(prefix.len());
    prefix[..length].copy_from_slice(&bytes[..length]);
    of_bytes(prefix)
}

/// Returns the least string of bytes at a position.
pub fn to_prefix(position: Position) -> Vec<u8> {
    let bytes = to_bytes(position);
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes[..end].to_vec()
}

/// Returns a position in order of an integer, then of half a position. `LAST` is reserved, so the greatest pair shares
/// its predecessor's position.
pub fn of_pair(first: i64, half: u64) -> Position {
    (of_integer(first) << 64 | Position::from(half)).min(LAST - 1)
}

/// Returns the integer and the half of a position made by `of_pair`.
pub fn to_pair(position: Position) -> (i64, u64) {
    (to_integer(position >> 64, (i64::MIN, i64::MAX)), position as u64)
}

const SIGN: u64 = 1 << 63;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::select;

    /// Strings of bytes that often share their first 16 bytes.
    fn strings() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(select(vec![0, 1, b'a', 0xff]), 0..19).prop_flat_map(|own| {
            let shared = select(vec![vec![], vec![b'a'; 15], vec![0xff; 16], vec![0; 8]]);
            shared.prop_map(move |shared| [&shared[..], &own[..]].concat())
        })
    }

    proptest! {
        #[test]
        fn places_have_the_order_of_strings(one in strings(), other in strings()) {
            let at = of_prefix(&one);
            prop_assert!(at < LAST);
            if one <= other {
                prop_assert!(at <= of_prefix(&other));
            }
            // A scan from a position misses no string there or behind it.
            for start in [at, at + 1, at >> 64 << 64] {
                prop_assert!(start > of_prefix(&other) || to_prefix(start) <= other);
            }
            prop_assert_eq!(of_prefix(&to_prefix(at)), at);
        }
    }

    #[test]
    fn places_have_the_order_of_integers_and_come_back() {
        let keys = [i64::MIN, i64::MIN + 1, -1, 0, 1, 42, i64::MAX - 1, i64::MAX];
        for pair in keys.windows(2) {
            assert!(of_integer(pair[0]) < of_integer(pair[1]), "{pair:?}");
        }
        for key in keys {
            assert_eq!(to_integer(of_integer(key), (i64::MIN, i64::MAX)), key);
        }
        assert_eq!(of_integer(i64::MIN), FIRST);
        assert_eq!(to_integer(LAST, (i64::MIN, i64::MAX)), i64::MAX);
        assert_eq!(to_integer(FIRST, (i64::MIN, i64::MAX)), i64::MIN);
        let small = (i64::from(i16::MIN), i64::from(i16::MAX));
        assert_eq!(to_integer(LAST, small), i64::from(i16::MAX));
        assert_eq!(to_integer(FIRST, small), i64::from(i16::MIN));
    }

    #[test]
    fn places_have_the_order_of_priorities_then_of_keys() {
        let places: Vec<_> = [(i64::MIN, 0), (i64::MIN, 7), (-1, u64::MAX), (0, 0), (0, 1)]
            .into_iter()
            .chain([(i64::MAX, u64::MAX - 1)])
            .collect();
        for pair in places.windows(2) {
            let [first, second] = [pair[0], pair[1]].map(|(level, key)| of_pair(level, key));
            assert!(first < second, "{pair:?}");
        }
        for (priority, key) in places {
            assert_eq!(to_pair(of_pair(priority, key)), (priority, key));
        }
        assert_eq!(of_pair(i64::MIN, 0), FIRST);
        assert_eq!(to_pair(LAST), (i64::MAX, u64::MAX));
        assert!(of_pair(i64::MAX, u64::MAX) < LAST);
    }

    #[test]
    fn places_have_the_order_of_uuids_and_come_back() {
        let (mut low, mut high) = ([0; 16], [0; 16]);
        (low[15], high[0]) = (0xff, 1);
        assert!(of_bytes(low) < of_bytes(high));
        assert_eq!(to_bytes(of_bytes(high)), high);
        assert_eq!(of_bytes([0; 16]), FIRST);
        assert!(of_bytes([0xff; 16]) < LAST && to_bytes(of_bytes([0xff; 16])) <= [0xff; 16]);
    }
}
