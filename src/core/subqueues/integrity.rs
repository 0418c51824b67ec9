//! Checks that the links between entries are consistent.

use crate::level::Level;
use crate::subqueues::entries::{LISTS, List, Pool, State, list_of, some};
use std::collections::BTreeSet;

impl Pool<'_> {
    /// Follows every link and counts the entries.
    pub fn assert_whole(&self) {
        let entries = (1..).zip(self.entries.iter());
        let used: Vec<(u32, _)> = entries.filter(|(_, entry)| entry.state != State::Free).collect();
        assert_eq!(used.len(), self.header.used as usize, "entries in use");
        let idle = used.iter().filter(|(_, entry)| entry.state == State::Idle).count();
        assert_eq!(idle, self.header.idle as usize, "idle entries");
        for (link, entry) in &used {
            assert_eq!(
                self.find(entry.queue, entry.subqueue),
                Some(*link),
                "found by its sub-queue"
            );
        }
        self.assert_free();
        for queue in 0..self.rings.len() as u32 {
            let of_queue = || used.iter().filter(move |(_, entry)| entry.queue == queue);
            let in_list = |list| {
                let links = of_queue().filter(|(_, entry)| list_of(entry.state) == list);
                links.map(|(link, _)| *link).collect::<BTreeSet<u32>>()
            };
            let mut ring = BTreeSet::new();
            self.walk_tree(self.rings[queue as usize].root, (None, None), u32::MAX, &mut ring);
            assert_eq!(ring, in_list(None), "the ring");
            assert_eq!(ring.len(), self.rings[queue as usize].waiting as usize, "its length");
            for list in LISTS {
                assert_eq!(self.walk_list(queue, list), in_list(Some(list)), "{list:?}");
            }
        }
    }

    fn assert_free(&self) {
        let (mut link, mut free) = (self.header.free, 0);
        while let Some(at) = some(link) {
            let entry = &self.entries[at as usize - 1];
            assert_eq!(entry.state, State::Free);
            (link, free) = (entry.chain, free + 1);
            assert!(free <= self.entries.len(), "a circle of free entries");
        }
        assert_eq!(free, (self.header.fresh - self.header.used) as usize, "free entries");
    }

    /// Checks that the levels below a link lie between the bounds and that no level weighs more than the one above it.
    fn walk_tree(
        &self,
        link: u32,
        (above, below): (Option<Level>, Option<Level>),
        heaviest: u32,
        seen: &mut BTreeSet<u32>,
    ) {
        let Some(link) = some(link) else { return };
        let entry = &self.entries[link as usize - 1];
        assert!(above.is_none_or(|bound| bound < entry.level), "order of levels");
        assert!(below.is_none_or(|bound| entry.level < bound), "order of levels");
        assert!(entry.weight <= heaviest, "weights");
        let mut at = link;
        loop {
            assert!(seen.insert(at), "an entry is linked twice");
            let (of, next) = (&self.entries[at as usize - 1], self.entries[at as usize - 1].next);
            assert_eq!((of.level, of.queue), (entry.level, entry.queue), "one level, one queue");
            assert_eq!(self.entries[next as usize - 1].previous, at, "the circle back");
            at = next;
            if at == link {
                break;
            }
        }
        self.walk_tree(entry.left, (above, Some(entry.level)), entry.weight, seen);
        self.walk_tree(entry.right, (Some(entry.level), below), entry.weight, seen);
    }

    fn walk_list(&self, queue: u32, list: List) -> BTreeSet<u32> {
        let (mut seen, mut previous) = (BTreeSet::new(), 0);
        let mut next = self.first(queue, list);
        while let Some(link) = next {
            assert!(seen.insert(link), "an entry is linked twice");
            assert_eq!(self.entries[link as usize - 1].previous, previous, "the list back");
            previous = link;
            next = self.after(link);
        }
        assert_eq!(self.rings[queue as usize].ends[list as usize][1], previous, "the last");
        seen
    }
}
