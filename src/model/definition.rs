//! What is written down of a queue: the options in force and the columns they were resolved to.

use super::options::Options;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The parts that columns play, in the order in which they are added to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Status,
    Owner,
    Runat,
}

impl Field {
    pub fn name(self) -> &'static str {
        ["status", "owner", "runat"][self as usize]
    }

    /// Whether a queue with these options needs a column for this field.
    pub fn is_needed(self, options: &Options) -> bool {
        match self {
            Field::Status | Field::Owner => true,
            Field::Runat => options.features.delayed == Some(true),
        }
    }

    /// The column that the options name for this field.
    pub fn chosen(self, options: &Options) -> Option<&str> {
        let chosen = match self {
            Field::Status => &options.fields.status,
            Field::Owner => &options.fields.owner,
            Field::Runat => &options.fields.runat,
        };
        chosen.as_deref()
    }
}

/// A column by name and number. A rename keeps the number, dump and restore keep the name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    pub name: String,
    pub number: i16,
}

/// The row of the registry that makes a table a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    pub options: Options,
    pub key: Vec<Column>,
    pub status: Column,
    pub owner: Column,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runat: Option<Column>,
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
}
