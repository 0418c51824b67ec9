//! Types of the columns of times.

use rand::Rng;
use rand::rngs::StdRng;

/// A type of the columns of times, and SQL that turns an instant into a value and back.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    column: &'static str,
    value: &'static str,
    instant: &'static str,
}

const UTC: &str = "(({}) AT TIME ZONE 'UTC')";
const SECONDS: &str = "extract(epoch FROM {})";
const TIMES: [Times; 7] = [
    Times { column: "timestamptz", value: "{}", instant: "{}" },
    Times { column: "timestamptz(3) NOT NULL", value: "{}", instant: "{}" },
    Times { column: "timestamp(0)", value: UTC, instant: UTC },
    Times { column: "integer", value: SECONDS, instant: "to_timestamp({})" },
    Times { column: "timestamp NOT NULL", value: UTC, instant: UTC },
    Times { column: "bigint NOT NULL", value: SECONDS, instant: "to_timestamp({})" },
    Times { column: "double precision", value: SECONDS, instant: "to_timestamp({})" },
];

impl Times {
    /// Returns a type for a column of the first upgrade. A column that a later upgrade adds is a timestamptz.
    pub fn random(random: &mut StdRng, is_there: bool, can_be_not_null: bool) -> Times {
        let fits = |times: &&Times| can_be_not_null || !times.is_not_null();
        let fitting: Vec<&Times> = TIMES.iter().filter(fits).collect();
        let at = if is_there { random.random_range(0..fitting.len()) } else { 0 };
        *fitting[at]
    }

    pub fn is_not_null(self) -> bool {
        self.column.contains("NOT NULL")
    }

    /// Returns the statement that gives a column of an empty queue this type.
    pub fn alter(self, column: &str) -> String {
        let kind = self.column.trim_end_matches(" NOT NULL");
        let null = if self.is_not_null() { "SET" } else { "DROP" };
        format!(
            "ALTER TABLE {{q}} ALTER {column} TYPE {kind} USING NULL, ALTER {column} {null} NOT NULL, \
             ALTER {column} SET DEFAULT {}",
            self.value(None)
        )
    }

    /// Returns the value of a column for an instant; None is NULL, or now.
    pub fn value(self, instant: Option<&str>) -> String {
        match instant {
            None if !self.is_not_null() => "NULL".into(),
            instant => self.value.replace("{}", instant.unwrap_or("now()")),
        }
    }

    /// Returns SQL that shows when a time is. Now can be rounded up. A time that cannot be NULL shows no difference
    /// between no time and the past.
    pub fn shown(self, column: &str) -> String {
        let past = if self.is_not_null() { "-" } else { "past" };
        let instant = self.instant.replace("{}", column);
        format!(
            "CASE WHEN {instant} > clock_timestamp() + interval '50 years' THEN '-' \
             WHEN {instant} > clock_timestamp() + interval '1 second' THEN 'future' WHEN {column} IS NULL THEN '-' ELSE '{past}' END"
        )
    }
}
