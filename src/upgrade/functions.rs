//! The user's functions that options name: found once, and kept with their schema.

use crate::error::{Error, Result};
use crate::model::features::Features;
use crate::model::names::{Hook, Id};
use crate::pg::{catalog, relation, spi, types};
use pgrx::PgSqlErrorCode;

/// Gives the functions that the features name their full names.
pub fn qualify(features: &mut Features) -> Result<()> {
    if let Some(Id::Function(name)) = &mut features.id {
        *name = find(name, "()")?.0;
    }
    if let Some(Hook(Some(name))) = &mut features.on_task_change {
        *name = find(name, "(jsonb, text)")?.0;
    }
    Ok(())
}

/// The type that a function without parameters gives back.
pub fn return_type(name: &str) -> Result<String> {
    find(name, "()").map(|(_, result)| result)
}

/// The full name of a function, quoted, and the type that it gives back.
fn find(name: &str, parameters: &str) -> Result<(String, String)> {
    let parts = relation::name_parts(name)?;
    let quoted: Vec<String> = parts.iter().map(|part| catalog::quote(part)).collect();
    let signature = format!("{}{parameters}", quoted.join("."));
    let found = spi::connect(|spi| {
        let rows = spi.run_with(
            "SELECT pg_catalog.concat(pg_catalog.quote_ident(n.nspname), '.', pg_catalog.quote_ident(p.proname)), \
             pg_catalog.format_type(p.prorettype, NULL) FROM pg_catalog.pg_proc p \
             JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
             WHERE p.oid = pg_catalog.to_regprocedure($1)::pg_catalog.oid AND p.prokind = 'f'",
            &[(types::TEXT, Some(types::from_text(&signature)))],
        );
        rows.text(0, 1).zip(rows.text(0, 2))
    });
    found.ok_or_else(|| {
        Error::new(
            PgSqlErrorCode::ERRCODE_UNDEFINED_FUNCTION,
            format!("function {signature} does not exist"),
        )
        .hint(
            "Name a function that is there, with its schema: it has to take just these parameters.",
        )
    })
}
