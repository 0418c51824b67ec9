//! Shared memory: one segment, laid out at server start, lost with it. Everything in it can be
//! built again from the tables.
//!
//! Locking: the directory lock guards which slot belongs to which queue, database and session; a
//! queue's own lock guards its counters and its waiters; one lock guards the lanes of all queues, one the
//! job workers. No process holds two queue locks; the directory lock is taken before a queue's, the lanes'
//! lock last, the job workers' alone.
//! Nothing that can fail runs under any of them.

use crate::parts::counters::recount;
use crate::parts::leases::{departed, sessions};
use crate::parts::schedule::{databases, jobs};
#[cfg(feature = "injection_points")]
use crate::parts::traced;
use crate::parts::{slot, subqueues, waiters};
use crate::server::{allocator, process};
use pgrx::pg_sys;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::mem::size_of;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

const NAME: &CStr = c"xqueue";

/// What only builds for tests need room for.
#[cfg(feature = "injection_points")]
const TRACED: usize = size_of::<traced::Traced>();
#[cfg(not(feature = "injection_points"))]
const TRACED: usize = 0;

/// What is there once.
#[repr(C)]
pub(in crate::parts) struct Header {
    /// Set when everything is initialised.
    pub(in crate::parts) ready: bool,
    pub(in crate::parts) launcher: u32,
    pub(in crate::parts) last_generation: u64,
    /// How often nobody may have been told what happened to a queue's tasks.
    pub(in crate::parts) doubts: u64,
    /// There is a queue whose triggers do not tell of every task, or was.
    pub(in crate::parts) has_untold: bool,
    pub(in crate::parts) databases: [databases::Database; databases::LIMIT],
    pub(in crate::parts) left: departed::LeftList,
}

/// Where the parts are. The same in every process, as all are forked from the postmaster.
pub(in crate::parts) struct Segment {
    pub(in crate::parts) header: *mut Header,
    pub(in crate::parts) queues: *mut UnsafeCell<slot::Queue>,
    pub(in crate::parts) queue_count: usize,
    pub(in crate::parts) sessions: *mut sessions::Session,
    pub(in crate::parts) waiters: &'static [waiters::Waiter],
    pub(in crate::parts) process_count: usize,
    pub(in crate::parts) recounts: &'static [recount::Area],
    pub(in crate::parts) in_progress: &'static [AtomicU32],
    pub(in crate::parts) lanes: subqueues::Arrays,
    pub(in crate::parts) jobs: *mut jobs::Job,
    pub(in crate::parts) job_count: usize,
    #[cfg(feature = "injection_points")]
    pub(in crate::parts) traced: &'static traced::Traced,
    pub(in crate::parts) locks: *mut pg_sys::LWLockPadded,
    /// Of the postmaster's making, for the life of the segment.
    pub(in crate::parts) secret: [u64; 2],
}

// SAFETY: the pointers lead into shared memory that lives as long as the process; what they point
// to is guarded by the locks.
unsafe impl Sync for Segment {}
// SAFETY: as above.
unsafe impl Send for Segment {}

/// Null without the library in shared_preload_libraries. Replaced when the server starts anew after a
/// crash, which may be at another address.
static SEGMENT: AtomicPtr<Segment> = AtomicPtr::new(std::ptr::null_mut());
static mut PREVIOUS_REQUEST: pg_sys::shmem_request_hook_type = None;
static mut PREVIOUS_STARTUP: pg_sys::shmem_startup_hook_type = None;

/// Asks for the segment. To be called while the server loads its libraries.
pub fn init() {
    // SAFETY: called once, in the postmaster; the previous hooks are kept and called.
    unsafe {
        PREVIOUS_REQUEST = pg_sys::shmem_request_hook;
        pg_sys::shmem_request_hook = Some(request);
        PREVIOUS_STARTUP = pg_sys::shmem_startup_hook;
        pg_sys::shmem_startup_hook = Some(startup);
    }
}

/// Whether the server was started with this library.
pub fn is_available() -> bool {
    !SEGMENT.load(Ordering::Relaxed).is_null()
}

pub(in crate::parts) fn queue_limit() -> usize {
    crate::settings::max_queues()
}

fn in_progress_limit() -> usize {
    process::limit() + process::prepared_limit()
}

fn parts() -> [usize; 12] {
    [
        size_of::<Header>(),
        queue_limit() * size_of::<UnsafeCell<slot::Queue>>(),
        process::limit() * size_of::<sessions::Session>(),
        process::limit() * size_of::<waiters::Waiter>(),
        recount::LIMIT * in_progress_limit() * size_of::<u32>(),
        subqueues::sizes()[0],
        subqueues::sizes()[1],
        subqueues::sizes()[2],
        subqueues::sizes()[3],
        jobs::limit() * size_of::<jobs::Job>(),
        recount::LIMIT * size_of::<recount::Area>(),
        TRACED,
    ]
    .map(|size| size.next_multiple_of(64))
}

#[pgrx::pg_guard]
unsafe extern "C-unwind" fn request() {
    // SAFETY: this hook is the place for both requests.
    unsafe {
        if let Some(previous) = PREVIOUS_REQUEST {
            pg_guard_ffi_boundary(|| previous());
        }
        pg_sys::RequestAddinShmemSpace(parts().iter().sum());
        pg_sys::RequestNamedLWLockTranche(NAME.as_ptr(), 3 + queue_limit() as i32);
    }
}

#[pgrx::pg_guard]
unsafe extern "C-unwind" fn startup() {
    // SAFETY: this hook is the place to attach; it runs in the postmaster, again after a crash,
    // when the memory is new. All-zero bytes are valid for every part.
    unsafe {
        if let Some(previous) = PREVIOUS_STARTUP {
            pg_guard_ffi_boundary(|| previous());
        }
        let sizes = parts();
        let mut found = false;
        let base = pg_sys::ShmemInitStruct(NAME.as_ptr(), sizes.iter().sum(), &mut found);
        let at = |part: usize| base.cast::<u8>().add(sizes[..part].iter().sum());
        if !found {
            std::ptr::write_bytes(base.cast::<u8>(), 0, sizes.iter().sum());
        }
        let segment = Segment {
            header: at(0).cast(),
            queues: at(1).cast(),
            queue_count: queue_limit(),
            sessions: at(2).cast(),
            waiters: std::slice::from_raw_parts(at(3).cast(), process::limit()),
            process_count: process::limit(),
            recounts: std::slice::from_raw_parts(at(10).cast(), recount::LIMIT),
            in_progress: std::slice::from_raw_parts(
                at(4).cast(),
                recount::LIMIT * in_progress_limit(),
            ),
            lanes: subqueues::Arrays::new(at(5), at(6), at(7), at(8)),
            jobs: at(9).cast(),
            job_count: jobs::limit(),
            #[cfg(feature = "injection_points")]
            traced: &*at(11).cast(),
            locks: pg_sys::GetNamedLWLockTranche(NAME.as_ptr()),
            secret: new_secret(),
        };
        if !(*segment.header).ready {
            (*segment.header).ready = true;
            (*segment.header).launcher = databases::NO_PROCESS;
            (*segment.lanes.header()).secret = new_secret()[0];
            segment.waiters.iter().for_each(waiters::Waiter::reset);
        }
        SEGMENT.store(Box::leak(Box::new(segment)), Ordering::Relaxed);
    }
}

/// A secret of the server's until it stops or crashes, the same in all processes.
pub fn secret() -> [u64; 2] {
    segment().secret
}

fn new_secret() -> [u64; 2] {
    let bytes = u128::from_ne_bytes(process::random());
    [bytes as u64, (bytes >> 64) as u64]
}

pub(in crate::parts) fn segment() -> &'static Segment {
    // SAFETY: null, or a value that is never freed.
    match unsafe { SEGMENT.load(Ordering::Relaxed).as_ref() } {
        Some(segment) => segment,
        None => crate::error::Error::not_loaded().raise(),
    }
}

/// A lock, held until it is dropped.
pub(in crate::parts) struct Guard(*mut pg_sys::LWLock);

impl Guard {
    pub(in crate::parts) fn acquire(index: usize, exclusive: bool) -> Guard {
        let mode = if exclusive {
            pg_sys::LWLockMode::LW_EXCLUSIVE
        } else {
            pg_sys::LWLockMode::LW_SHARED
        };
        // SAFETY: there are as many locks as were requested: three, and one for each queue.
        unsafe {
            let lock = std::ptr::addr_of_mut!((*segment().locks.add(index)).lock);
            pg_sys::LWLockAcquire(lock, mode);
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

/// The directory: everything that is there once, and the sessions.
pub(in crate::parts) struct Directory {
    pub(in crate::parts) header: &'static mut Header,
    pub(in crate::parts) sessions: &'static mut [sessions::Session],
    _guard: Guard,
}

pub(in crate::parts) fn directory() -> Directory {
    let guard = Guard::acquire(0, true);
    let segment = segment();
    // SAFETY: the exclusive lock makes these the only references.
    unsafe {
        Directory {
            header: &mut *segment.header,
            sessions: std::slice::from_raw_parts_mut(segment.sessions, segment.process_count),
            _guard: guard,
        }
    }
}
