//! A queue's definition stored with its table, in a comment on a trigger. A dump of the table alone, or of the schema
//! without data, contains this note but no registry row. `upgrade` treats the note like options from the caller,
//! because the table's owner can have edited it.

use crate::error::{Error, Result};
use crate::queue;
use crate::server::relation::Relation;
use crate::server::{context, time};
use crate::upgrade::attachments::BINDER;
use serde::{Deserialize, Serialize};
use xqueue_core::definition::{Column, Definition, Made};
use xqueue_core::options::Options;

/// The options of a queue and the additions of `upgrade`, in the form stored with the table.
#[derive(Serialize, Deserialize)]
pub struct Note {
    options: serde_json::Value,
    /// Names of the key's columns.
    #[serde(default)]
    key: Vec<String>,
    /// Names of the columns that `upgrade` has added.
    columns: Vec<String>,
    status_default: bool,
    key_default: bool,
}

impl Note {
    /// Returns the note of a table that was a queue; None if it has no readable note.
    pub fn read(relation: &Relation) -> Option<Note> {
        serde_json::from_str(&relation.comment_on_trigger(BINDER)?).ok()
    }

    /// Returns the options that the table had as a queue, verified like a caller's options. The functions that they name
    /// can be missing.
    pub fn options(&self) -> Result<Options> {
        let hint = || {
            format!(
                "They stand in a comment: COMMENT ON TRIGGER {BINDER} ON … IS NULL; drops them."
            )
        };
        let unusable = |message: String| {
            Error::invalid(format!("the options that the table had as a queue: {message}"))
                .hint(hint())
        };
        let mut options = Options::parse(&self.options.to_string()).map_err(unusable)?;
        context::hinted(hint, || options.features.read_times(time::seconds)).map_err(unusable)?;
        Ok(options)
    }

    /// Returns the key that the table had as a queue.
    pub fn key(&self) -> Vec<Column> {
        self.key.iter().map(|name| named(name)).collect()
    }

    /// Returns the remaining additions of `upgrade` except indexes, which are recognized by their definitions.
    pub fn made(&self, relation: &Relation) -> Made {
        let columns = relation.columns();
        let is_there = |name: &&String| columns.iter().any(|column| column.name == **name);
        Made {
            columns: self.columns.iter().filter(is_there).map(|name| named(name)).collect(),
            status_default: self.status_default,
            key_default: self.key_default,
            ..Made::default()
        }
    }
}

/// Returns a column known by name alone.
fn named(name: &str) -> Column {
    Column { name: name.into(), number: 0 }
}

/// Notes a definition on the table.
pub fn write(relation: &Relation, definition: &Definition, same_table: bool) {
    if let Some(text) = text(relation, definition, same_table) {
        relation.set_comment_on_trigger(BINDER, &text);
    }
}

/// Returns whether a table's note matches the definition; it does not after a column was renamed.
pub fn is_current(relation: &Relation, definition: &Definition, same_table: bool) -> bool {
    relation.comment_on_trigger(BINDER) == text(relation, definition, same_table)
}

/// Returns the note of a definition, with the present names of the columns.
fn text(relation: &Relation, definition: &Definition, same_table: bool) -> Option<String> {
    let name = |column: &Column| {
        let found = queue::column_of(relation, column, same_table);
        found.map_or_else(|| column.name.clone(), |column| column.name)
    };
    let mut options = definition.options.clone();
    let names = definition.fields.iter().map(|(field, column)| (*field, name(column)));
    options.fields.columns.extend(names);
    if !definition.order.is_empty() {
        options.fields.order = Some(definition.order.iter().map(name).collect());
    }
    let note = Note {
        options: serde_json::to_value(&options).ok()?,
        key: definition.key.iter().map(name).collect(),
        columns: definition.made.columns.iter().map(name).collect(),
        status_default: definition.made.status_default,
        key_default: definition.made.key_default,
    };
    serde_json::to_string(&note).ok()
}
