//! Default of the key column, the source of new tasks' keys.

use crate::error::{Error, Result};
use crate::server::relation::{ColumnType, Relation};
use crate::server::{catalog, types};
use crate::upgrade::{census, defaults};
use pgrx::PgSqlErrorCode;
use xqueue_core::definition::Made;
use xqueue_core::names::Id;
use xqueue_core::options::Options;
use xqueue_core::statement::Table;

/// Adds DDL that gives the key the default for feature `id`, or drops a default made by the extension. `known`: the
/// feature's previous value.
pub fn give(
    options: &Options,
    known: Option<&Id>,
    relation: &Relation,
    sql: &Table,
    key: &[ColumnType],
    ddl: &mut Vec<String>,
    made: &mut Made,
) -> Result<()> {
    let wanted = options.features.id.as_ref().unwrap_or(&Id::Off);
    let [column] = key else {
        return match wanted {
            Id::Off | Id::Required => Ok(()),
            _ => Err(Error::invalid("only a key of one column can be made by the queue")
                .hint("Use {\"id\": \"required\"}, or leave the feature out.")),
        };
    };
    let has_one = column.has_default || column.is_identity;
    let is_as_made =
        || has_one && (!made.key_default || defaults::is_of_id(wanted, relation, sql, column));
    if known == Some(wanted) && (matches!(wanted, Id::Off | Id::Required) || is_as_made()) {
        return Ok(());
    }
    refuse_unfit(wanted, column)?;
    let is_ours = std::mem::take(&mut made.key_default) && has_one;
    if is_ours {
        ddl.push(sql.drop_key_default(column.is_identity));
    }
    if matches!(wanted, Id::Off | Id::Required) {
        return Ok(());
    }
    let has_own = has_one && !is_ours;
    if *wanted == Id::AutoIncrement {
        if !has_own {
            ddl.push(sql.add_identity(census::greatest(relation, column)));
            made.key_default = true;
        }
        return Ok(());
    }
    if has_own {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("column \"{}\" has a default of its own", column.name),
        )
        .hint("Drop it with ALTER TABLE … ALTER COLUMN … DROP DEFAULT (or DROP IDENTITY), or leave id out."));
    }
    ddl.push(sql.set_key_default(&default(wanted, sql, column)));
    made.key_default = true;
    Ok(())
}

fn default(id: &Id, sql: &Table, column: &ColumnType) -> String {
    match id {
        Id::Time64 => {
            let table = catalog::quote_literal(&sql.qualified());
            format!("xqueue.time64({table}::pg_catalog.regclass)")
        }
        Id::Function(name) => format!("{name}()"),
        _ => {
            #[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17"))]
            let uuid = "xqueue.uuidv7()";
            #[cfg(feature = "pg18")]
            let uuid = "pg_catalog.uuidv7()";
            match column.base {
                types::UUID => uuid.into(),
                _ => format!("({uuid})::pg_catalog.text"),
            }
        }
    }
}

fn refuse_unfit(id: &Id, column: &ColumnType) -> Result<()> {
    let base = column.base;
    let (is_fit, wanted) = match id {
        Id::AutoIncrement => {
            ([types::INT2, types::INT4, types::INT8].contains(&base), "smallint, integer or bigint")
        }
        Id::Time64 => (base == types::INT8, "bigint"),
        Id::Uuid => (base == types::UUID || types::TEXTS.contains(&base), "uuid or text"),
        Id::Off | Id::Required | Id::Function(_) => return Ok(()),
    };
    if is_fit {
        return Ok(());
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
        format!(
            "column \"{}\" cannot get its key so: it is of type {}",
            column.name,
            types::type_name(column.oid)
        ),
    )
    .hint(format!("It has to be of type {wanted}.")))
}
