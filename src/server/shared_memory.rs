//! Memory that processes share: areas in one segment, laid out at server start and lost with it, and the locks that
//! guard them. Which areas and locks there are the caller of [`init`] says.

use crate::error::Error;
use crate::server::{allocator, process};
use pgrx::pg_sys;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use std::ffi::CStr;
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

const NAME: &CStr = c"xqueue";
/// What a lock takes, in bytes.
#[cfg(test)]
pub const SIZE_OF_LOCK: usize = size_of::<pg_sys::LWLockPadded>();

/// What the segment consists of.
pub struct Layout {
    /// Its areas, with their lengths.
    pub areas: fn() -> Vec<(&'static dyn Place, usize)>,
    /// How many locks there are.
    pub locks: fn() -> usize,
    /// Fills what is not to begin as zeros.
    pub fill: fn(),
}

/// An array in shared memory that is used without a lock.
pub struct Shared<T> {
    /// Null without the library in shared_preload_libraries. The same in every process, as all are forked from the
    /// postmaster; replaced when the server starts anew after a crash.
    at: AtomicPtr<T>,
    length: AtomicUsize,
}

/// An array in shared memory that only those use that hold lock `L`.
pub struct Guarded<T, L> {
    area: Shared<T>,
    lock: PhantomData<fn() -> L>,
}

/// One of the locks, by its number.
pub trait Lock {
    const NUMBER: usize;
}

/// Lock `L`, held exclusively until this is dropped.
pub struct HeldLock<L> {
    _guard: Guard,
    lock: PhantomData<L>,
}

/// Types of which all-zero bytes are a value, as shared memory begins.
///
/// # Safety
/// They are one.
pub unsafe trait Zeroed {}

// SAFETY: numbers.
unsafe impl Zeroed for u32 {}
// SAFETY: numbers.
unsafe impl Zeroed for u64 {}
// SAFETY: numbers.
unsafe impl Zeroed for AtomicU32 {}
// SAFETY: numbers.
unsafe impl Zeroed for AtomicU64 {}

/// An area whose place in the segment is to be found.
pub trait Place: Sync {
    fn size(&self, length: usize) -> usize;

    /// # Safety
    /// From `at` on there is room for `length` values, aligned, all zeros or what another process has put there, for
    /// the life of the process.
    unsafe fn attach(&self, at: *mut u8, length: usize);
}

static LAYOUT: OnceLock<Layout> = OnceLock::new();
static IS_AVAILABLE: AtomicBool = AtomicBool::new(false);
static LOCKS: AtomicPtr<pg_sys::LWLockPadded> = AtomicPtr::new(std::ptr::null_mut());
static LOCK_COUNT: AtomicUsize = AtomicUsize::new(0);
/// Of the postmaster's making, for the life of the segment.
static SECRET: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
static mut PREVIOUS_REQUEST: pg_sys::shmem_request_hook_type = None;
static mut PREVIOUS_STARTUP: pg_sys::shmem_startup_hook_type = None;

/// Asks for the segment. To be called once, while the server loads its libraries.
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

/// A secret of the server's until it stops or crashes, the same in all processes.
pub fn secret() -> [u64; 2] {
    [0, 1].map(|half| SECRET[half].load(Ordering::Relaxed))
}

/// Where each area begins, and the size of all.
fn places(layout: &Layout) -> (Vec<(&'static dyn Place, usize, usize)>, usize) {
    let mut end = 0;
    let place = |(area, length): (&'static dyn Place, usize)| {
        let begin = end;
        end += area.size(length).next_multiple_of(64);
        (area, length, begin)
    };
    let places = (layout.areas)().into_iter().map(place).collect();
    (places, end)
}

#[pgrx::pg_guard]
unsafe extern "C-unwind" fn request() {
    // SAFETY: this hook is the place for both requests.
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
    // SAFETY: this hook is the place to attach; it runs in the postmaster, again after a crash, when the memory is new.
    unsafe {
        if let Some(previous) = PREVIOUS_STARTUP {
            pg_guard_ffi_boundary(|| previous());
        }
        let Some(layout) = LAYOUT.get() else { return };
        let (places, size) = places(layout);
        let mut found = false;
        // Fresh from the system, so all zeros. It is not to be touched: pages that nothing was ever written to take no
        // memory.
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

    /// To be used as those may be by several processes at once.
    fn values(&self) -> &'static [T] {
        // SAFETY: `attach` was told so, and zeros are values; the callers see to it that no reference is used to
        // change them meanwhile.
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
        // Changed only by the holder of the lock, through a mutable reference to that.
        let _ = held;
        self.area.values()
    }

    pub fn get_mut<'held>(&self, held: &'held mut HeldLock<L>) -> &'held mut [T] {
        // SAFETY: the lock is borrowed as mutable, so there is no other reference to what it guards.
        unsafe { self.beside(held) }
    }

    /// # Safety
    /// While the lock is held there is no other reference to this area; there may be some to others.
    #[allow(clippy::mut_from_ref, reason = "the caller sees to it that it is the only one")]
    pub unsafe fn beside<'held>(&self, held: &'held HeldLock<L>) -> &'held mut [T] {
        let _ = held;
        // SAFETY: `attach` was told so; the lock is held, and by this function's contract there is no other reference.
        unsafe { std::slice::from_raw_parts_mut(self.area.at(), self.area.len()) }
    }

    pub fn len(&self) -> usize {
        self.area.len()
    }
}

impl<T> Place for Shared<T> {
    fn size(&self, length: usize) -> usize {
        length * size_of::<T>()
    }

    unsafe fn attach(&self, at: *mut u8, length: usize) {
        self.at.store(at.cast(), Ordering::Relaxed);
        self.length.store(length, Ordering::Relaxed);
    }
}

impl<T, L> Place for Guarded<T, L> {
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
        HeldLock { _guard: Guard::acquire(L::NUMBER), lock: PhantomData }
    }
}

/// A lock, held exclusively until it is dropped.
pub struct Guard(*mut pg_sys::LWLock);

impl Guard {
    pub fn acquire(number: usize) -> Guard {
        let locks = LOCKS.load(Ordering::Relaxed);
        if locks.is_null() {
            Error::not_loaded().raise();
        }
        assert!(number < LOCK_COUNT.load(Ordering::Relaxed));
        // SAFETY: there are as many locks as were requested.
        unsafe {
            let lock = std::ptr::addr_of_mut!((*locks.add(number)).lock);
            pg_sys::LWLockAcquire(lock, pg_sys::LWLockMode::LW_EXCLUSIVE);
            allocator::forbid();
            Guard(lock)
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        allocator::allow();
        // SAFETY: acquired above. An error of the server's resets the count of what holds interrupts off, which the
        // release is to lower by one; the lock it leaves to the end of the (sub)transaction, as
        // `LWLockReleaseAll` does it.
        unsafe {
            if pg_sys::InterruptHoldoffCount > 0 {
                pg_sys::LWLockRelease(self.0);
            } else if pg_sys::LWLockHeldByMe(self.0) {
                pg_sys::InterruptHoldoffCount += 1;
                pg_sys::LWLockRelease(self.0);
            }
        }
    }
}
