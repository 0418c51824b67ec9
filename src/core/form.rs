//! The form in which tasks are returned.

/// The form of a returned task: jsonb or a row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    Json,
    Row,
}
