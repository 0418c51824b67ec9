//! Advice for the maker of a queue whose keys do not grow with time, or whose takes have no low-water mark.

use crate::error::Error;
use crate::queue;
use crate::server::relation::{ColumnType, Relation};
use crate::server::{catalog, types};
use crate::upgrade::defaults::shown;
use pgrx::PgSqlErrorCode;
use serde_json::json;
use xqueue_core::names::Id;
use xqueue_core::options::Options;

/// Parts of defaults that give random keys.
const RANDOM: [&str; 4] = ["gen_random_uuid", "uuid_generate_v4", "md5(", "random("];

/// Parts of defaults that give the time.
const CLOCKS: [&str; 6] = [
    "now()",
    "clock_timestamp()",
    "statement_timestamp()",
    "transaction_timestamp()",
    "CURRENT_TIMESTAMP",
    "LOCALTIMESTAMP",
];

/// Beginnings of the names of columns for the time of creation.
const CREATED: [&str; 2] = ["created", "inserted"];

pub struct Advice {
    pub told: String,
    pub hint: String,
    /// Takes walk over the finished tasks that a long transaction keeps.
    pub is_slow: bool,
}

impl Advice {
    /// Reports the advice as a NOTICE.
    pub fn report(self) {
        let code = PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION;
        Error::new(code, self.told).hint(self.hint).advise();
    }
}

/// Returns advice for a queue whose tasks come in the order of keys that are random or text, or whose takes have no
/// low-water mark because of a column or of row security. `ordered_by`: the columns of the take order.
pub fn about_order(
    relation: &Relation,
    options: &Options,
    key: &[ColumnType],
    ordered_by: &[ColumnType],
) -> Option<Advice> {
    let is_by_key = options.fields.order().is_empty();
    let is_random = is_by_key && is_random(relation, options, key);
    let (has_marks, is_secured) = (queue::has_positions(ordered_by), relation.has_row_security());
    let is_slow = is_random || is_secured || !has_marks;
    let table = queue::display_name(relation.oid());
    let told = if is_random || is_by_key && is_text(options, key) {
        let names: Vec<String> = key.iter().map(|column| catalog::quote(&column.name)).collect();
        let names = names.join(", ");
        let slow = if is_slow { ", and takes are slow during long transactions" } else { "" };
        format!(
            "tasks of queue \"{table}\" come in the order of their keys ({names}), not of their age{slow}"
        )
    } else if is_secured {
        return Some(Advice {
            told: format!(
                "takes of queue \"{table}\" are slow during long transactions: it has row security"
            ),
            hint: format!(
                "Give each group of roles a queue of its own, then ALTER TABLE {table} DISABLE ROW LEVEL SECURITY."
            ),
            is_slow,
        });
    } else if !has_marks {
        let first = ordered_by.first().map_or("", |column| &column.name);
        format!(
            "takes of queue \"{table}\" are slow during long transactions: column {} has no low-water mark",
            catalog::quote(first)
        )
    } else {
        return None;
    };
    let mut fit = relation.columns();
    fit.retain(|column| {
        !key.iter().any(|key| key.number == column.number) && grows(relation, column)
    });
    fit.sort_by_key(|column| !column.is_not_null);
    let order = |column: &str| {
        let options = json!({"fields": {"order": column}}).to_string();
        format!(
            "SELECT xqueue.upgrade({}, {});",
            catalog::quote_literal(&table),
            catalog::quote_literal(&options)
        )
    };
    let hint = match fit.first() {
        Some(first) => {
            let all: Vec<String> = fit.iter().map(|column| catalog::quote(&column.name)).collect();
            format!("Columns that grow with time: {}. {}", all.join(", "), order(&first.name))
        }
        None => format!(
            "ALTER TABLE {table} ADD COLUMN created_at timestamptz NOT NULL DEFAULT clock_timestamp(); {}",
            order("created_at")
        ),
    };
    Some(Advice { told, hint, is_slow })
}

fn is_random(relation: &Relation, options: &Options, key: &[ColumnType]) -> bool {
    let Some(first) = key.first() else { return false };
    let default = match &options.features.id {
        Some(Id::AutoIncrement | Id::Time64 | Id::Uuid) => return false,
        Some(Id::Function(name)) => Some(format!("{name}()")),
        Some(Id::Required | Id::Off) | None => default_of(relation, first),
    };
    default.is_some_and(|default| has_any(&default, &RANDOM))
}

/// Returns whether keys are text that the queue does not make itself.
fn is_text(options: &Options, key: &[ColumnType]) -> bool {
    let is_made = matches!(options.features.id, Some(Id::AutoIncrement | Id::Time64 | Id::Uuid));
    let [column] = key else { return false };
    !is_made && types::TEXTS.contains(&column.base)
}

/// Returns whether the values of new rows grow with time. Programs set columns of some names without a default.
fn grows(relation: &Relation, column: &ColumnType) -> bool {
    let is_instant = [types::TIMESTAMPTZ, types::TIMESTAMP].contains(&column.base);
    let is_named = CREATED.iter().any(|name| column.name.starts_with(name));
    column.is_identity
        || is_instant && is_named
        || default_of(relation, column).is_some_and(|default| {
            is_instant && has_any(&default, &CLOCKS) || default.starts_with("nextval(")
        })
}

fn default_of(relation: &Relation, column: &ColumnType) -> Option<String> {
    let has_default = column.has_default && column.number != 0;
    has_default.then(|| shown(relation, column).map(|shown| shown.default)).flatten()
}

fn has_any(default: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| default.contains(part))
}
