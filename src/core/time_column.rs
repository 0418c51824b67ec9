//! How a column holds an instant: the fields `runat` and `expires` in tables that people have. The direct path converts
//! instants here, and statements by the SQL that is written here; both give the same values.
//!
//! Instants are PostgreSQL's: microseconds since 2000-01-01. The values of a column without a time zone are in UTC or
//! in the zone of option `time_zone`; here they count as instants. The TimeZone of a session has no effect.

/// Length of a life or lease without an end in a column that is never NULL (µs): 100 years.
pub const ENDLESS: i64 = 100 * 365 * 86_400_000_000;

/// From 1970-01-01 to 2000-01-01, in seconds.
const EPOCH: i64 = 946_684_800;

const SECOND: i64 = 1_000_000;

/// A column for instants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeColumn {
    pub kind: TimeKind,
    /// In place of NULL the queue writes the current time.
    /// The column accepts no NULL.
    pub is_not_null: bool,
    pub has_default: bool,
}

/// The type of a column for instants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TimeKind {
    /// timestamptz with a number of decimals of a second.
    Zoned { decimals: u8 },
    /// timestamp, in the time zone of the queue.
    Unzoned { decimals: u8 },
    /// Whole seconds since 1970, as integer or bigint.
    Seconds { is_long: bool },
    /// Seconds since 1970 as double precision.
    Fractions,
}

/// A value of such a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stored {
    Instant(i64),
    Seconds(i64),
    Fractions(f64),
}

impl TimeKind {
    /// Returns the value for an instant, rounded like the server rounds it.
    pub fn stored(self, instant: i64) -> Stored {
        match self {
            TimeKind::Zoned { .. } | TimeKind::Unzoned { .. } => {
                let is_finite = instant != i64::MIN && instant != i64::MAX;
                Stored::Instant(if is_finite { rounded(instant, self.unit()) } else { instant })
            }
            TimeKind::Seconds { is_long } => {
                Stored::Seconds(limited(rounded(instant, SECOND) / SECOND + EPOCH, is_long))
            }
            TimeKind::Fractions => self.last_until(instant),
        }
    }

    /// Returns the last value that is not after an instant.
    pub fn last_until(self, instant: i64) -> Stored {
        match self {
            TimeKind::Zoned { .. } | TimeKind::Unzoned { .. } => Stored::Instant(instant),
            TimeKind::Seconds { is_long } => {
                let seconds = match instant {
                    i64::MIN => i64::MIN,
                    instant => instant.div_euclid(SECOND) + EPOCH,
                };
                Stored::Seconds(limited(seconds, is_long))
            }
            TimeKind::Fractions => Stored::Fractions(match instant {
                i64::MIN => f64::NEG_INFINITY,
                i64::MAX => f64::INFINITY,
                instant => (instant.saturating_add(EPOCH * SECOND)) as f64 / 1e6,
            }),
        }
    }

    /// Returns the unit of the values (µs).
    fn unit(self) -> i64 {
        match self {
            TimeKind::Zoned { decimals } | TimeKind::Unzoned { decimals } => {
                10_i64.pow(6 - u32::from(decimals.min(6)))
            }
            TimeKind::Seconds { .. } => SECOND,
            TimeKind::Fractions => 1,
        }
    }

    /// Returns how far rounding can move an instant into the future (µs).
    pub fn rounding(self) -> i64 {
        self.unit() / 2
    }

    /// Returns the value for an instant as SQL. The server rounds it to the precision of the column. `zone`: literal of
    /// the queue's time zone.
    pub(crate) fn in_sql(self, instant: &str, zone: &str) -> String {
        match self {
            TimeKind::Zoned { .. } => instant.to_string(),
            TimeKind::Unzoned { .. } => format!("pg_catalog.timezone({zone}, {instant})"),
            TimeKind::Seconds { is_long: true } => {
                format!("pg_catalog.extract('epoch', {instant})::pg_catalog.int8")
            }
            TimeKind::Seconds { is_long: false } => format!(
                "CASE WHEN {instant} OPERATOR(pg_catalog.>) '{LAST_OF_INTEGER}' THEN {} \
                 ELSE pg_catalog.extract('epoch', {instant})::pg_catalog.int4 END",
                i32::MAX
            ),
            TimeKind::Fractions => format!("pg_catalog.date_part('epoch', {instant})"),
        }
    }

    /// Returns the last value that is not after an instant as SQL.
    pub(crate) fn last_until_in_sql(self, instant: &str, zone: &str) -> String {
        match self {
            TimeKind::Seconds { .. } => format!(
                "CASE WHEN pg_catalog.isfinite({instant}) \
                 THEN pg_catalog.floor(pg_catalog.extract('epoch', {instant}))::pg_catalog.int8 \
                 ELSE '{}'::pg_catalog.int8 END",
                i64::MIN
            ),
            _ => self.in_sql(instant, zone),
        }
    }

    /// Returns the instant of a value as SQL.
    pub(crate) fn instant_in_sql(self, value: &str, zone: &str) -> String {
        match self {
            TimeKind::Zoned { .. } => value.to_string(),
            TimeKind::Unzoned { .. } => format!("pg_catalog.timezone({zone}, {value})"),
            TimeKind::Seconds { .. } | TimeKind::Fractions => {
                format!("pg_catalog.to_timestamp({value}::pg_catalog.float8)")
            }
        }
    }
}

impl Stored {
    /// Returns the instant of a value; one outside the calendar comes never, or always has been.
    pub fn instant(self) -> i64 {
        match self {
            Stored::Instant(instant) => instant,
            Stored::Seconds(seconds) => seconds.saturating_sub(EPOCH).saturating_mul(SECOND),
            Stored::Fractions(seconds) if seconds.is_nan() => i64::MAX,
            Stored::Fractions(seconds) => ((seconds - EPOCH as f64) * 1e6).round_ties_even() as i64,
        }
    }
}

/// How much a double can be below the instant that it stands for (µs), up to the year 9999.
const INEXACT: i64 = 1_000;

/// Returns an instant whose [`TimeKind::last_until`] is not above any value that stands for `instant` or a later one.
/// The instant of a double is rounded, also up.
pub fn below(instant: i64) -> i64 {
    instant.saturating_sub(INEXACT)
}

/// The last second that an integer holds.
const LAST_OF_INTEGER: &str = "2038-01-19 03:14:07+00";

/// Limits seconds to the values that the column's type has.
fn limited(seconds: i64, is_long: bool) -> i64 {
    if is_long { seconds } else { seconds.clamp(i32::MIN.into(), i32::MAX.into()) }
}

/// Rounds half a unit away from zero, which is 2000-01-01.
fn rounded(instant: i64, unit: i64) -> i64 {
    let half = unit / 2;
    let shifted = instant.saturating_add(if instant < 0 { -half } else { half });
    shifted / unit * unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ZONED: TimeKind = TimeKind::Zoned { decimals: 6 };
    const SHORT: TimeKind = TimeKind::Seconds { is_long: false };
    const UTC: &str = "'UTC'";

    #[test]
    fn an_instant_is_rounded_to_the_columns_precision() {
        let milliseconds = TimeKind::Unzoned { decimals: 3 };
        assert_eq!(ZONED.stored(1_234_567), Stored::Instant(1_234_567));
        assert_eq!(milliseconds.stored(1_234_500), Stored::Instant(1_235_000));
        assert_eq!(milliseconds.stored(-1_234_500), Stored::Instant(-1_235_000));
        assert_eq!(milliseconds.stored(i64::MAX), Stored::Instant(i64::MAX));
        assert_eq!(SHORT.stored(1_500_000), Stored::Seconds(EPOCH + 2));
        assert_eq!(SHORT.stored(-1_400_000), Stored::Seconds(EPOCH - 1));
        assert_eq!(TimeKind::Fractions.stored(500_000), Stored::Fractions(946_684_800.5));
        assert_eq!((milliseconds.rounding(), ZONED.rounding()), (500, 0));
    }

    #[test]
    fn an_integer_holds_no_instant_after_2038() {
        assert_eq!(SHORT.stored(ENDLESS), Stored::Seconds(i32::MAX.into()));
        assert_eq!(SHORT.last_until(ENDLESS), Stored::Seconds(i32::MAX.into()));
        assert!(SHORT.in_sql("x", UTC).starts_with("CASE WHEN x OPERATOR(pg_catalog.>)"));
    }

    #[test]
    fn a_bound_is_not_after_its_instant() {
        let kinds = [SHORT, TimeKind::Seconds { is_long: true }, TimeKind::Fractions, ZONED];
        for kind in kinds {
            for instant in [0, 1, -1, 999_999, 1_000_000, -999_999, 123_456_789_012_345] {
                let bound = kind.last_until(instant).instant();
                assert!(bound <= instant && instant - bound < SECOND, "{kind:?} {instant}");
            }
            assert!(kind.last_until(i64::MIN).instant() <= kind.stored(-ENDLESS / 2).instant());
        }
    }

    proptest! {
        #[test]
        fn the_bound_of_a_value_is_not_above_it(seconds in 0.0..253_402_300_800.0_f64) {
            let value = Stored::Fractions(seconds);
            let Stored::Fractions(bound) = TimeKind::Fractions.last_until(below(value.instant())) else {
                panic!("a double")
            };
            prop_assert!(bound <= seconds, "{bound} {seconds}");
        }
    }

    #[test]
    fn values_outside_the_calendar_are_far_away() {
        assert_eq!(Stored::Seconds(i64::MAX).instant(), i64::MAX);
        assert_eq!(Stored::Seconds(i64::MIN).instant(), i64::MIN);
        assert_eq!(Stored::Fractions(f64::NAN).instant(), i64::MAX);
        assert_eq!(Stored::Fractions(f64::NEG_INFINITY).instant(), i64::MIN);
        assert_eq!(Stored::Fractions(946_684_801.000_001).instant(), 1_000_001);
    }
}
