//! The form in which tasks are given back.

/// What a statement gives back of each task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    Json,
    Row,
}
