//! Requires that all code run by a change of a superuser's table was written by superusers.
//!
//! A job worker acts as the table's owner. Any role with the TRIGGER privilege on a table, or that owns a function
//! called by one of its checks, can write code for the table. Superusers are trusted, and ordinary owners risk only
//! their own objects. For a superuser's table, therefore, every object that a change can use must belong to a
//! superuser. The search for these objects follows dependencies:
//!
//! - the objects of the table: triggers, rules, checks, indexes, defaults, statistics;
//! - the functions, operators and types that these objects use;
//! - the tables to which foreign keys pass a change on, with the objects of these tables.
//!
//! A table that a foreign key refers to is not included, because no change of a task runs its code. Objects on which no
//! dependency is recorded are the server's own. A trigger's condition has no owner, so it must call immutable functions
//! only.

use crate::error::{Error, Result};
use crate::queue::Queue;
use crate::server::relation::{self, LockMode, Relation};
use crate::server::spi::{self, Plan};
use crate::server::types;
use crate::server::value::Value;
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Oid;
use std::cell::OnceCell;

/// Query for the objects that a change of table $1 can use: description, owner, and whether the object is a table.
/// Parameter $2 is the function that is called on every change.
const USED: &str = "
WITH RECURSIVE used(classid, objid) AS (
    SELECT 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid, $1
    UNION SELECT 'pg_catalog.pg_proc'::pg_catalog.regclass, p.oid FROM pg_catalog.pg_proc p
    JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace
    WHERE ARRAY[n.nspname::pg_catalog.text, p.proname::pg_catalog.text]
        OPERATOR(pg_catalog.=) pg_catalog.parse_ident($2)
    UNION SELECT next.classid, next.objid FROM used u, LATERAL (
        SELECT d.refclassid AS classid, d.refobjid AS objid FROM pg_catalog.pg_depend d
        LEFT JOIN pg_catalog.pg_constraint k ON k.oid OPERATOR(pg_catalog.=) d.objid
            AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_constraint'::pg_catalog.regclass
            AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
        WHERE d.classid OPERATOR(pg_catalog.=) u.classid AND d.objid OPERATOR(pg_catalog.=) u.objid
            AND (k.contype OPERATOR(pg_catalog.=) 'f' AND k.conrelid OPERATOR(pg_catalog.<>) d.refobjid) IS NOT TRUE
            AND u.classid OPERATOR(pg_catalog.<>) 'pg_catalog.pg_proc'::pg_catalog.regclass
            AND d.deptype OPERATOR(pg_catalog.<>) 'e'
        UNION ALL
        SELECT d.classid, d.objid FROM pg_catalog.pg_depend d
        LEFT JOIN pg_catalog.pg_constraint c ON c.oid OPERATOR(pg_catalog.=) d.objid
            AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_constraint'::pg_catalog.regclass
        WHERE d.refclassid OPERATOR(pg_catalog.=) u.classid AND d.refobjid OPERATOR(pg_catalog.=) u.objid
            AND u.classid OPERATOR(pg_catalog.=) ANY (ARRAY['pg_catalog.pg_class'::pg_catalog.regclass,
                'pg_catalog.pg_type'::pg_catalog.regclass]::pg_catalog.oid[])
            AND (d.deptype OPERATOR(pg_catalog.=) ANY ('{a,i}'::\"char\"[]) OR c.contype OPERATOR(pg_catalog.=) 'f'
                AND (c.confdeltype OPERATOR(pg_catalog.=) ANY ('{c,n,d}'::\"char\"[])
                    OR c.confupdtype OPERATOR(pg_catalog.=) ANY ('{c,n,d}'::\"char\"[])))
    ) next
), owned AS (
    SELECT u.classid, u.objid, coalesce(t.relowner, f.proowner, o.oprowner, y.typowner, k.opcowner, l.opfowner) AS owner,
        t.relkind OPERATOR(pg_catalog.=) ANY ('{r,p}'::\"char\"[]) AS is_table
    FROM used u
    LEFT JOIN pg_catalog.pg_class t ON t.oid OPERATOR(pg_catalog.=) u.objid
        AND u.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
    LEFT JOIN pg_catalog.pg_proc f ON f.oid OPERATOR(pg_catalog.=) u.objid
        AND u.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
    LEFT JOIN pg_catalog.pg_operator o ON o.oid OPERATOR(pg_catalog.=) u.objid
        AND u.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_operator'::pg_catalog.regclass
    LEFT JOIN pg_catalog.pg_type y ON y.oid OPERATOR(pg_catalog.=) u.objid
        AND u.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_type'::pg_catalog.regclass
    LEFT JOIN pg_catalog.pg_opclass k ON k.oid OPERATOR(pg_catalog.=) u.objid
        AND u.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_opclass'::pg_catalog.regclass
    LEFT JOIN pg_catalog.pg_opfamily l ON l.oid OPERATOR(pg_catalog.=) u.objid
        AND u.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_opfamily'::pg_catalog.regclass
)
SELECT w.objid, coalesce(w.is_table, false), a.rolsuper,
    CASE WHEN NOT a.rolsuper THEN pg_catalog.pg_describe_object(w.classid, w.objid, 0) END, a.rolname::pg_catalog.text
FROM owned w JOIN pg_catalog.pg_authid a ON a.oid OPERATOR(pg_catalog.=) w.owner";

/// Query for a trigger with arguments on table $1, if a role other than a superuser can create triggers on it. The
/// creator of a trigger is not recorded, and its arguments can be that role's.
const WITH_ARGUMENTS: &str = "
SELECT t.tgname::pg_catalog.text FROM pg_catalog.pg_trigger t
JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) t.tgrelid
JOIN pg_catalog.pg_proc f ON f.oid OPERATOR(pg_catalog.=) t.tgfoid
WHERE t.tgrelid OPERATOR(pg_catalog.=) $1 AND NOT t.tgisinternal AND t.tgnargs OPERATOR(pg_catalog.>) 0
AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_namespace n
    WHERE n.oid OPERATOR(pg_catalog.=) f.pronamespace AND n.nspname OPERATOR(pg_catalog.=) 'xqueue_internal')
AND EXISTS (
    SELECT FROM pg_catalog.aclexplode(c.relacl) a LEFT JOIN pg_catalog.pg_authid r
    ON r.oid OPERATOR(pg_catalog.=) a.grantee
    WHERE a.privilege_type OPERATOR(pg_catalog.=) 'TRIGGER' AND r.rolsuper IS NOT TRUE)
LIMIT 1";

thread_local! {
    static PLAN: OnceCell<Plan> = const { OnceCell::new() };
}

/// Refuses a superuser's queue that runs code of another role. The caller holds a lock on the table. Returns false if
/// another table to which changes are handed on is locked.
pub fn require_trusted(queue: &Queue, owner: &str) -> Result<bool> {
    let tables = trusted_tables(queue, owner)?;
    let others = || tables.iter().filter(|table| **table != queue.table);
    if !others().all(|table| relation::try_lock(*table, LockMode::RowExclusive)) {
        return Ok(false);
    }
    // Code can have been added to these tables before they were locked.
    if others().next().is_some() && trusted_tables(queue, owner)? != tables {
        return Ok(false);
    }
    for table in tables {
        let relation = Relation::open(table, LockMode::None);
        let condition = relation.and_then(|relation| relation.trigger_with_mutable_condition());
        let stranger = condition.map(|trigger| format!("the condition of trigger {trigger}"));
        if let Some(stranger) = stranger.or_else(|| foreign_arguments(table)) {
            return Err(refused(queue, owner, &stranger));
        }
    }
    Ok(true)
}

fn foreign_arguments(table: Oid) -> Option<String> {
    spi::connect(|spi| {
        let rows = spi.run_with(WITH_ARGUMENTS, &[(types::OID, Some(Value::oid(table)))]);
        let trigger = (!rows.is_empty()).then(|| rows.text(0, 1).unwrap_or_default())?;
        Some(format!("trigger {trigger}, which may have got its arguments from another role,"))
    })
}

/// Returns, in order, the queue's table and the tables that a change of it also changes.
fn trusted_tables(queue: &Queue, owner: &str) -> Result<Vec<Oid>> {
    let hook = queue.hook.as_deref().map(Value::text);
    let (mut tables, mut stranger) = (vec![], None);
    spi::connect(|spi| {
        PLAN.with(|plan| {
            let types = [types::OID, types::TEXT];
            let plan = plan.get_or_init(|| Plan::prepare(spi, USED, &types));
            let rows = spi.run_plan(plan, [Some(Value::oid(queue.table)), hook].into_iter());
            for row in 0..rows.len() {
                let is = |column| rows.value(row, column).is_some_and(Value::to_bool);
                if is(2) {
                    tables.extend(rows.value(row, 1).map(Value::to_oid));
                }
                if !is(3) {
                    let text = |column| rows.text(row, column).unwrap_or_default();
                    stranger = Some(format!("{}, which belongs to role \"{}\"", text(4), text(5)));
                }
            }
        });
    });
    tables.sort_unstable_by_key(|table| u32::from(*table));
    match stranger {
        Some(stranger) => Err(refused(queue, owner, &stranger)),
        None => Ok(tables),
    }
}

fn refused(queue: &Queue, owner: &str, what: &str) -> Error {
    let message = format!(
        "a change of queue \"{name}\" would run {what}, with the rights of superuser \"{owner}\"; give the table to a \
         role of its own: ALTER TABLE {name} OWNER TO that role",
        name = queue.name
    );
    Error::new(PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE, message)
}
