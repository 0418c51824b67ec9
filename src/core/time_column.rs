//! How a column holds an instant: the fields `runat` and `expires` in tables that people have.

/// Length of a life or lease without an end in a column that is never NULL (µs): 100 years.
pub const ENDLESS: i64 = 100 * 365 * 86_400_000_000;

/// A column for instants.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimeColumn {
    /// In place of NULL the queue writes the current time.
    pub is_not_null: bool,
    pub has_default: bool,
}
