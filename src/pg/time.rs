//! Instants (microseconds, as PostgreSQL counts them) and intervals.

use crate::error::{Error, Result};
use pgrx::pg_sys;

const DAY: i64 = 86_400_000_000;

/// The clock, in microseconds since 2000-01-01.
pub fn now() -> i64 {
    // SAFETY: reads the clock.
    unsafe { pg_sys::GetCurrentTimestamp() }
}

/// An instant of PostgreSQL in microseconds since 1970-01-01.
pub fn unix_microseconds(instant: i64) -> i64 {
    const EPOCH_DIFFERENCE: i64 = 946_684_800_000_000;
    instant + EPOCH_DIFFERENCE
}

/// The length of an interval in microseconds, a month being 30 days; refuses what lies before now
/// or has no end.
pub fn duration(argument: &str, interval: &pg_sys::Interval) -> Result<i64> {
    let endless =
        interval.month == i32::MAX && interval.day == i32::MAX && interval.time == i64::MAX;
    let days = i64::from(interval.month) * 30 + i64::from(interval.day);
    let length = days.checked_mul(DAY).and_then(|part| part.checked_add(interval.time));
    match length {
        Some(length) if length >= 0 && !endless => Ok(length),
        Some(length) if length < 0 => {
            Err(Error::invalid(format!("{argument} must not be negative"))
                .hint(format!("Give an interval of zero or more as \"{argument}\".")))
        }
        _ => Err(Error::invalid(format!("{argument} must not be infinite"))
            .hint(format!("Give an interval that ends as \"{argument}\", '1 hour' for example."))),
    }
}
