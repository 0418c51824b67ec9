//! A bounded table of values by tube, for the tubes last asked for; new ones evict others in turn. Pure.

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
    pub fn knows(&self, tube: u64) -> bool {
        self.place(tube).is_some()
    }

    /// Returns the value of a tube.
    pub fn get(&mut self, tube: u64) -> Option<&mut T> {
        self.place(tube).map(|place| &mut self.kept[place])
    }

    /// Returns the value of a tube; a new one if there is none, which may evict another tube's.
    pub fn get_or_insert(&mut self, tube: u64, new: impl FnOnce() -> T) -> &mut T {
        let place = self.place(tube).unwrap_or_else(|| {
            let place = self.next;
            self.next = (place + 1) % LIMIT;
            self.count = self.count.max(place + 1);
            (self.names[place], self.kept[place]) = (tube, new());
            place
        });
        &mut self.kept[place]
    }

    /// Shows the value of a task's tube; those of all tubes if its tube is unknown.
    pub fn concerning(&mut self, tube: Option<u64>) -> impl Iterator<Item = &mut T> {
        let kept = self.kept.iter_mut().zip(&self.names).take(self.count);
        kept.filter(move |(_, name)| tube.is_none_or(|tube| **name == tube)).map(|(kept, _)| kept)
    }

    fn place(&self, tube: u64) -> Option<usize> {
        self.names[..self.count].iter().position(|name| *name == tube)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_give_way_in_turn() {
        let mut by_tube = ByTube::<u32, 3>::default();
        assert_eq!(by_tube.get(0), None);
        for tube in [10, 11, 12, 10] {
            *by_tube.get_or_insert(tube, || 0) += tube as u32;
        }
        assert_eq!(by_tube.get(10), Some(&mut 20));
        *by_tube.get_or_insert(13, || 7) += 1;
        assert_eq!([10, 11, 13].map(|tube| by_tube.get(tube).copied()), [None, Some(11), Some(8)]);
        by_tube.get_or_insert(10, || 1);
        assert_eq!(by_tube.get(11), None);
    }

    #[test]
    fn a_task_concerns_one_or_all() {
        let mut by_tube = ByTube::<u32, 3>::default();
        assert_eq!(by_tube.concerning(None).count(), 0);
        by_tube.get_or_insert(10, || 1);
        by_tube.get_or_insert(11, || 2);
        let kept = |of: &mut ByTube<u32, 3>, tube| of.concerning(tube).map(|kept| *kept).sum();
        let sums: [u32; 3] = [None, Some(11), Some(12)].map(|tube| kept(&mut by_tube, tube));
        assert_eq!(sums, [3, 2, 0]);
    }
}
