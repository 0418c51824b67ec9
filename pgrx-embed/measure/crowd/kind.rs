//! The kinds of work for a crowd of consumers, each with a name for the command line.

use crate::peer::{DONE, NEXT, ROWS, Variant, Work};

/// How xqueue's contenders ack a task and take the next.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Way {
    Calls,
    Done,
    Next,
}

const WAYS: [Way; 3] = [Way::Calls, Way::Done, Way::Next];

impl Way {
    pub fn of(contender: &str) -> Option<Way> {
        WAYS.into_iter().find(|way| way.contender() == contender)
    }

    pub fn contender(self) -> &'static str {
        match self {
            Way::Calls => ROWS,
            Way::Done => DONE,
            Way::Next => NEXT,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Kind {
    pub group: Group,
    pub way: Way,
}

/// Contenders are compared within a group: the same work on the same variant of a queue.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Group {
    pub variant: Variant,
    pub work: Work,
}

/// More sub-queues than consumers, so that there always is a free one.
const SUB_QUEUES: u32 = 1000;
/// Names for the command line, and for headings.
const VARIANTS: [(&str, &str, Variant); 4] = [
    ("", "", Variant::Plain),
    ("utube", ", 1,000 sub-queues", Variant::SubQueues(SUB_QUEUES)),
    ("priority", ", 4 priorities", Variant::Priorities(4)),
    ("tube", ", 10 tubes", Variant::Tubes(10)),
];
/// Tasks for each second of a round that begins with a backlog: more than any contender can take.
const MOST_PER_SECOND: u32 = 60_000;
/// Ready tasks in addition to the lifecycles' tasks, so that no take finds all of them locked.
const SOME: u32 = 1000;
/// Ready tasks in each sub-queue or tube, in addition to the lifecycles' tasks.
const SOME_OF_EACH: u32 = 10;

impl Group {
    fn all() -> Vec<Group> {
        let mut groups = Vec::new();
        for (_, _, variant) in VARIANTS {
            for work in [Work::TakeAndAck, Work::Lifecycle] {
                groups.push(Group { variant, work });
            }
        }
        groups.push(Group { variant: Variant::Plain, work: Work::TakeAndAckMany });
        groups
    }

    pub fn title(self) -> String {
        let (_, more, _) = self.variant_named();
        let work = match self.work {
            Work::TakeAndAckMany => "Take and ack from a backlog, in batches of 100",
            Work::Lifecycle => "Lifecycles",
            Work::Put => "Put",
            _ => "Take and ack from a backlog",
        };
        format!("{work}{more}")
    }

    fn variant_named(self) -> (&'static str, &'static str, Variant) {
        let named = VARIANTS.into_iter().find(|(_, _, variant)| *variant == self.variant);
        named.unwrap_or(VARIANTS[0])
    }

    /// Batches are only measured with the fewest clients.
    pub fn clients(self, clients: &[u32]) -> &[u32] {
        match self.work {
            Work::TakeAndAckMany => &clients[..clients.len().min(1)],
            _ => clients,
        }
    }

    /// Returns the number of ready tasks at the start of a round, and the number to pass to `Peer::fill`.
    pub fn stock(self, seconds: u32, backlog: u32) -> (u32, u32) {
        let parts = self.variant.parts();
        let wanted = match self.work {
            Work::TakeAndAckMany => backlog,
            Work::Put | Work::Lifecycle => SOME.max(SOME_OF_EACH * parts),
            _ => MOST_PER_SECOND * seconds,
        };
        let each = wanted.div_ceil(parts);
        (each * parts, each)
    }
}

impl Kind {
    pub fn all() -> Vec<Kind> {
        let kinds = |group| WAYS.map(|way| Kind { group, way });
        Group::all().into_iter().flat_map(kinds).collect()
    }

    pub fn name(self) -> String {
        let work = match (self.group.work, self.way) {
            (Work::TakeAndAckMany, Way::Calls) => "batch",
            (Work::TakeAndAckMany, Way::Done) => "batch-done",
            (Work::TakeAndAckMany, Way::Next) => "batch-next",
            (Work::Lifecycle, Way::Calls) => "lifecycle",
            (Work::Lifecycle, Way::Done) => "lifecycle-done",
            (Work::Lifecycle, Way::Next) => "lifecycle-next",
            (_, Way::Calls) => "take-ack",
            (_, Way::Done) => "done",
            (_, Way::Next) => "next",
        };
        match self.group.variant_named().0 {
            "" => work.into(),
            variant => format!("{variant}-{work}"),
        }
    }

    /// Returns the kind of this name, or all kinds of a variant.
    pub fn named(name: &str) -> Vec<Kind> {
        let of_name = |kind: &Kind| kind.name() == name;
        let of_variant = |kind: &Kind| !name.is_empty() && kind.group.variant_named().0 == name;
        Kind::all().into_iter().filter(|kind| of_name(kind) || of_variant(kind)).collect()
    }
}

/// Groups the kinds. Each group comes with its selected ways.
pub fn groups(kinds: &[Kind]) -> Vec<(Group, Vec<Way>)> {
    let mut groups: Vec<(Group, Vec<Way>)> = Vec::new();
    for kind in kinds {
        match groups.iter_mut().find(|(group, _)| *group == kind.group) {
            Some((_, ways)) => ways.push(kind.way),
            None => groups.push((kind.group, vec![kind.way])),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        for kind in Kind::all() {
            assert_eq!(Kind::named(&kind.name()), [kind]);
        }
        assert_eq!(Kind::named("utube").len(), 6);
        assert!(Kind::named("").is_empty() && Kind::named("some").is_empty());
    }

    #[test]
    fn kinds_of_one_group_are_measured_together() {
        let kinds = [Kind::named("done"), Kind::named("lifecycle"), Kind::named("next")].concat();
        let groups = groups(&kinds);
        assert_eq!(groups[0].1, [Way::Done, Way::Next]);
        assert_eq!(groups[1].1, [Way::Calls]);
    }

    #[test]
    fn a_backlog_is_spread_over_all_parts() {
        let group = Group { variant: Variant::SubQueues(7), work: Work::TakeAndAck };
        assert_eq!(group.stock(1, 10), (60_004, 8_572));
        let group = Group { variant: Variant::Plain, work: Work::TakeAndAckMany };
        assert_eq!(group.stock(1, 10), (10, 10));
        assert_eq!(group.clients(&[4, 16]), [4]);
    }
}
