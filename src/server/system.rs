//! Functions of the C library that the standard library does not offer.

use std::ffi::c_int;

/// The beginning of `struct __res_state`, in glibc and musl.
#[repr(C)]
struct Resolver {
    /// How long to wait for an answer.
    seconds: c_int,
    attempts: c_int,
}

// SAFETY: the declaration is that of resolv.h.
unsafe extern "C" {
    fn __res_state() -> *mut Resolver;
}

/// Limits the next name lookup of this process, which serves no signal meanwhile, to two seconds for each name server
/// that does not answer. The default is ten seconds or more. The variable RES_OPTIONS would have no effect if the server
/// had looked up a name before it started this process.
pub fn limit_name_lookup() {
    // SAFETY: the state belongs to this thread. `res_init` fills it from resolv.conf first; otherwise the lookup would
    // do that and overwrite the limits.
    unsafe {
        libc::res_init();
        let resolver = __res_state();
        ((*resolver).seconds, (*resolver).attempts) = (1, 2);
    }
}
