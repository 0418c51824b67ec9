//! The statements that make a table a queue, and an ordinary table again.

use super::{EQUALS, Table, join};
use crate::model::definition::Field;
use crate::model::status::Status;

impl Table {
    /// Values of the status column that stand for no state, a few of them.
    pub fn foreign_values(&self) -> String {
        format!(
            "SELECT DISTINCT task.{0}::pg_catalog.text FROM ONLY {1} AS task \
             WHERE NOT (task.{0} {EQUALS} ANY (ARRAY[{2}]::{3}[])) LIMIT 5",
            self.status,
            self.qualified(),
            self.labels.join(", "),
            self.status_type
        )
    }

    pub fn without_status(&self) -> String {
        format!(
            "SELECT FROM ONLY {} AS task WHERE task.{} IS NULL LIMIT 1",
            self.qualified(),
            self.status
        )
    }

    /// Gives rows that have no status one.
    pub fn fill_status(&self, status: Status) -> String {
        let (table, column, label) = (self.qualified(), &self.status, self.label(status));
        format!("UPDATE ONLY {table} SET {column} = {label} WHERE {column} IS NULL")
    }

    pub fn add_column(&self, field: Field, existing: Status) -> Vec<String> {
        let table = self.qualified();
        match field {
            Field::Status => {
                let (column, ready) = (&self.status, self.label(Status::Ready));
                let add = format!(
                    "ALTER TABLE {table} ADD COLUMN {column} {} NOT NULL DEFAULT {}",
                    self.status_type,
                    self.label(existing)
                );
                match existing {
                    Status::Ready => vec![add],
                    _ => vec![
                        add,
                        format!("ALTER TABLE {table} ALTER COLUMN {column} SET DEFAULT {ready}"),
                    ],
                }
            }
            Field::Owner => {
                vec![format!("ALTER TABLE {table} ADD COLUMN {} pg_catalog.uuid", self.owner)]
            }
            Field::Runat => {
                let runat = self.runat.iter();
                let add = |runat| {
                    format!("ALTER TABLE {table} ADD COLUMN {runat} pg_catalog.timestamptz")
                };
                runat.map(add).collect()
            }
        }
    }

    pub fn set_status_default(&self) -> String {
        format!(
            "ALTER TABLE {} ALTER COLUMN {} SET DEFAULT {}",
            self.qualified(),
            self.status,
            self.label(Status::Ready)
        )
    }

    pub fn create_index(&self, index: Index, name: &str) -> String {
        format!(
            "CREATE INDEX {name} ON {} ({}) WHERE {}",
            self.qualified(),
            self.index_columns(index).join(", "),
            self.index_predicate(index)
        )
    }

    pub fn index_columns(&self, index: Index) -> Vec<&str> {
        match index {
            Index::Ready => self.key.iter().map(|column| column.name.as_str()).collect(),
            Index::Taken => vec![&self.owner],
            Index::Due => self.runat.iter().map(String::as_str).collect(),
        }
    }

    fn index_predicate(&self, index: Index) -> String {
        let is = |status| format!("{} {EQUALS} {}", self.status, self.label(status));
        match index {
            Index::Ready => is(Status::Ready),
            Index::Taken => is(Status::Taken),
            Index::Due => join(self.runat.iter().map(|runat| format!("{runat} IS NOT NULL")), ""),
        }
    }

    /// The predicate of an index as the server shows it, for each way in which it names the type.
    pub fn deparsed_predicates(&self, index: Index, short_type: &str) -> Vec<String> {
        let (status, label) = match index {
            Index::Ready => (&self.status, self.label(Status::Ready)),
            Index::Taken => (&self.status, self.label(Status::Taken)),
            Index::Due => {
                return self.runat.iter().map(|runat| format!("({runat} IS NOT NULL)")).collect();
            }
        };
        match short_type {
            "character varying" => vec![format!("(({status})::text = {label}::text)")],
            "character" => vec![format!("({status} = {label}::bpchar)")],
            short => vec![
                format!("({status} = {label}::{short})"),
                format!("({status} = {label}::{})", self.status_type),
            ],
        }
    }

    /// The triggers that a queue needs, with the statements that make each of them.
    pub fn triggers(&self) -> Vec<(&'static str, Vec<String>)> {
        let table = self.qualified();
        let mut wanted = vec![
            ("xqueue_insert", "AFTER INSERT", "FOR EACH ROW", String::new(), "row_changed"),
            ("xqueue_delete", "AFTER DELETE", "FOR EACH ROW", String::new(), "row_changed"),
            ("xqueue_truncate", "AFTER TRUNCATE", "FOR EACH STATEMENT", String::new(), "truncated"),
        ];
        let status = &self.status;
        let mut changed = format!("OLD.{status} IS DISTINCT FROM NEW.{status}");
        if let Some(runat) = &self.runat {
            changed += &format!(" OR OLD.{runat} IS DISTINCT FROM NEW.{runat}");
            let future = format!("WHEN (NEW.{runat} IS NOT NULL) ");
            wanted.push(("xqueue_delay", "BEFORE INSERT", "FOR EACH ROW", future, "row_delayed"));
        }
        let changed = format!("WHEN ({changed}) ");
        wanted.push(("xqueue_update", "AFTER UPDATE", "FOR EACH ROW", changed, "row_changed"));
        let make = |(name, event, each, when, function)| {
            let create = format!(
                "CREATE TRIGGER {name} {event} ON {table} {each} {when}EXECUTE FUNCTION xqueue.{function}()"
            );
            let enable = format!("ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}");
            (name, vec![create, enable])
        };
        wanted.into_iter().map(make).collect()
    }

    pub fn drop_trigger(&self, name: &str) -> String {
        format!("DROP TRIGGER IF EXISTS {name} ON {}", self.qualified())
    }
}

/// Names of all triggers that a queue may have.
pub const TRIGGERS: [&str; 5] =
    ["xqueue_delay", "xqueue_delete", "xqueue_insert", "xqueue_truncate", "xqueue_update"];

/// The indexes that a queue needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// Ready tasks in the order in which they are taken.
    Ready,
    /// Taken tasks by session.
    Taken,
    /// Tasks that wait, by the instant at which they are due.
    Due,
}

impl Index {
    pub const ALL: [Index; 3] = [Index::Ready, Index::Taken, Index::Due];

    /// The ending of the index's name.
    pub fn suffix(self) -> &'static str {
        ["ready_idx", "taken_idx", "due_idx"][self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;

    #[test]
    fn every_trigger_has_a_known_name_and_fires_always() {
        let delayed = Table { runat: Some("runat".into()), ..table() };
        let names: Vec<_> = delayed.triggers().into_iter().map(|(name, _)| name).collect();
        assert!(TRIGGERS.iter().all(|name| names.contains(name)));
        for (name, statements) in table().triggers() {
            assert!(TRIGGERS.contains(&name));
            assert!(statements[1].contains("ENABLE ALWAYS TRIGGER"), "{statements:?}");
        }
    }

    #[test]
    fn rows_that_were_there_get_their_state_and_later_ones_are_ready() {
        let statements = table().add_column(Field::Status, Status::Done);
        assert!(statements[0].ends_with("NOT NULL DEFAULT 'D'"));
        assert!(statements[1].ends_with("SET DEFAULT 'R'"));
    }
}
