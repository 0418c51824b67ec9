//! Tests of one program run in threads, several at a time, on one server. A test has its turn from its first connection
//! to its end: shared with others, or alone if it starts with `alone()`. A watchdog aborts the program when a turn
//! lasts too long.

use std::cell::RefCell;
use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;
use std::time::Duration;

/// Maximum duration of a turn: a backend that ignores even its cancellation must not hang the run. The longest test
/// takes a minute, and many times that on a busy machine.
const LIMIT: Duration = Duration::from_secs(900);

static SERVER: RwLock<()> = RwLock::new(());

thread_local! {
    static TURN: RefCell<Option<Turn>> = const { RefCell::new(None) };
}

struct Turn {
    /// None if other tests share the turn.
    exclusive: Option<RwLockWriteGuard<'static, ()>>,
    _shared: Option<RwLockReadGuard<'static, ()>>,
    _watchdog: Sender<()>,
}

/// Waits until no other test of this program uses the server, and keeps others away until this test ends. For tests
/// that stop the server or its workers, change its settings, need all its connections, or measure it as a whole.
#[track_caller]
pub fn alone() {
    assert!(is_alone() || TURN.with_borrow(Option::is_none), "alone() comes before any connection");
    begin(|| {
        let lock = SERVER.write().unwrap_or_else(PoisonError::into_inner);
        Turn { exclusive: Some(lock), _shared: None, _watchdog: watchdog(LIMIT) }
    });
}

/// Returns whether this test has called `alone`.
pub fn is_alone() -> bool {
    TURN.with_borrow(|turn| turn.as_ref().is_some_and(|turn| turn.exclusive.is_some()))
}

/// Allows this program a longer run. Must be called before its first connection.
pub fn allow(limit: Duration) {
    begin(|| beside(limit));
}

/// Waits until no other test is alone. Threads that a test starts have no name and need no turn of their own.
pub fn beside_others() {
    if thread::current().name().is_some() {
        begin(|| beside(LIMIT));
    }
}

fn beside(limit: Duration) -> Turn {
    let lock = SERVER.read().unwrap_or_else(PoisonError::into_inner);
    Turn { exclusive: None, _shared: Some(lock), _watchdog: watchdog(limit) }
}

fn begin(new: impl FnOnce() -> Turn) {
    TURN.with_borrow_mut(|turn| {
        turn.get_or_insert_with(new);
    });
}

/// Ends the program unless its result is dropped in time.
fn watchdog(limit: Duration) -> Sender<()> {
    let (turn, end) = channel();
    let name = thread::current().name().unwrap_or_default().to_owned();
    thread::spawn(move || {
        if end.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            // Unlike eprintln, this is shown although the test has not ended.
            drop(writeln!(std::io::stderr(), "{name} hangs: it has run for {limit:?}"));
            std::process::abort();
        }
    });
    turn
}
