//! Resolves user functions named in options to their schema-qualified names.

use crate::error::{Error, Result};
use crate::server::value::Value;
use crate::server::{catalog, spi, sql_name, types};
use pgrx::PgSqlErrorCode;
use xqueue_core::features::Features;
use xqueue_core::names::{Hook, Id};

/// Allowed parameters of the pick function, in order of preference.
const PICKS: [&str; 2] = ["(integer, text)", "(integer)"];

/// Replaces the function names in the features by their qualified names.
pub fn qualify(features: &mut Features) -> Result<()> {
    if let Some(Id::Function(name)) = &mut features.id {
        *name = find(name, &["()"])?.name;
    }
    if let Some(Hook(Some(name))) = &mut features.on_task_change {
        *name = find(name, &["(jsonb, text)"])?.name;
    }
    if let Some(Hook(Some(name))) = &mut features.pick {
        // A stored name includes its parameters.
        let named =
            PICKS.iter().find_map(|parameters| Some((name.strip_suffix(parameters)?, *parameters)));
        let found = match named {
            Some((name, parameters)) => find(name, &[parameters])?,
            None => find(name, &PICKS)?,
        };
        *name = found.name + found.parameters;
    }
    Ok(())
}

/// Returns the return type of a function without parameters.
pub fn return_type(name: &str) -> Result<String> {
    find(name, &["()"]).map(|found| found.result)
}

/// An existing function.
struct FoundFunction {
    /// The quoted name with schema.
    name: String,
    parameters: &'static str,
    /// The return type.
    result: String,
}

/// Finds a function with one of these parameter lists.
fn find(name: &str, parameters: &[&'static str]) -> Result<FoundFunction> {
    let parts = sql_name::parts(name)?;
    let quoted: Vec<String> = parts.iter().map(|part| catalog::quote(part)).collect();
    let quoted = quoted.join(".");
    let look_up = |parameters: &'static str| {
        let signature = Value::text(&format!("{quoted}{parameters}"));
        let (name, result) = spi::connect(|spi| {
            let rows = spi.run_with(
                "SELECT pg_catalog.concat(pg_catalog.quote_ident(n.nspname), '.', pg_catalog.quote_ident(p.proname)), \
                 pg_catalog.format_type(p.prorettype, NULL) FROM pg_catalog.pg_proc p \
                 JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace \
                 WHERE p.oid OPERATOR(pg_catalog.=) pg_catalog.to_regprocedure($1)::pg_catalog.oid \
                 AND p.prokind OPERATOR(pg_catalog.=) 'f' AND n.nspname OPERATOR(pg_catalog.!~) '^pg_temp_'",
                &[(types::TEXT, Some(signature))],
            );
            rows.text(0, 1).zip(rows.text(0, 2))
        })?;
        Some(FoundFunction { name, parameters, result })
    };
    parameters.iter().find_map(|parameters| look_up(parameters)).ok_or_else(|| {
        let signatures: Vec<String> =
            parameters.iter().map(|parameters| format!("{quoted}{parameters}")).collect();
        Error::new(
            PgSqlErrorCode::ERRCODE_UNDEFINED_FUNCTION,
            format!("function {} does not exist", signatures.join(" or ")),
        )
        .hint(
            "Name a function with its schema, which is not temporary. It has to take just these parameters.",
        )
    })
}
