//! Assignment of slots to tables: a hash table with chains in one array, with constant cost of finding, assigning and
//! freeing a slot. Guarded by the directory's lock.
//!
//! Element `i` is both bucket `i` and slot `i`. Bucket `i` begins the chain of the tables with this hash. Slot `i` is
//! in the chain of its table's bucket, or in the chain of free slots. An array of zeros has no slot assigned.

/// A table of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct TableId {
    pub database: u32,
    pub table: u32,
}

/// A bucket and a slot.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct SlotAssignment {
    /// 0 while the slot is free.
    generation: u64,
    of: TableId,
    /// First slot of the bucket's chain.
    first: Link,
    /// Next slot in the chain of this slot.
    next: Link,
}

/// A slot's index plus one; 0 is no link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
struct Link(u32);

/// Bookkeeping of the slots.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Head {
    /// Last generation given to a slot.
    generation: u64,
    /// First slot of the chain of freed slots.
    free: Link,
    /// Slots from this one on have never been assigned.
    unused: u32,
}

/// Mutable view of the assignments.
pub struct SlotAssignments<'held> {
    pub head: &'held mut Head,
    pub slots: &'held mut [SlotAssignment],
}

impl Link {
    fn to(index: u32) -> Link {
        Link(index + 1)
    }

    fn index(self) -> Option<u32> {
        self.0.checked_sub(1)
    }
}

impl SlotAssignment {
    /// Returns the table and the generation of a slot in use.
    pub fn in_use(&self) -> Option<(TableId, u64)> {
        (self.generation != 0).then_some((self.of, self.generation))
    }
}

impl Head {
    /// Returns an upper bound for the indexes of slots in use.
    pub fn bound(&self) -> usize {
        self.unused as usize
    }
}

/// Returns the index and the generation of a table's slot.
pub fn find(slots: &[SlotAssignment], of: TableId) -> Option<(u32, u64)> {
    let mut link = slots.get(bucket(slots.len(), of))?.first;
    while let Some(index) = link.index() {
        let slot = slots.get(index as usize)?;
        if slot.of == of {
            return Some((index, slot.generation));
        }
        link = slot.next;
    }
    None
}

/// Returns the bucket of a table. Object identifiers are assigned consecutively, so their bits are mixed.
fn bucket(count: usize, of: TableId) -> usize {
    let key = u64::from(of.database) << 32 | u64::from(of.table);
    let mixed = (key ^ key >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((u128::from(mixed) * count as u128) >> 64) as usize
}

impl SlotAssignments<'_> {
    /// Assigns a free slot to a table without a slot. Returns its index and generation; None if all slots are in use.
    pub fn add(&mut self, of: TableId) -> Option<(u32, u64)> {
        let index = match self.head.free.index() {
            Some(index) => {
                self.head.free = self.slots[index as usize].next;
                index
            }
            None if self.head.bound() < self.slots.len() => {
                self.head.unused += 1;
                self.head.unused - 1
            }
            None => return None,
        };
        self.head.generation += 1;
        let generation = self.head.generation;
        let bucket = bucket(self.slots.len(), of);
        let next = std::mem::replace(&mut self.slots[bucket].first, Link::to(index));
        let slot = &mut self.slots[index as usize];
        (slot.generation, slot.of, slot.next) = (generation, of, next);
        Some((index, generation))
    }

    /// Frees a slot in use.
    pub fn remove(&mut self, index: u32) {
        let Some((of, _)) = self.slots.get(index as usize).and_then(SlotAssignment::in_use) else {
            return;
        };
        let bucket = bucket(self.slots.len(), of);
        let next = self.slots[index as usize].next;
        let mut at = self.slots[bucket].first;
        if at == Link::to(index) {
            self.slots[bucket].first = next;
        }
        while let Some(before) = at.index() {
            let before = &mut self.slots[before as usize];
            at = before.next;
            if at == Link::to(index) {
                before.next = next;
                break;
            }
        }
        let slot = &mut self.slots[index as usize];
        (slot.generation, slot.of) = (0, TableId::default());
        slot.next = std::mem::replace(&mut self.head.free, Link::to(index));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    struct Area {
        head: Head,
        slots: Vec<SlotAssignment>,
    }

    impl Area {
        fn of(count: usize) -> Area {
            Area { head: Head::default(), slots: vec![SlotAssignment::default(); count] }
        }

        fn change<T>(&mut self, change: impl FnOnce(&mut SlotAssignments) -> T) -> T {
            change(&mut SlotAssignments { head: &mut self.head, slots: &mut self.slots })
        }

        fn find(&self, of: TableId) -> Option<(u32, u64)> {
            find(&self.slots, of)
        }

        /// Returns the length of each chain.
        fn chains(&self) -> Vec<usize> {
            let length = |bucket: &SlotAssignment| {
                let next = |link: &Link| link.index().map(|index| self.slots[index as usize].next);
                std::iter::successors(Some(bucket.first), next).count() - 1
            };
            self.slots.iter().map(length).collect()
        }
    }

    fn table(database: u32, table: u32) -> TableId {
        TableId { database, table }
    }

    #[test]
    fn a_slot_is_found_until_it_is_freed() {
        let mut area = Area::of(2);
        assert_eq!(area.find(table(1, 7)), None);
        assert_eq!(area.change(|all| all.add(table(1, 7))), Some((0, 1)));
        assert_eq!(area.change(|all| all.add(table(2, 7))), Some((1, 2)));
        assert_eq!(area.change(|all| all.add(table(3, 7))), None);
        assert_eq!(area.find(table(1, 7)), Some((0, 1)));
        area.change(|all| all.remove(0));
        assert_eq!((area.find(table(1, 7)), area.find(table(2, 7))), (None, Some((1, 2))));
        assert_eq!(area.change(|all| all.add(table(3, 7))), Some((0, 3)));
        area.change(|all| all.remove(0));
        area.change(|all| all.remove(0));
        assert_eq!(area.change(|all| all.add(table(1, 7))), Some((0, 4)));
        assert_eq!(area.change(|all| all.add(table(4, 7))), None);
    }

    #[test]
    fn without_slots_there_is_nothing() {
        let mut area = Area::of(0);
        assert_eq!(area.find(table(1, 7)), None);
        assert_eq!(area.change(|all| all.add(table(1, 7))), None);
        area.change(|all| all.remove(0));
    }

    /// Tables created one after another, with their indexes and sequences between them, in several databases.
    #[test]
    fn chains_stay_short() {
        for step in 1..12 {
            let mut area = Area::of(4096);
            for number in 0..4096 {
                let of = table(16384 + number % 3, 16400 + number / 3 * step);
                area.change(|all| all.add(of)).expect("a free slot");
            }
            let longest = area.chains().into_iter().max();
            assert!(longest <= Some(10), "{longest:?} in one chain with every {step}th number");
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Add(TableId),
        Remove(TableId),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let table = || (1..4u32, 1..12u32).prop_map(|(database, number)| table(database, number));
        let step =
            prop_oneof![3 => table().prop_map(Step::Add), 2 => table().prop_map(Step::Remove)];
        prop::collection::vec(step, 0..120)
    }

    proptest! {
        /// For any additions and removals, a table's slot is the one in the model. Slots are assigned until all are in
        /// use.
        #[test]
        fn what_is_assigned_is_found(count in 1..16usize, steps in steps()) {
            let mut area = Area::of(count);
            let mut model: HashMap<TableId, (u32, u64)> = HashMap::new();
            let mut last = 0;
            for step in steps {
                match step {
                    Step::Add(of) if model.contains_key(&of) => {}
                    Step::Add(of) => match area.change(|all| all.add(of)) {
                        Some((index, generation)) => {
                            prop_assert!(generation > last && (index as usize) < count);
                            prop_assert!(model.values().all(|(used, _)| *used != index));
                            last = generation;
                            model.insert(of, (index, generation));
                        }
                        None => prop_assert_eq!(model.len(), count),
                    },
                    Step::Remove(of) => if let Some((index, _)) = model.remove(&of) {
                        area.change(|all| all.remove(index));
                    },
                }
                for database in 1..4 {
                    for number in 1..12 {
                        let of = table(database, number);
                        prop_assert_eq!(area.find(of), model.get(&of).copied());
                    }
                }
                let bound = area.head.bound();
                let in_use = area.slots[..bound].iter().filter_map(SlotAssignment::in_use).count();
                prop_assert_eq!(in_use, model.len());
                prop_assert_eq!(area.chains().into_iter().sum::<usize>(), model.len());
            }
        }
    }
}
