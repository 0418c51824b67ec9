//! Time zones of the server: times of a zone's clocks, as columns of type timestamp hold them, and instants.

use crate::error::{Error, Result};
use crate::server::types;
use crate::server::value::Value;
use pgrx::pg_sys;
use std::ffi::CString;

const DAY: i64 = 86_400_000_000;

/// A zone that the server knows by its full name. Its clocks and UTC differ by less than two days.
#[derive(Debug)]
pub enum TimeZone {
    Utc,
    Named(String),
}

impl TimeZone {
    /// Finds a zone by its full name; an error if the server does not know it. The server reads some short names, such
    /// as CET, as abbreviations without summer time, which depend on settings of the session.
    pub fn named(name: &str) -> Result<TimeZone> {
        if name == "UTC" {
            return Ok(TimeZone::Utc);
        }
        let full = Some(name).filter(|name| name.contains('/'));
        let known = full.and_then(|name| CString::new(name).ok()).filter(|name| {
            // SAFETY: reads the name; looks the zone up in the server's cache and files.
            !unsafe { pg_sys::pg_tzset(name.as_ptr()) }.is_null()
        });
        match known {
            Some(_) => Ok(TimeZone::Named(name.into())),
            None => {
                let message =
                    format!("time_zone: the server has no zone with the full name \"{name}\"");
                Err(Error::invalid(message)
                    .hint("Full names: SELECT name FROM pg_timezone_names WHERE name LIKE '%/%';"))
            }
        }
    }

    /// Returns the time that the zone's clocks show at an instant.
    pub fn local(&self, instant: i64) -> i64 {
        self.converted(Value::instant(instant))
    }

    /// Returns the instant at which the zone's clocks show a time. If they show it twice, the server chooses.
    pub fn instant(&self, local: i64) -> i64 {
        self.converted(Value::local_time(local))
    }

    /// Converts a timestamptz to a timestamp, and a timestamp to a timestamptz. Times within two days of the ends of the
    /// calendar stay, and so do those that never come or always have been.
    fn converted(&self, value: Value) -> i64 {
        const FIRST: i64 = -211_813_488_000_000_000 + 2 * DAY;
        const LAST: i64 = 9_223_371_331_200_000_000 - 2 * DAY;
        let time = value.to_integer_or_instant();
        match self {
            TimeZone::Named(name) if (FIRST..LAST).contains(&time) => {
                let arguments =
                    [Value::text(name).require(types::TEXT), value.require(value.type_oid())];
                let convert = match value.type_oid() {
                    types::TIMESTAMPTZ => pg_sys::timestamptz_zone,
                    _ => pg_sys::timestamp_zone,
                };
                // SAFETY: the server's function for a text and this type, which never returns NULL.
                let converted =
                    unsafe { pgrx::direct_function_call_as_datum(convert, &arguments.map(Some)) };
                converted.map_or(time, |converted| converted.value() as i64)
            }
            _ => time,
        }
    }
}
