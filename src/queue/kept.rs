//! The descriptions of queues that this process keeps. Each stays until an invalidation says that the table has
//! changed, or until all together exceed `xqueue.queue_memory`. The least recently used is freed first, with its plans
//! and the state of the direct path. A description in use by a running call stays, because user code can use any number
//! of other queues within the call. The server's own caches are left alone.

use crate::queue::Queue;
use crate::settings;
use pgrx::pg_sys::Oid;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Bytes that a description takes: measured with six columns and four indexes.
const SIZE: usize = 4 << 10;
/// One in this number of all is freed at a time, so that not each new one looks for the least recently used of all.
const SPARE: usize = 8;

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
    /// Number of invalidations.
    static STALE_COUNT: Cell<u64> = const { Cell::new(0) };
    /// Some of the descriptions are stale.
    static HAS_STALE: Cell<bool> = const { Cell::new(false) };
    /// An invalidation arrived while the descriptions were in use.
    static ALL_STALE: Cell<bool> = const { Cell::new(false) };
    /// Number of times that a description was asked for.
    static USES: Cell<u64> = const { Cell::new(0) };
}

#[derive(Default)]
struct Kept {
    queues: HashMap<Oid, Rc<Queue>>,
    /// What they take, in bytes.
    size: usize,
    /// Hashes of the types that their statements name, and that those of former ones named.
    types: HashSet<u32>,
    /// Tables whose descriptions have made room for others, and would be the same today.
    unchanged: HashSet<Oid>,
}

/// Returns a description that is kept.
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

/// Keeps a description whose reading began at this number of invalidations.
pub(super) fn keep(queue: &Rc<Queue>, stale_count: u64) {
    note_use(queue);
    // A description that became stale while it was read serves this call, and is read again by the next.
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

/// Frees the least recently used descriptions once all need more memory than they may. `grown`: the one that takes
/// more than before.
pub(super) fn make_room(grown: &Queue) {
    let limit = settings::queue_memory();
    let evicted = KEPT.with_borrow_mut(|kept| {
        // A running call may use one that has been replaced.
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

/// Returns whether the description of a table, on which the caller holds a lock, was read and has made room for others,
/// and the table has not changed since.
pub fn is_unchanged(table: Oid) -> bool {
    if ALL_STALE.get() {
        drop_stale();
    }
    KEPT.with_borrow(|kept| kept.unchanged.contains(&table))
}

/// Frees the descriptions and plans of queues that have changed or are gone. Not done on invalidation, which arrives
/// where nothing may be freed.
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
    // A running call holds its own reference. The map may be used meanwhile.
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

/// Handles an invalidation of the type with this hash, or of all types for 0, as [`stale`] does. A type that has
/// another name or schema is still the same type: what has made room for others is unchanged.
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
    /// Returns how much memory it takes with all that is kept with it, in bytes.
    fn size(&self) -> usize {
        SIZE + self.plans.size() + self.directs.size()
    }
}
