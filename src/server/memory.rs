//! Memory contexts of the server.

use pgrx::pg_sys;

/// A memory context that outlives the value.
pub struct Memory(pg_sys::MemoryContext);

impl Memory {
    pub fn current() -> Memory {
        // SAFETY: reads a backend variable.
        Memory(unsafe { pg_sys::CurrentMemoryContext })
    }

    /// Runs `work`, whose allocations go to this context.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        // SAFETY: the context is live, and the previous one is restored. After an error the server sets the context
        // itself.
        unsafe {
            let before = pg_sys::MemoryContextSwitchTo(self.0);
            let value = work();
            pg_sys::MemoryContextSwitchTo(before);
            value
        }
    }
}

/// A memory context for the data of a single row.
pub struct Scratch(pg_sys::MemoryContext);

impl Scratch {
    pub fn new() -> Scratch {
        // SAFETY: a child of the current context, with which it ends at the latest.
        Scratch(unsafe {
            pg_sys::AllocSetContextCreateExtended(
                pg_sys::CurrentMemoryContext,
                c"xqueue: a row".as_ptr(),
                pg_sys::ALLOCSET_SMALL_MINSIZE as usize,
                pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
                pg_sys::ALLOCSET_SMALL_MAXSIZE as usize,
            )
        })
    }

    /// Runs `work`, and frees its allocations in the server's memory; the result must not refer to them.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let value = Memory(self.0).run(work);
        // SAFETY: no other code uses this context.
        unsafe { pg_sys::MemoryContextReset(self.0) };
        value
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: as above; after an error the context ends with its parent.
            unsafe { pg_sys::MemoryContextDelete(self.0) };
        }
    }
}
