//! What is written down of a queue: the options in force and the columns they were resolved to.

use crate::model::features::Features;
use crate::model::options::Options;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The parts that columns play, in the order in which they are added to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Field {
    Status,
    Owner,
    Runat,
    Priority,
    Tube,
    Attempts,
    Expires,
    Ttr,
    Reason,
}

impl Field {
    pub const ALL: [Field; 9] = [
        Field::Status,
        Field::Owner,
        Field::Runat,
        Field::Priority,
        Field::Tube,
        Field::Attempts,
        Field::Expires,
        Field::Ttr,
        Field::Reason,
    ];

    pub fn name(self) -> &'static str {
        ["status", "owner", "runat", "priority", "tube", "attempts", "expires", "ttr", "reason"]
            [self as usize]
    }

    /// Whether a queue with these features needs a column for this field.
    pub fn is_needed(self, features: &Features) -> bool {
        match self {
            Field::Status | Field::Owner => true,
            Field::Runat => {
                features.delays()
                    || features.zombies()
                    || features.has_deadlines()
                    || features.backoff().is_some()
            }
            Field::Priority => features.has_priority(),
            Field::Tube => features.has_tubes(),
            Field::Attempts => features.tries().is_some(),
            Field::Expires => features.expires(),
            Field::Ttr => features.has_deadlines(),
            Field::Reason => features.limit().is_some(),
        }
    }

    /// Whether only the queue's functions may change the column. The others hold what the user
    /// says of a task.
    pub fn is_own(self) -> bool {
        !matches!(self, Field::Priority | Field::Tube | Field::Ttr)
    }
}

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
