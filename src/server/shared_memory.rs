//! Shared memory: areas in one segment, laid out at server start and lost with it, and the locks that guard them. The
//! caller of [`init`] defines the areas and locks. Two invariants hold:
//!
//! 1. An unlocked area ([`Shared`]) contains only values that several processes can use concurrently.
//! 2. A guarded area ([`Guarded`]) is reached only through its held lock, and changed only through a mutable borrow of
//!    that.

use crate::error::Error;
use crate::server::{allocator, process};
use pgrx::pg_sys;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use std::ffi::CStr;
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

const NAME: &CStr = c"xqueue";
/// Size of a lock, in bytes.
#[cfg(test)]
pub const SIZE_OF_LOCK: usize = size_of::<pg_sys::LWLockPadded>();

/// The contents of the segment.
pub struct Layout {
    /// Returns its areas, with their lengths.
    pub areas: fn() -> Vec<(&'static dyn Attach, usize)>,
    /// Returns the number of locks.
    pub locks: fn() -> usize,
    /// Initializes the values that must not start as zeros.
    pub fill: fn(),
}

/// An array in shared memory that is used without a lock.
pub struct Shared<T> {
    /// Null without the library in shared_preload_libraries. Equal in every process, because all are forked from the
    /// postmaster; replaced when the server restarts after a crash.
    at: AtomicPtr<T>,
    length: AtomicUsize,
}

/// An array in shared memory that is used only while lock `L` is held.
pub struct Guarded<T, L> {
    area: Shared<T>,
    lock: PhantomData<fn() -> L>,
}

/// A lock, identified by its number.
pub trait Lock {
    const NUMBER: usize;
    const RANK: Rank;
}

/// Position in the order of locks: a process takes only locks that come after all that it holds.
#[derive(Clone, Copy)]
pub struct Rank(pub u8);

/// Lock `L`, held exclusively until this value is dropped.
pub struct HeldLock<L> {
    _guard: Guard,
    lock: PhantomData<L>,
}

/// Types for which all-zero bytes, the initial content of shared memory, are a valid value.
///
/// # Safety
/// All-zero bytes are a value of the type.
pub unsafe trait Zeroed {}

// SAFETY: numbers.
unsafe impl Zeroed for u32 {}
// SAFETY: numbers.
unsafe impl Zeroed for u64 {}
// SAFETY: numbers.
unsafe impl Zeroed for AtomicU32 {}
// SAFETY: numbers.
unsafe impl Zeroed for AtomicU64 {}

/// An area of the segment.
pub trait Attach: Sync {
    fn size(&self, length: usize) -> usize;

    /// # Safety
    /// From `at` on there is aligned space for `length` values, either zeros or written by another process, for the
    /// life of the process.
    unsafe fn attach(&self, at: *mut u8, length: usize);
}

static LAYOUT: OnceLock<Layout> = OnceLock::new();
static IS_AVAILABLE: AtomicBool = AtomicBool::new(false);
static LOCKS: AtomicPtr<pg_sys::LWLockPadded> = AtomicPtr::new(std::ptr::null_mut());
static LOCK_COUNT: AtomicUsize = AtomicUsize::new(0);
/// Set by the postmaster, for the life of the segment.
static SECRET: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
static mut PREVIOUS_REQUEST: pg_sys::shmem_request_hook_type = None;
static mut PREVIOUS_STARTUP: pg_sys::shmem_startup_hook_type = None;

/// Requests the segment. Must be called once, while the server loads its libraries.
pub fn init(layout: Layout) {
    LAYOUT.get_or_init(|| layout);
    // SAFETY: called once, in the postmaster; the previous hooks are kept and called.
    unsafe {
        PREVIOUS_REQUEST = pg_sys::shmem_request_hook;
        pg_sys::shmem_request_hook = Some(request);
        PREVIOUS_STARTUP = pg_sys::shmem_startup_hook;
        pg_sys::shmem_startup_hook = Some(startup);
    }
}

/// Returns whether the server was started with this library.
pub fn is_available() -> bool {
    IS_AVAILABLE.load(Ordering::Relaxed)
}

/// Returns the server's secret, equal in all processes until the server stops or crashes.
pub fn secret() -> [u64; 2] {
    [0, 1].map(|half| SECRET[half].load(Ordering::Relaxed))
}

/// Returns the offset of each area, and the total size.
fn places(layout: &Layout) -> (Vec<(&'static dyn Attach, usize, usize)>, usize) {
    let mut end = 0;
    let place = |(area, length): (&'static dyn Attach, usize)| {
        let begin = end;
        end += area.size(length).next_multiple_of(64);
        (area, length, begin)
    };
    let places = (layout.areas)().into_iter().map(place).collect();
    (places, end)
}

#[pgrx::pg_guard]
unsafe extern "C-unwind" fn request() {
    // SAFETY: the server expects both requests in this hook.
    unsafe {
        if let Some(previous) = PREVIOUS_REQUEST {
            pg_guard_ffi_boundary(|| previous());
        }
        if let Some(layout) = LAYOUT.get() {
            pg_sys::RequestAddinShmemSpace(places(layout).1);
            pg_sys::RequestNamedLWLockTranche(NAME.as_ptr(), (layout.locks)() as i32);
        }
    }
}

#[pgrx::pg_guard]
unsafe extern "C-unwind" fn startup() {
    // SAFETY: the server expects attachment in this hook, which runs in the postmaster; it runs again after a crash,
    // when the memory is new.
    unsafe {
        if let Some(previous) = PREVIOUS_STARTUP {
            pg_guard_ffi_boundary(|| previous());
        }
        let Some(layout) = LAYOUT.get() else { return };
        let (places, size) = places(layout);
        let mut found = false;
        // New memory contains zeros. It must not be touched, because pages that were never written take no memory.
        let base = pg_sys::ShmemInitStruct(NAME.as_ptr(), size, &mut found).cast::<u8>();
        places.iter().for_each(|(area, length, begin)| area.attach(base.add(*begin), *length));
        LOCK_COUNT.store((layout.locks)(), Ordering::Relaxed);
        LOCKS.store(pg_sys::GetNamedLWLockTranche(NAME.as_ptr()), Ordering::Relaxed);
        let secret = u128::from_ne_bytes(process::random());
        SECRET[0].store(secret as u64, Ordering::Relaxed);
        SECRET[1].store((secret >> 64) as u64, Ordering::Relaxed);
        IS_AVAILABLE.store(true, Ordering::Relaxed);
        if !found {
            (layout.fill)();
        }
    }
}

impl<T> Shared<T> {
    #[allow(clippy::new_without_default, reason = "only for statics")]
    pub const fn new() -> Shared<T> {
        Shared { at: AtomicPtr::new(std::ptr::null_mut()), length: AtomicUsize::new(0) }
    }

    fn at(&self) -> *mut T {
        let at = self.at.load(Ordering::Relaxed);
        if at.is_null() {
            Error::not_loaded().raise();
        }
        at
    }

    pub fn len(&self) -> usize {
        self.at();
        self.length.load(Ordering::Relaxed)
    }
}

impl<T: Zeroed + 'static> Shared<T> {
    pub fn get(&self) -> &'static [T]
    where
        T: Sync,
    {
        self.values()
    }

    /// Several processes can use these values concurrently.
    fn values(&self) -> &'static [T] {
        // SAFETY: by the contract of `attach`, and zeros are values; the callers make sure that no other reference
        // changes them.
        unsafe { std::slice::from_raw_parts(self.at(), self.len()) }
    }
}

impl<T, L: Lock> Guarded<T, L> {
    #[allow(clippy::new_without_default, reason = "only for statics")]
    pub const fn new() -> Guarded<T, L> {
        Guarded { area: Shared::new(), lock: PhantomData }
    }
}

impl<T: Zeroed + 'static, L: Lock> Guarded<T, L> {
    pub fn get<'held>(&self, held: &'held HeldLock<L>) -> &'held [T] {
        // Changed only by the holder of the lock, through a mutable reference to it.
        let _ = held;
        self.area.values()
    }

    pub fn get_mut<'held>(&self, held: &'held mut HeldLock<L>) -> &'held mut [T] {
        // SAFETY: the lock is borrowed mutably, so no other reference to the guarded area exists.
        unsafe { self.under(held) }
    }

    /// # Safety
    /// While the lock is held, no other reference to this area exists; references to other areas can exist.
    #[allow(clippy::mut_from_ref, reason = "the caller sees to it that it is the only one")]
    pub unsafe fn under<'held>(&self, held: &'held HeldLock<L>) -> &'held mut [T] {
        let _ = held;
        // SAFETY: by the contract of `attach`; the lock is held, and by this function's contract no other reference
        // exists.
        unsafe { std::slice::from_raw_parts_mut(self.area.at(), self.area.len()) }
    }

    pub fn len(&self) -> usize {
        self.area.len()
    }
}

impl<T> Attach for Shared<T> {
    fn size(&self, length: usize) -> usize {
        length * size_of::<T>()
    }

    unsafe fn attach(&self, at: *mut u8, length: usize) {
        self.at.store(at.cast(), Ordering::Relaxed);
        self.length.store(length, Ordering::Relaxed);
    }
}

impl<T, L> Attach for Guarded<T, L> {
    fn size(&self, length: usize) -> usize {
        self.area.size(length)
    }

    unsafe fn attach(&self, at: *mut u8, length: usize) {
        // SAFETY: by this function's contract.
        unsafe { self.area.attach(at, length) }
    }
}

impl<L: Lock> HeldLock<L> {
    pub fn acquire() -> HeldLock<L> {
        HeldLock { _guard: Guard::acquire(L::NUMBER, L::RANK), lock: PhantomData }
    }
}

/// A lock, held exclusively until this value is dropped.
pub struct Guard {
    lock: *mut pg_sys::LWLock,
    rank: Rank,
}

/// The ranks that this process holds, as bits. Only builds for tests keep it.
static HELD_RANKS: AtomicU32 = AtomicU32::new(0);

impl Rank {
    fn bit(self) -> u32 {
        1 << self.0
    }

    fn begin(self, held: &AtomicU32) {
        let others = held.fetch_or(self.bit(), Ordering::Relaxed);
        debug_assert!(others < self.bit(), "lock of rank {} while {others:b} is held", self.0);
    }

    fn end(self, held: &AtomicU32) {
        held.fetch_and(!self.bit(), Ordering::Relaxed);
    }
}

impl Guard {
    pub fn acquire(number: usize, rank: Rank) -> Guard {
        let locks = LOCKS.load(Ordering::Relaxed);
        if locks.is_null() {
            Error::not_loaded().raise();
        }
        assert!(number < LOCK_COUNT.load(Ordering::Relaxed));
        if cfg!(debug_assertions) {
            rank.begin(&HELD_RANKS);
        }
        // SAFETY: `number` is less than the number of requested locks.
        unsafe {
            let lock = std::ptr::addr_of_mut!((*locks.add(number)).lock);
            pg_sys::LWLockAcquire(lock, pg_sys::LWLockMode::LW_EXCLUSIVE);
            allocator::forbid();
            Guard { lock, rank }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        allocator::allow();
        if cfg!(debug_assertions) {
            self.rank.end(&HELD_RANKS);
        }
        // SAFETY: acquired above. An error of the server resets the interrupt holdoff count, which the release
        // decrements. Until the end of the (sub)transaction the error keeps the lock, so the lock can still be held
        // here. The count is then raised before the release, like in `LWLockReleaseAll`.
        unsafe {
            if pg_sys::InterruptHoldoffCount > 0 {
                pg_sys::LWLockRelease(self.lock);
            } else if pg_sys::LWLockHeldByMe(self.lock) {
                pg_sys::InterruptHoldoffCount += 1;
                pg_sys::LWLockRelease(self.lock);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_can_be_taken_in_order_and_again() {
        let held = AtomicU32::new(0);
        (0..3).for_each(|rank| Rank(rank).begin(&held));
        Rank(1).end(&held);
        Rank(2).end(&held);
        Rank(1).begin(&held);
    }

    #[test]
    #[should_panic(expected = "lock of rank 1 while 100 is held")]
    fn a_lock_is_not_taken_after_a_later_one() {
        let held = AtomicU32::new(0);
        Rank(2).begin(&held);
        Rank(1).begin(&held);
    }

    #[test]
    #[should_panic(expected = "lock of rank 1 while 10 is held")]
    fn no_two_locks_of_a_rank_are_taken() {
        let held = AtomicU32::new(0);
        Rank(1).begin(&held);
        Rank(1).begin(&held);
    }
}
