//! The fields of a queue: the roles of the columns of its table.

use crate::features::Features;
use crate::listed::listed;
use serde::{Deserialize, Serialize};

listed! {
    /// The role of a column, in the order in which columns are added to a table.
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
}

impl Field {
    pub fn name(self) -> &'static str {
        match self {
            Field::Status => "status",
            Field::Owner => "owner",
            Field::Runat => "runat",
            Field::Priority => "priority",
            Field::Tube => "tube",
            Field::Attempts => "attempts",
            Field::Expires => "expires",
            Field::Ttr => "ttr",
            Field::Reason => "reason",
        }
    }

    /// Returns whether a queue with these features needs a column for this field.
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
            Field::Attempts | Field::Reason => features.tries().is_some(),
            Field::Expires => features.expires(),
            Field::Ttr => features.has_deadlines(),
        }
    }

    /// Returns whether only the queue's functions are to change the column; the other columns hold the user's input.
    pub fn is_own(self) -> bool {
        !matches!(self, Field::Priority | Field::Tube | Field::Ttr)
    }
}
