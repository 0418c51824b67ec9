//! Instants (in microseconds, PostgreSQL's unit) and intervals.

use crate::error::{Error, Result};
use crate::server::types;
use crate::server::value::Value;
use pgrx::pg_sys::{self, Datum};
use std::time::Duration;
use xqueue_core::time::{LONGEST_TTR_DAYS, LONGEST_TTR_YEARS};

const DAY: i64 = 86_400_000_000;

/// Returns the present time, in microseconds since 2000-01-01.
pub fn now() -> i64 {
    // SAFETY: reads the clock.
    unsafe { crate::server::raw::GetCurrentTimestamp() }
}

/// Returns the instant after a pause from now.
pub fn in_future(pause: Duration) -> i64 {
    now().saturating_add(pause.as_micros() as i64)
}

/// Returns the time until an instant; zero if it has passed.
pub fn until(instant: i64) -> Duration {
    Duration::from_micros(instant.saturating_sub(now()).max(0) as u64)
}

/// Converts an instant of PostgreSQL to microseconds since 1970-01-01. The last 30 years of PostgreSQL's calendar do
/// not fit, and become the greatest number.
pub fn unix_microseconds(instant: i64) -> i64 {
    const EPOCH_DIFFERENCE: i64 = 946_684_800_000_000;
    instant.saturating_add(EPOCH_DIFFERENCE)
}

/// Converts a length in microseconds to seconds. A length from or to infinity becomes 290,000 years, about the longest
/// interval that make_interval accepts.
pub fn seconds_of(length: i64) -> f64 {
    const LONGEST: i64 = 9_150_000_000_000_000_000;
    length.clamp(-LONGEST, LONGEST) as f64 / 1e6
}

/// Returns the instant a number of microseconds after another; None beyond the end of the calendar.
pub fn after(instant: i64, microseconds: i64) -> Option<i64> {
    const END: i64 = 9_223_371_331_200_000_000;
    instant.checked_add(microseconds).filter(|end| *end < END)
}

/// Adds an interval to an instant; an error beyond the end of the calendar.
pub fn plus(instant: i64, interval: Value) -> i64 {
    let arguments = [Some(Datum::from(instant)), Some(interval.require(types::INTERVAL))];
    // SAFETY: the server's function for the two types, which never returns NULL.
    let end =
        unsafe { pgrx::direct_function_call_as_datum(pg_sys::timestamptz_pl_interval, &arguments) };
    end.map_or(instant, |end| end.value() as i64)
}

/// Limits an interval written by any user to the range from zero to a hundred years. The sum of an instant and the
/// interval's months must be a valid instant. An interval whose months and days have opposite signs therefore counts as
/// too long if one of them exceeds the limit.
pub fn sensible(interval: Value) -> Value {
    let bound = |month| Value::interval(pg_sys::Interval { month, day: 0, time: 0 });
    let compared = |with: Value| {
        // SAFETY: the server's function for two intervals.
        let order = unsafe {
            let arguments = [interval, with].map(|value| Some(value.require(types::INTERVAL)));
            pgrx::direct_function_call_as_datum(pg_sys::interval_cmp, &arguments)
        };
        order.map_or(0, |order| order.value() as i32)
    };
    let (none, longest) = (bound(0), bound(LONGEST_TTR_YEARS * 12));
    let parts = interval.to_interval();
    let has_long_part = (parts.month / 12).abs() > LONGEST_TTR_YEARS
        || !(-LONGEST_TTR_DAYS..=LONGEST_TTR_DAYS).contains(&parts.day);
    match (compared(none), compared(longest)) {
        (i32::MIN..0, _) => none,
        (_, 1..) => longest,
        _ if has_long_part => longest,
        _ => interval,
    }
}

/// Returns the length in seconds of an interval given as text; syntax errors are the server's.
pub fn seconds(text: &str) -> std::result::Result<f64, String> {
    let interval = crate::server::operators::parse_value(text, types::INTERVAL);
    let interval = interval.map_err(|_| "a time holds a NUL character".to_string())?;
    let length = duration("a time", &interval.to_interval());
    let length = length.map_err(|_| format!("{text} is negative or has no end"))?;
    Ok(seconds_of(length))
}

/// Returns the length of an interval in microseconds, with months of 30 days; refuses negative and infinite intervals.
pub fn duration(argument: &str, interval: &pg_sys::Interval) -> Result<i64> {
    let endless =
        interval.month == i32::MAX && interval.day == i32::MAX && interval.time == i64::MAX;
    match microseconds(interval) {
        Some(length) if length >= 0 && !endless => Ok(length),
        Some(length) if length < 0 => {
            Err(Error::invalid(format!("{argument} must not be negative"))
                .hint(format!("Give an interval of zero or more as \"{argument}\".")))
        }
        _ => Err(Error::invalid(format!("{argument} must not be infinite"))
            .hint(format!("Give an interval that ends as \"{argument}\", '1 hour' for example."))),
    }
}

/// Returns the length of an interval in microseconds, with months of 30 days, capped at the maximum.
pub fn length(interval: &pg_sys::Interval) -> i64 {
    microseconds(interval).unwrap_or(i64::MAX)
}

fn microseconds(interval: &pg_sys::Interval) -> Option<i64> {
    let days = i64::from(interval.month) * 30 + i64::from(interval.day);
    days.checked_mul(DAY).and_then(|part| part.checked_add(interval.time))
}
