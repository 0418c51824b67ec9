//! Ends the program when it takes too long, in any wait. Holders end with it because their input closes, and pgbench
//! ends by itself.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

static PHASE: Mutex<String> = Mutex::new(String::new());

/// Names the current measurement, for the message if it never ends.
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
