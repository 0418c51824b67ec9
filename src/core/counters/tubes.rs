//! Tubes with statistics of their own, in shared memory under the queue's lock. They are stored apart from the queue's
//! counters because few queues have such tubes.

use crate::change::{Counts, Transitions};
use crate::counters::shown::{NAME_LENGTH, Text, set_text};
use crate::metrics::fnv1a;
use crate::options::TUBES_COUNTED;
use crate::status::Tasks;
use crate::transaction::counters::{CounterChange, add, add_all};
use std::io::Write;

/// Counters of a tube.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct TubeCounters {
    pub tasks: Tasks,
    /// Changes since the recount in progress began, except those that it sees.
    pub since: Tasks,
    pub transitions: Transitions,
}

/// Counters and names of the tubes, in the order of the options.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CountedTubes {
    counters: [TubeCounters; TUBES_COUNTED],
    names: [[u8; NAME_LENGTH]; TUBES_COUNTED],
    /// How many tubes have names. A name can be empty.
    named: usize,
}

/// Mutable view of a queue's tubes. The first change clears the entries that another queue has left in the slot.
pub struct OfTubes<'q> {
    pub are_there: &'q mut bool,
    pub counted: &'q mut CountedTubes,
}

impl CountedTubes {
    pub const NONE: CountedTubes = CountedTubes {
        counters: [TubeCounters { tasks: [0; _], since: [0; _], transitions: [[0; _]; _] }; _],
        names: [[0; _]; _],
        named: 0,
    };

    fn names(&self) -> [Option<Text<NAME_LENGTH>>; TUBES_COUNTED] {
        std::array::from_fn(|tube| (tube < self.named).then(|| Text(self.names[tube])))
    }
}

impl OfTubes<'_> {
    pub fn counters(&self) -> &[TubeCounters; TUBES_COUNTED] {
        &self.read().counters
    }

    /// Returns the names, shortened if too long.
    pub fn names(&self) -> [Option<Text<NAME_LENGTH>>; TUBES_COUNTED] {
        self.read().names()
    }

    fn read(&self) -> &CountedTubes {
        if *self.are_there { self.counted } else { &CountedTubes::NONE }
    }

    /// Returns the counters if the queue has such tubes.
    fn known(&mut self) -> &mut [TubeCounters] {
        if *self.are_there { &mut self.counted.counters } else { &mut [] }
    }

    fn made(&mut self) -> &mut CountedTubes {
        if !std::mem::replace(self.are_there, true) {
            *self.counted = CountedTubes::NONE;
        }
        self.counted
    }

    /// Applies the changes of a committed transaction. `is_counted`: the recount in progress sees the transaction.
    pub fn commit(&mut self, change: &CounterChange, is_counted: bool) {
        if change.tubes_changed {
            self.known().fill(TubeCounters::default());
        }
        if change.replaces {
            self.known().iter_mut().for_each(|tube| tube.tasks = Tasks::default());
        }
        for (tube, change) in &change.tubes {
            let tube = &mut self.made().counters[*tube];
            add(&mut tube.tasks, &change.tasks);
            if !is_counted {
                add(&mut tube.since, &change.tasks);
            }
            add_all(&mut tube.transitions, &change.transitions);
        }
    }

    pub fn begin_recount(&mut self) {
        self.known().iter_mut().for_each(|tube| tube.since = Tasks::default());
    }

    /// Sets the numbers of tasks after a recount.
    pub fn set_counted(&mut self, counts: &Counts) {
        let has_some = counts.tubes.iter().any(|tasks| *tasks != Tasks::default());
        let tubes = if has_some { &mut self.made().counters } else { self.known() };
        tubes.iter_mut().zip(counts.tubes).for_each(|(tube, tasks)| tube.tasks = tasks);
    }

    pub fn reset_transitions(&mut self) {
        self.known().iter_mut().for_each(|tube| tube.transitions = Transitions::default());
    }

    /// Sets the names; long names are shortened.
    pub fn set_names(&mut self, tubes: &[String]) {
        if tubes.is_empty() && !*self.are_there {
            return;
        }
        let made = self.made();
        made.named = tubes.len();
        made.names.iter_mut().zip(tubes).for_each(|(place, name)| set_name(place, name));
    }
}

/// Stores a name. A name that is too long is shortened and gets a hash of the whole name.
fn set_name(place: &mut [u8; NAME_LENGTH], name: &str) {
    set_text(place, name);
    if name.len() >= NAME_LENGTH {
        let end = name.floor_char_boundary(NAME_LENGTH - "-01234567\0".len());
        // There is room, so writing cannot fail.
        let _ = write!(&mut place[end..], "-{:08x}\0", fnv1a(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::counters::TubeDelta;

    #[test]
    fn what_is_not_there_is_not_touched_and_what_another_queue_has_left_not_kept() {
        let (mut are_there, mut counted) = (false, CountedTubes::NONE);
        let one = TubeDelta { tasks: [1; 6], ..TubeDelta::default() };
        let put = CounterChange { tubes: vec![(3, one)], ..CounterChange::default() };
        let empty =
            CounterChange { tubes_changed: true, replaces: true, ..CounterChange::default() };
        let mut of = OfTubes { are_there: &mut are_there, counted: &mut counted };
        (0..2).for_each(|_| of.commit(&put, false));
        of.set_names(&["one".to_string()]);
        assert_eq!(of.counted.counters[3].tasks, [2; 6]);
        // The slot now belongs to another queue.
        *of.are_there = false;
        of.commit(&empty, false);
        of.set_names(&[]);
        of.set_counted(&Counts::default());
        of.reset_transitions();
        assert!(!*of.are_there && of.counted.counters[3].tasks == [2; 6]);
        of.commit(&put, false);
        assert_eq!((of.counted.counters[3].tasks, names(&of).len()), ([1; 6], 0));
        of.commit(&empty, false);
        assert_eq!(of.counted.counters[3].tasks, [0; 6]);
        let mut counts = Counts::default();
        counts.tubes[2] = [7; 6];
        of.set_counted(&counts);
        assert_eq!(of.counted.counters[2].tasks, [7; 6]);
    }

    fn names(of: &OfTubes) -> Vec<String> {
        of.names().iter().flatten().map(Text::read).collect()
    }

    #[test]
    fn a_name_can_be_empty() {
        let (mut are_there, mut counted) = (false, CountedTubes::NONE);
        let mut of = OfTubes { are_there: &mut are_there, counted: &mut counted };
        for tubes in [vec!["a", "", "b"], vec!["", "c"], vec![""], vec![]] {
            of.set_names(&tubes.iter().map(ToString::to_string).collect::<Vec<_>>());
            assert_eq!(names(&of), tubes);
        }
    }

    #[test]
    fn long_names_stay_apart() {
        let (mut are_there, mut counted) = (false, CountedTubes::NONE);
        let mut of = OfTubes { are_there: &mut are_there, counted: &mut counted };
        let [short, long, odd] = ["x".repeat(63), "x".repeat(64), "é".repeat(40)];
        of.set_names(&[short.clone(), long.clone(), long.clone() + "y", odd.clone()]);
        let expected = [
            short,
            format!("{}-{:08x}", &long[..54], fnv1a(&long)),
            format!("{}-{:08x}", &long[..54], fnv1a(&(long.clone() + "y"))),
            format!("{}-{:08x}", &odd[..54], fnv1a(&odd)),
        ];
        assert_eq!(names(&of), expected);
    }
}
