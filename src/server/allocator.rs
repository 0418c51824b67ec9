//! Rust's memory. Where there is none, Rust would abort the process, upon which the server ends all others as well.
//! Here a backend or a background worker ends alone: by a FATAL error, which leaves by the end of the process. An
//! ERROR would have to unwind out of the allocator, which is undefined behaviour.
//!
//! A FATAL error rolls the transaction back, lets go of locks, and runs what is registered for the end of the process,
//! as `pg_terminate_backend` does; no frame in between is left by its destructors. Two things follow. Nothing may be
//! allocated under a lightweight lock or once a commit is visible, as nothing that can fail may run there at all. And
//! what the rollback has to read must be whole: see [`staying`].
//!
//! A reserve serves what the end of a process allocates, another the copies that are made of the server's own error
//! where it is the server that has found no memory: see [`make_room_for_error`].

pub use rule::{allow, forbid};

use crate::error::Error;
use crate::server::process;
use pgrx::PgSqlErrorCode;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::time::Duration;

// Unit tests have no server to ask, nor any that would end with them.
#[cfg_attr(not(test), global_allocator)]
#[cfg_attr(test, allow(dead_code, reason = "not that of unit tests"))]
static ALLOCATOR: Allocator = Allocator;

/// Address space and no memory, as they are never written to: for the copies of an error, and for the end of the
/// process.
static RESERVES: Mutex<[Vec<u8>; 2]> = Mutex::new([Vec::new(), Vec::new()]);
const RESERVE_SIZES: [usize; 2] = [2 << 20, 1 << 20];
/// The smallest block, and some more, that the server asks for once its memory contexts have grown.
const BLOCK: usize = (1 << 20) + (64 << 10);

/// Between two tries of a thread that waits for memory.
const PAUSE: Duration = Duration::from_millis(100);

/// What a thread does that finds no memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Another thread than the server's, which may raise no error: waits until there is some.
    Wait,
    /// Ends the process.
    End,
    /// Uses the reserve, and ends the process a little later.
    Stay,
    /// Has done so.
    Overdrawn,
    /// Leaves it to Rust: asks whether there is memory, or ends already.
    Refuse,
}

thread_local! {
    static MANNER: Cell<Manner> = const { Cell::new(Manner::Wait) };
    static IS_RESERVED: Cell<bool> = const { Cell::new(false) };
}

/// To be called as the server loads the library, by the one thread that it has; processes that it forks inherit what
/// this does.
pub fn init() {
    MANNER.set(Manner::End);
    reserve();
}

/// Keeps the reserves again, if there is memory, after they were given back. Costs nothing where they were not.
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

/// For the server's own error of having no memory, before it is copied: a copy that fails raises the same error again,
/// again to be copied, until the server has no place for more errors and panics. Where there is no room for a copy
/// even so, the process ends.
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
    // The compiler must not see that nothing is done with it.
    drop(std::hint::black_box(memory));
    MANNER.set(manner);
    is_there
}

/// Runs `work` in which the process must not end, since it changes what the end of a transaction reads. It gets
/// memory from the reserve, and the process ends after it.
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

// SAFETY: it is the system's, which is asked for the same.
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
        // SAFETY: as above; where there is none, the memory is as it was.
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

/// Null where Rust has to abort: where not even the reserve is enough.
///
/// # Safety
/// `ask` asks the system for memory, and may do so again.
#[cold]
unsafe fn give_up(size: usize, ask: impl Fn() -> *mut u8) -> *mut u8 {
    match MANNER.get() {
        Manner::Refuse => null_mut(),
        Manner::Wait => loop {
            std::thread::sleep(PAUSE);
            let memory = ask();
            if !memory.is_null() {
                return memory;
            }
        },
        Manner::Stay | Manner::Overdrawn => {
            give_back(2);
            MANNER.set(Manner::Overdrawn);
            ask()
        }
        // All others would end with it.
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
    // What adds to the context of errors needs memory, and this may be the end of an error already.
    leave_out_context();
    let mut error = Error::new(PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY, "out of memory");
    if let Some(size) = size {
        error = error.detail(format!("xqueue needed {size} bytes."));
    }
    error.hint("Connect again, and do less in one call.").end_process()
}

/// What a build for tests holds: nothing is allocated under a lightweight lock, and nothing once a commit is visible.
#[cfg(feature = "injection_points")]
mod rule {
    use std::backtrace::Backtrace;
    use std::cell::Cell;

    thread_local! {
        static REASONS: Cell<u32> = const { Cell::new(0) };
    }

    /// A lock is held, or a commit visible.
    pub fn forbid() {
        REASONS.set(REASONS.get() + 1);
    }

    /// No longer.
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

/// Has errors from now on no context, for a process that is about to end.
fn leave_out_context() {
    // SAFETY: as the server does where an error's context makes more errors.
    unsafe { pgrx::pg_sys::error_context_stack = std::ptr::null_mut() }
}
