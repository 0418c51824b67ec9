//! What the C library does for a process beyond the standard library.

use std::ffi::c_int;

/// The beginning of `struct __res_state`, in glibc and musl.
#[repr(C)]
struct Resolver {
    /// To wait for an answer.
    seconds: c_int,
    attempts: c_int,
}

// SAFETY: the declaration is that of resolv.h.
unsafe extern "C" {
    fn __res_state() -> *mut Resolver;
}

/// Limits how long this process's next lookup of a name may take, during which it serves no signal: two seconds for each
/// name server that does not answer. By default it is ten and more.
pub fn limit_name_lookup() {
    // SAFETY: the state is this thread's own. It is read from resolv.conf first, as a lookup would do so otherwise.
    unsafe {
        libc::res_init();
        let resolver = __res_state();
        ((*resolver).seconds, (*resolver).attempts) = (1, 2);
    }
}
