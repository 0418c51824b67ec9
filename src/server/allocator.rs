//! Rust's global allocator, which ends only this process if it runs out of memory. Rust itself would abort the process,
//! and the server would then end all others as well. Here a backend or a background worker ends alone, by a FATAL
//! error, which ends the process instead of returning. An ERROR would have to unwind out of the allocator, which is
//! undefined behaviour.
//!
//! A FATAL error rolls the transaction back, releases locks, and runs the exit callbacks, like `pg_terminate_backend`.
//! It runs no destructors of the frames in between. Two invariants follow:
//!
//! 1. Nothing is allocated under a lightweight lock or after a commit became visible, because nothing that can fail is
//!    allowed there.
//! 2. The data that a rollback reads is always consistent, see [`staying`].
//!
//! One reserve serves allocations during the end of a process. The other serves the copies of the server's own
//! out-of-memory error, see [`make_room_for_error`].

pub use rule::{allow, forbid};

use crate::error::Error;
use crate::server::process;
use pgrx::PgSqlErrorCode;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::Mutex;

// Unit tests have no server to report to, and no other process ends with them.
#[cfg_attr(not(test), global_allocator)]
#[cfg_attr(test, allow(dead_code, reason = "not that of unit tests"))]
static ALLOCATOR: Allocator = Allocator;

/// Reserves for the end of the process and for the copies of an error. They take address space but no memory, because
/// nothing is written to them.
static RESERVES: Mutex<[Vec<u8>; 2]> = Mutex::new([Vec::new(), Vec::new()]);
const RESERVE_SIZES: [usize; 2] = [2 << 20, 1 << 20];
/// The smallest block, with a margin, that the server requests once its memory contexts have grown.
const BLOCK: usize = (1 << 20) + (64 << 10);

/// Reaction of a thread to an allocation failure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Ends the process.
    End,
    /// Uses the reserve, and ends the process a little later.
    Stay,
    /// Has used the reserve; the process is about to end.
    Overdrawn,
    /// Returns null: for a thread that only checks for memory or is already ending, and before [`init`].
    Refuse,
}

thread_local! {
    static MANNER: Cell<Manner> = const { Cell::new(Manner::Refuse) };
    static IS_RESERVED: Cell<bool> = const { Cell::new(false) };
}

/// Sets up the allocator. Called when the server loads the library, by its only thread; forked processes inherit the
/// effect.
pub fn init() {
    MANNER.set(Manner::End);
    reserve();
}

/// Reserves memory again after the reserves were given back, if there is memory. Costs nothing if they were not given
/// back.
pub fn reserve() {
    if !IS_RESERVED.get() && MANNER.get() == Manner::End {
        MANNER.set(Manner::Refuse);
        let is_reserved = RESERVES.try_lock().is_ok_and(|mut reserves| {
            let mut both = reserves.iter_mut().zip(RESERVE_SIZES);
            both.all(|(reserve, size)| reserve.try_reserve_exact(size).is_ok())
        });
        IS_RESERVED.set(is_reserved);
        MANNER.set(Manner::End);
    }
}

/// Makes room for a copy of the server's own out-of-memory error, before it is copied. A copy that fails raises the
/// same error again, which is copied again, until the server's error stack is full and it panics. The process ends if
/// there is still no room for a copy.
pub fn make_room_for_error() {
    give_back(1);
    if MANNER.get() == Manner::End && !is_there(BLOCK) {
        end(None);
    }
}

fn give_back(count: usize) {
    IS_RESERVED.set(false);
    if let Ok(mut reserves) = RESERVES.try_lock() {
        reserves[..count].fill_with(Vec::new);
    }
}

fn is_there(size: usize) -> bool {
    let manner = MANNER.replace(Manner::Refuse);
    let mut memory = Vec::<u8>::new();
    let is_there = memory.try_reserve_exact(size).is_ok();
    // Keeps the compiler from removing the unused allocation.
    drop(std::hint::black_box(memory));
    MANNER.set(manner);
    is_there
}

/// Runs `work` without ending the process, because `work` changes data that the end of a transaction reads. Allocations
/// use the reserve, and the process ends after `work`.
pub fn staying<T>(work: impl FnOnce() -> T) -> T {
    let _stay = Stay(MANNER.get());
    if MANNER.get() == Manner::End {
        MANNER.set(Manner::Stay);
    }
    work()
}

struct Stay(Manner);

impl Drop for Stay {
    fn drop(&mut self) {
        if self.0 == Manner::End && MANNER.replace(Manner::End) == Manner::Overdrawn {
            end(None);
        }
    }
}

struct Allocator;

// SAFETY: forwards to the system's allocator.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        rule::look(layout.size());
        // SAFETY: by the contract of this function.
        unsafe {
            match System.alloc(layout) {
                none if none.is_null() => give_up(layout.size(), || System.alloc(layout)),
                memory => memory,
            }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        rule::look(layout.size());
        // SAFETY: as above.
        unsafe {
            match System.alloc_zeroed(layout) {
                none if none.is_null() => give_up(layout.size(), || System.alloc_zeroed(layout)),
                memory => memory,
            }
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        rule::look(size);
        // SAFETY: as above; a failed reallocation leaves the memory unchanged.
        unsafe {
            match System.realloc(memory, layout, size) {
                none if none.is_null() => give_up(size, || System.realloc(memory, layout, size)),
                memory => memory,
            }
        }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Handles an allocation failure. Returns null, so that Rust aborts, if not even the reserve is sufficient.
///
/// # Safety
/// `ask` asks the system for memory.
#[cold]
unsafe fn give_up(size: usize, ask: impl FnOnce() -> *mut u8) -> *mut u8 {
    match MANNER.get() {
        Manner::Refuse => null_mut(),
        Manner::Stay | Manner::Overdrawn => {
            give_back(2);
            MANNER.set(Manner::Overdrawn);
            ask()
        }
        // All other processes would end with the postmaster.
        Manner::End if process::is_postmaster() => {
            give_back(2);
            ask()
        }
        Manner::End => end(Some(size)),
    }
}

fn end(size: Option<usize>) -> ! {
    MANNER.set(Manner::Refuse);
    give_back(2);
    // Error context callbacks need memory, and this can already be the end of an error.
    leave_out_context();
    let mut error = Error::new(PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY, "out of memory");
    if let Some(size) = size {
        error = error.detail(format!("xqueue needed {size} bytes."));
    }
    error.hint("Connect again, and do less in one call.").end_process()
}

/// Checks in test builds: nothing is allocated under a lightweight lock, or after a commit became visible.
#[cfg(feature = "injection_points")]
mod rule {
    use std::backtrace::Backtrace;
    use std::cell::Cell;

    thread_local! {
        static REASONS: Cell<u32> = const { Cell::new(0) };
    }

    /// Forbids allocation: a lock is held, or a commit is visible.
    pub fn forbid() {
        REASONS.set(REASONS.get() + 1);
    }

    /// Allows allocation again.
    pub fn allow() {
        REASONS.set(REASONS.get().saturating_sub(1));
    }

    pub(super) fn look(size: usize) {
        if REASONS.replace(0) > 0 {
            let backtrace = Backtrace::force_capture();
            eprintln!("PANIC: {size} bytes are allocated where nothing may fail\n{backtrace}");
            std::process::abort();
        }
    }
}

#[cfg(not(feature = "injection_points"))]
mod rule {
    pub fn forbid() {}
    pub fn allow() {}
    pub(super) fn look(_size: usize) {}
}

/// Removes the context callbacks from later errors, for a process that is about to end.
fn leave_out_context() {
    // SAFETY: the server does the same if an error's context raises further errors.
    unsafe { pgrx::pg_sys::error_context_stack = std::ptr::null_mut() }
}
