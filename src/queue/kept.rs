//! Cache of queue descriptions of this process.
//!
//! 1. A description stays until an invalidation reports a change of its table, or until all descriptions together
//!    exceed `xqueue.queue_memory`.
//! 2. The least recently used description is freed first, with its plans and the state of the direct path.
//! 3. A description in use by a running call stays, because user code can use any number of other queues within the
//!    call.
//! 4. The server's own caches are left alone.

use crate::queue::Queue;
use crate::settings;
use pgrx::pg_sys::Oid;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Size of a description in bytes, measured with six columns and four indexes.
const SIZE: usize = 4 << 10;
/// Eviction frees 1/SPARE of the limit more than necessary, so that not every new description searches for the least
/// recently used one.
const SPARE: usize = 8;

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
    /// Number of invalidations.
    static STALE_COUNT: Cell<u64> = const { Cell::new(0) };
    /// Some of the descriptions are stale.
    static HAS_STALE: Cell<bool> = const { Cell::new(false) };
    /// An invalidation arrived while the descriptions were in use.
    static ALL_STALE: Cell<bool> = const { Cell::new(false) };
    /// Number of uses of descriptions so far.
    static USES: Cell<u64> = const { Cell::new(0) };
}

#[derive(Default)]
struct Kept {
    queues: HashMap<Oid, Rc<Queue>>,
    /// Size of all kept descriptions, in bytes.
    size: usize,
    /// Hashes of the types that statements of kept or earlier descriptions name.
    types: HashSet<u32>,
    /// Tables that have not changed since their descriptions were evicted.
    unchanged: HashSet<Oid>,
}

/// Returns the description of a table from the cache.
pub(super) fn get(table: Oid) -> Option<Rc<Queue>> {
    if HAS_STALE.get() || ALL_STALE.get() {
        drop_stale();
    }
    let queue = KEPT.with_borrow(|kept| kept.queues.get(&table).cloned())?;
    note_use(&queue);
    Some(queue)
}

fn note_use(queue: &Queue) {
    USES.set(USES.get() + 1);
    queue.used.set(USES.get());
}

/// Returns the number of invalidations so far.
pub(super) fn stale_count() -> u64 {
    STALE_COUNT.get()
}

/// Stores a description. `stale_count`: the number of invalidations before it was read.
pub(super) fn keep(queue: &Rc<Queue>, stale_count: u64) {
    note_use(queue);
    // A description that became stale while it was read serves this call only; the next call reads it again.
    let is_stale = STALE_COUNT.get() != stale_count;
    queue.stale.set(is_stale);
    HAS_STALE.set(HAS_STALE.get() | is_stale);
    let replaced = KEPT.with_borrow_mut(|kept| {
        kept.unchanged.remove(&queue.table);
        kept.types.extend(&queue.types);
        let replaced = kept.queues.insert(queue.table, queue.clone());
        kept.size -= replaced.as_ref().map_or(0, |replaced| replaced.weighed.take());
        replaced
    });
    drop(replaced);
    make_room(queue);
}

/// Frees the least recently used descriptions if all together exceed the memory limit. `grown`: the description whose
/// size has changed.
pub(super) fn make_room(grown: &Queue) {
    let limit = settings::queue_memory();
    let evicted = KEPT.with_borrow_mut(|kept| {
        // A running call can use a description that has already been replaced.
        if kept.queues.get(&grown.table).is_some_and(|kept| std::ptr::eq(&**kept, grown)) {
            let size = grown.size();
            kept.size = kept.size + size - grown.weighed.replace(size);
        }
        if kept.size <= limit {
            return vec![];
        }
        let mut evicted = Vec::new();
        let unused = kept.queues.values().filter(|queue| Rc::strong_count(queue) == 1);
        let mut by_use: Vec<(u64, Oid)> = unused.map(|q| (q.used.get(), q.table)).collect();
        by_use.sort_unstable_by_key(|(used, _)| *used);
        for (_, table) in by_use {
            if kept.size <= limit - limit / SPARE {
                break;
            }
            if let Some(queue) = kept.queues.remove(&table) {
                kept.size -= queue.weighed.take();
                evicted.push(queue);
            }
        }
        evicted
    });
    for queue in evicted {
        if !queue.stale.get() {
            KEPT.with_borrow_mut(|kept| kept.unchanged.insert(queue.table));
        }
    }
}

/// Returns whether the description of a table was read and evicted, and the table has not changed since. The caller
/// holds a lock on the table.
pub fn is_unchanged(table: Oid) -> bool {
    if ALL_STALE.get() {
        drop_stale();
    }
    KEPT.with_borrow(|kept| kept.unchanged.contains(&table))
}

/// Frees the descriptions and plans of queues that have changed or no longer exist. This is not done when an
/// invalidation arrives, because it can arrive while freeing is not allowed.
fn drop_stale() {
    HAS_STALE.set(false);
    let all = ALL_STALE.take();
    let mut dropped = Vec::new();
    KEPT.with_borrow_mut(|kept| {
        if all {
            kept.unchanged.clear();
        }
        let Kept { queues, size, .. } = kept;
        queues.retain(|_, queue| {
            let is_stale = all || queue.stale.get();
            if is_stale {
                *size -= queue.weighed.take();
                dropped.push(queue.clone());
            }
            !is_stale
        });
    });
    // A running call holds its own reference. Freeing a description can use the map, so the map is not borrowed here.
    drop(dropped);
}

/// Handles an invalidation of a table, or of all. Must neither allocate nor fail.
pub fn stale(table: Option<Oid>) {
    invalidated(|kept| match table {
        Some(table) => {
            kept.unchanged.remove(&table);
            kept.queues.get(&table).into_iter().for_each(set_stale);
        }
        None => {
            kept.unchanged.clear();
            kept.queues.values().for_each(set_stale);
        }
    });
}

/// Handles an invalidation of the type with this hash, or of all types for 0, under the rules of [`stale`]. A renamed
/// or moved type is still the same type, so evicted descriptions remain unchanged.
pub fn stale_type(hash: u32) {
    invalidated(|kept| {
        if hash == 0 || kept.types.contains(&hash) {
            let names = |queue: &&Rc<Queue>| hash == 0 || queue.types.contains(&hash);
            kept.queues.values().filter(names).for_each(set_stale);
        }
    });
}

fn invalidated(handle: impl FnOnce(&mut Kept)) {
    STALE_COUNT.set(STALE_COUNT.get() + 1);
    let done = KEPT.with(|kept| kept.try_borrow_mut().map(|mut kept| handle(&mut kept)));
    if done.is_err() {
        ALL_STALE.set(true);
    }
}

fn set_stale(queue: &Rc<Queue>) {
    queue.stale.set(true);
    HAS_STALE.set(true);
}

impl Queue {
    /// Returns the size of the description with its plans and direct-path state, in bytes.
    fn size(&self) -> usize {
        SIZE + self.plans.size() + self.directs.size()
    }
}
