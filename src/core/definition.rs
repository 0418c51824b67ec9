//! The stored definition of a queue: the options in force and the columns that they resolve to.

use crate::field::Field;
use crate::options::Options;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A column by name and number. The number survives a rename, the name survives dump and restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    pub name: String,
    pub number: i16,
}

/// A queue's entry in the registry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    pub options: Options,
    pub key: Vec<Column>,
    /// The columns by which tasks of equal priority are taken, before their keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<Column>,
    /// The columns in use.
    pub fields: BTreeMap<Field, Column>,
    pub made: Made,
    /// User code of the owner did not end when its job worker was told to end. The worker leaves the tasks alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unending: bool,
}

/// Objects that `upgrade` added to the table, for `downgrade` to remove.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    pub columns: Vec<Column>,
    /// Index names by purpose.
    pub indexes: BTreeMap<String, String>,
    /// The status column is the user's own; `upgrade` set its default.
    #[serde(default)]
    pub status_default: bool,
    /// `upgrade` made the key's default or identity.
    #[serde(default)]
    pub key_default: bool,
}
