//! The layout of shared memory: the areas of all parts and their lengths.

use crate::parts::counters::recount;
use crate::parts::leases::{departed, epoch, sessions};
use crate::parts::schedule::workers;
#[cfg(feature = "injection_points")]
use crate::parts::shortcuts;
use crate::parts::{clock, locks, slot, subqueues, waiters};
use crate::server::process;
use crate::server::shared_memory::{self, Attach, Layout};
use crate::settings;

/// Requests the shared memory. Must be called once, while the server loads its libraries.
pub fn init() {
    shared_memory::init(Layout { areas, locks: || locks::count(settings::max_queues()), fill });
}

fn areas() -> Vec<(&'static dyn Attach, usize)> {
    let (queues, processes) = (settings::max_queues(), process::limit());
    let mut areas: Vec<(&'static dyn Attach, usize)> = vec![
        (&clock::CLOCK, 1),
        (&slot::HEAD, 1),
        (&slot::SLOTS, queues),
        (&slot::GROUPED, queues),
        (&slot::TUBES, queues),
        (&slot::PROBLEMS, queues),
        (&slot::ASSIGNMENTS, queues),
        (&workers::WORKERS, 1),
        (&epoch::EPOCH, 1),
        (&departed::DEPARTED, 1),
        (&sessions::SESSIONS, processes),
        (&sessions::FLAGS, processes),
        (&waiters::WAITERS, processes),
        (&recount::AHEAD, queues * recount::words()),
        (&subqueues::HEADER, 1),
        (&subqueues::RINGS, queues),
        (&subqueues::ENTRIES, subqueues::entry_count()),
        (&subqueues::BUCKETS, subqueues::bucket_count()),
        #[cfg(feature = "injection_points")]
        (&shortcuts::COUNTS, shortcuts::Shortcut::ALL.len()),
    ];
    areas.extend(slot::CANDIDATES.iter().map(|of_ring| (of_ring as &dyn Attach, queues)));
    areas
}

fn fill() {
    workers::fill();
    subqueues::fill();
    waiters::fill();
}
