//! Ends everything when it takes too long, whatever it is waiting for. Holders end with it, as
//! their input closes, and pgbench by itself.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

static PHASE: Mutex<String> = Mutex::new(String::new());

/// Says what is being measured now, for the message if it does not come to an end.
pub fn enter(phase: impl Into<String>) {
    *PHASE.lock().unwrap_or_else(PoisonError::into_inner) = phase.into();
}

pub fn phase() -> String {
    PHASE.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

pub fn start(limit: Duration) {
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        eprintln!("\nmeasure: given up after {} s: {}", limit.as_secs(), phase());
        std::process::exit(1);
    });
}
