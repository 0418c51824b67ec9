//! A bounded list of values by tube, for the tubes last asked for; new ones evict others in turn. Pure.

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ByTube<T, const LIMIT: usize> {
    kept: [T; LIMIT],
    names: [u64; LIMIT],
    count: usize,
    /// Next entry to evict.
    next: usize,
}

impl<T: Copy + Default, const LIMIT: usize> Default for ByTube<T, LIMIT> {
    fn default() -> Self {
        ByTube { kept: [T::default(); LIMIT], names: [0; LIMIT], count: 0, next: 0 }
    }
}

impl<T, const LIMIT: usize> ByTube<T, LIMIT> {
    /// Returns the place of a tube.
    pub fn place(&self, tube: u64) -> Option<usize> {
        self.names[..self.count].iter().position(|name| *name == tube)
    }

    /// Adds a tube that is not there, which may evict another one; returns its place.
    pub fn add(&mut self, tube: u64, new: T) -> usize {
        let place = self.next;
        self.next = (place + 1) % LIMIT;
        self.count = self.count.max(place + 1);
        (self.names[place], self.kept[place]) = (tube, new);
        place
    }

    /// Returns the value of the tube at a place.
    pub fn at(&mut self, place: usize) -> &mut T {
        &mut self.kept[place]
    }

    /// Returns the place of a task's tube; those of all tubes if its tube is unknown.
    pub fn concerning(&self, tube: Option<u64>) -> impl Iterator<Item = usize> + use<T, LIMIT> {
        match tube {
            None => 0..self.count,
            Some(tube) => self.place(tube).map_or(0..0, |place| place..place + 1),
        }
    }

    /// Returns all places, those evicted next first.
    pub fn in_turn(&self) -> impl Iterator<Item = usize> + use<T, LIMIT> {
        let (count, next) = (self.count, self.next);
        (0..count).map(move |index| (next + index) % count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_gives_way() {
        let mut by_tube = ByTube::<u32, 3>::default();
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
        let mut by_tube = ByTube::<u32, 3>::default();
        assert_eq!(by_tube.concerning(None).count(), 0);
        by_tube.add(10, 1);
        by_tube.add(11, 2);
        let places =
            [None, Some(11), Some(12)].map(|tube| by_tube.concerning(tube).collect::<Vec<_>>());
        assert_eq!(places, [vec![0, 1], vec![1], vec![]]);
    }
}
