//! What is written down of a queue: the options in force and the columns they were resolved to.

use crate::model::field::Field;
use crate::model::options::Options;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A column by name and number. A rename keeps the number, dump and restore keep the name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    pub name: String,
    pub number: i16,
}

/// The row of the registry that makes a table a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    pub options: Options,
    pub key: Vec<Column>,
    /// The columns in use.
    pub fields: BTreeMap<Field, Column>,
    pub made: Made,
}

/// What `upgrade` has added to the table, so that `downgrade` can take it away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    pub columns: Vec<Column>,
    /// By what they are for.
    pub indexes: BTreeMap<String, String>,
    /// The status column is the user's own and has got its default from us.
    #[serde(default)]
    pub status_default: bool,
    /// The key has got its default, or its identity, from us.
    #[serde(default)]
    pub key_default: bool,
}
