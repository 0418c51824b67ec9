//! A bounded list of values by tube. A new tube evicts the others in turn. The values are stored apart from the count
//! and are not touched while the list is empty.

use std::ops::Range;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Head {
    count: usize,
    /// Next entry to evict.
    next: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Values<T, const LIMIT: usize> {
    kept: [T; LIMIT],
    names: [u64; LIMIT],
}

/// Mutable view of a list.
pub struct ByTube<'q, T, const LIMIT: usize> {
    pub head: &'q mut Head,
    pub values: &'q mut Values<T, LIMIT>,
}

impl<T: Copy + Default, const LIMIT: usize> Default for Values<T, LIMIT> {
    fn default() -> Self {
        Values { kept: [T::default(); LIMIT], names: [0; LIMIT] }
    }
}

impl Head {
    pub fn is_used(&self) -> bool {
        self.count > 0
    }
}

impl<T, const LIMIT: usize> ByTube<'_, T, LIMIT> {
    /// Returns the position of a tube.
    pub fn place(&self, tube: u64) -> Option<usize> {
        self.values.names[..self.head.count].iter().position(|name| *name == tube)
    }

    /// Adds a tube that the list does not have and evicts the next one if the list is full. Returns the position.
    pub fn add(&mut self, tube: u64, new: T) -> usize {
        let place = self.head.next;
        self.head.next = (place + 1) % LIMIT;
        self.head.count = self.head.count.max(place + 1);
        (self.values.names[place], self.values.kept[place]) = (tube, new);
        place
    }

    /// Returns the value at a position.
    pub fn at(&mut self, place: usize) -> &mut T {
        &mut self.values.kept[place]
    }

    /// Returns the position of a task's tube, or all positions if the tube is unknown.
    pub fn concerning(&self, tube: Option<u64>) -> Range<usize> {
        match tube {
            None => 0..self.head.count,
            Some(tube) => self.place(tube).map_or(0..0, |place| place..place + 1),
        }
    }

    /// Returns all positions, the next to be evicted first.
    pub fn in_turn(&self) -> impl Iterator<Item = usize> + 'static {
        let Head { count, next } = *self.head;
        (0..count).map(move |index| (next + index) % count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Own = (Head, Values<u32, 3>);

    fn list((head, values): &mut Own) -> ByTube<'_, u32, 3> {
        ByTube { head, values }
    }

    #[test]
    fn the_oldest_gives_way() {
        let mut own = Own::default();
        let mut by_tube = list(&mut own);
        for tube in [10, 11, 12] {
            by_tube.add(tube, tube as u32);
        }
        assert_eq!(by_tube.in_turn().collect::<Vec<_>>(), [0, 1, 2]);
        *by_tube.at(0) *= 2;
        assert_eq!(by_tube.place(10).map(|place| *by_tube.at(place)), Some(20));
        let place = by_tube.add(13, 7);
        assert_eq!((place, by_tube.place(10), by_tube.place(11)), (0, None, Some(1)));
        assert_eq!(by_tube.in_turn().collect::<Vec<_>>(), [1, 2, 0]);
        by_tube.add(10, 1);
        assert_eq!(by_tube.place(11), None);
    }

    #[test]
    fn a_task_concerns_one_or_all() {
        let mut own = Own::default();
        let mut by_tube = list(&mut own);
        assert_eq!(by_tube.concerning(None).count(), 0);
        by_tube.add(10, 1);
        by_tube.add(11, 2);
        let places =
            [None, Some(11), Some(12)].map(|tube| by_tube.concerning(tube).collect::<Vec<_>>());
        assert_eq!(places, [vec![0, 1], vec![1], vec![]]);
    }
}
