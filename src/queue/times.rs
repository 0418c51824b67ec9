//! Instants in the columns `runat` and `expires`, whose types and precisions differ.

use crate::queue::Queue;
use crate::server::relation::ColumnType;
use crate::server::row::Row;
use crate::server::time_zone::TimeZone;
use crate::server::value::Value;
use crate::server::{time, types};
use pgrx::pg_sys::Oid;
use xqueue_core::field::Field;
use xqueue_core::time_column::{Stored, TimeColumn, TimeKind};

/// Returns how a column holds instants; None if it cannot.
pub(super) fn time_column(column: &ColumnType) -> Option<TimeColumn> {
    let decimals = u8::try_from(column.modifier).unwrap_or(6);
    let kind = match column.oid {
        types::TIMESTAMPTZ => TimeKind::Zoned { decimals },
        types::TIMESTAMP => TimeKind::Unzoned { decimals },
        types::INT4 => TimeKind::Seconds { is_long: false },
        types::INT8 => TimeKind::Seconds { is_long: true },
        types::FLOAT8 => TimeKind::Fractions,
        _ => return None,
    };
    Some(TimeColumn { kind, is_not_null: column.refuses_null, has_default: column.has_default })
}

/// Returns the instant that a value of a column of times stands for (µs). A value without a time zone is in `zone`.
pub fn instant(value: Value, zone: &TimeZone) -> i64 {
    let stored = match value.type_oid() {
        types::TIMESTAMP => Stored::Instant(zone.instant(value.to_integer_or_instant())),
        types::FLOAT8 => Stored::Fractions(value.to_float()),
        types::INT4 | types::INT8 => Stored::Seconds(value.to_integer()),
        _ => Stored::Instant(value.to_instant()),
    };
    stored.instant()
}

fn value(stored: Stored, oid: Oid) -> Option<Value<'static>> {
    match stored {
        Stored::Instant(time) if oid == types::TIMESTAMP => Some(Value::local_time(time)),
        Stored::Instant(instant) => Some(Value::instant(instant)),
        Stored::Seconds(seconds) => Value::integer(seconds, oid),
        Stored::Fractions(seconds) => Some(Value::float(seconds)),
    }
}

impl Queue {
    /// Returns the instant in a field of a row (µs).
    pub fn instant_of(&self, row: &impl Row, field: Field) -> Option<i64> {
        self.value_of(row, field).map(|value| instant(value, &self.time_zone))
    }

    /// Returns the value of a time column for an instant, rounded like the server rounds it; None without a column.
    pub fn instant_value(&self, field: Field, instant: i64) -> Option<Value<'static>> {
        self.written(field, instant, TimeKind::stored)
    }

    /// Returns the last value of a time column that is not after an instant; None without a column.
    pub fn last_until(&self, field: Field, instant: i64) -> Option<Value<'static>> {
        self.written(field, instant, TimeKind::last_until)
    }

    fn written(
        &self,
        field: Field,
        instant: i64,
        write: fn(TimeKind, i64) -> Stored,
    ) -> Option<Value<'static>> {
        let kind = self.sql.times.get(&field)?.kind;
        let is_local = matches!(kind, TimeKind::Unzoned { .. });
        let time = if is_local { self.time_zone.local(instant) } else { instant };
        value(write(kind, time), self.column_of(field)?.oid)
    }

    /// Returns the value of a field without a value: the current time for a time column that is never NULL.
    pub fn empty_value(&self, field: Field) -> Option<Value<'static>> {
        let now = self.sql.is_never_null(field).then(time::now)?;
        self.instant_value(field, now)
    }

    /// Returns the start of a row that arrives, if it is later than now. A current time that the column has rounded up
    /// is not.
    pub fn starts_later(&self, row: &impl Row) -> Option<i64> {
        let rounding = self.sql.times.get(&Field::Runat)?.kind.rounding();
        let now = time::now().saturating_add(rounding);
        self.instant_of(row, Field::Runat).filter(|instant| *instant > now)
    }
}
