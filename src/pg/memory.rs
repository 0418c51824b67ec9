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
