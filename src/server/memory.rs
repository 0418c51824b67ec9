//! Memory contexts of the server.

use pgrx::pg_sys;

/// A memory context that outlives the value.
pub struct Memory(pg_sys::MemoryContext);

impl Memory {
    pub fn current() -> Memory {
        // SAFETY: reads a backend variable.
        Memory(unsafe { pg_sys::CurrentMemoryContext })
    }

    /// Runs `work`, which allocates in this context.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        // SAFETY: the context is alive; the one before is put back. After an error the server
        // chooses the context anew.
        unsafe {
            let before = pg_sys::MemoryContextSwitchTo(self.0);
            let value = work();
            pg_sys::MemoryContextSwitchTo(before);
            value
        }
    }
}

/// A memory context for what is needed of one row only.
pub struct Scratch(pg_sys::MemoryContext);

impl Scratch {
    pub fn new() -> Scratch {
        // SAFETY: a context below the current one, with which it ends at the latest.
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

    /// Runs `work`, and frees what it has allocated in the server's memory: nothing of that may be in what it gives
    /// back.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let value = Memory(self.0).run(work);
        // SAFETY: the context is this value's own.
        unsafe { pg_sys::MemoryContextReset(self.0) };
        value
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: as above; after an error the context ends with the one above it.
            unsafe { pg_sys::MemoryContextDelete(self.0) };
        }
    }
}
