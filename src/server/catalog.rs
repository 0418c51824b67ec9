//! Reads the server's catalogs: names and their quoting, databases, functions, owners.

use crate::server::relation::{LockMode, Relation};
use crate::server::row::Row;
use crate::server::snapshot::Snapshot;
use crate::server::text::owned;
use crate::server::value::Value;
use pgrx::pg_sys::{self, Datum, Oid};
use std::ffi::{CStr, CString};

/// The language C, whose oid is the same in every database.
const LANGUAGE_C: Oid = Oid::from_u32(13);

/// Quotes a name by the server's own rules.
pub fn quote(name: &str) -> String {
    let name = CString::new(name).unwrap_or_default();
    // SAFETY: returns its argument or a palloc'ed copy; copied here.
    unsafe { CStr::from_ptr(pg_sys::quote_identifier(name.as_ptr())) }
        .to_string_lossy()
        .into_owned()
}

/// Quotes a string literal by the server's own rules.
pub fn quote_literal(text: &str) -> String {
    let text = CString::new(text).unwrap_or_default();
    // SAFETY: returns a palloc'ed string; copied here.
    unsafe { CStr::from_ptr(pg_sys::quote_literal_cstr(text.as_ptr())) }
        .to_string_lossy()
        .into_owned()
}

pub fn schema_name(schema: Oid) -> String {
    // SAFETY: a lookup; a palloc'ed string or null.
    unsafe { owned(pg_sys::get_namespace_name(schema)) }.unwrap_or_default()
}

pub fn database_name(database: Oid) -> String {
    // SAFETY: a lookup; a palloc'ed string or null.
    unsafe { owned(pg_sys::get_database_name(database)) }.unwrap_or_default()
}

/// Returns schema and name of a table, unquoted.
pub fn table_name(table: Oid) -> Option<(String, String)> {
    // SAFETY: lookups; palloc'ed strings or null.
    unsafe {
        let name = owned(pg_sys::get_rel_name(table))?;
        Some((schema_name(pg_sys::get_rel_namespace(table)), name))
    }
}

/// Returns the kind of a relation as in `pg_class`; None if the relation does not exist.
pub fn relation_kind(relation: Oid) -> Option<u8> {
    // SAFETY: a lookup.
    let kind = unsafe { pg_sys::get_rel_relkind(relation) } as u8;
    (kind != 0).then_some(kind)
}

/// Returns a name for a new index that no other relation of the schema has.
pub fn free_name(table: &str, suffix: &str, schema: Oid) -> String {
    let table = CString::new(table).unwrap_or_default();
    let suffix = CString::new(suffix).unwrap_or_default();
    let (table, suffix) = (table.as_ptr(), suffix.as_ptr());
    // SAFETY: the C strings outlive the call; a palloc'ed string.
    let name = unsafe {
        owned(pg_sys::ChooseRelationName(table, std::ptr::null(), suffix, schema, false))
    };
    name.unwrap_or_default()
}

/// Returns the relation of this name in the extension's schema; None if the extension is not installed. Then anybody can
/// have made a schema of this name, with relations of any kind.
pub fn own_relation(name: &CStr) -> Option<Oid> {
    if !is_installed() {
        return None;
    }
    // SAFETY: lookups with C strings that outlive them.
    unsafe {
        let schema = pg_sys::get_namespace_oid(c"xqueue".as_ptr(), true);
        if schema == Oid::INVALID {
            return None;
        }
        let relation = pg_sys::get_relname_relid(name.as_ptr(), schema);
        (relation != Oid::INVALID).then_some(relation)
    }
}

/// Returns the function of this name and argument types in the schema of internal functions; None if the extension is
/// not installed.
pub fn internal_function(name: &CStr, arguments: &[Oid]) -> Option<Oid> {
    // SAFETY: lookups with a C string and a vector that outlive them.
    unsafe {
        let schema = pg_sys::get_namespace_oid(c"xqueue_internal".as_ptr(), true);
        let arguments = pg_sys::buildoidvector(arguments.as_ptr(), arguments.len() as i32);
        let function = pg_sys::GetSysCacheOid(
            pg_sys::SysCacheIdentifier::PROCNAMEARGSNSP as _,
            pg_sys::Anum_pg_proc_oid as i16,
            Datum::from(name.as_ptr()),
            Datum::from(arguments),
            Datum::from(schema),
            Datum::from(0),
        );
        pg_sys::pfree(arguments.cast());
        (function != Oid::INVALID).then_some(function)
    }
}

/// Returns whether the extension is installed in this database.
pub fn is_installed() -> bool {
    own_extension() != Oid::INVALID
}

/// Returns whether an extension is this one.
pub fn is_own(extension: Oid) -> bool {
    extension == own_extension()
}

fn own_extension() -> Oid {
    // SAFETY: a lookup.
    unsafe { pg_sys::get_extension_oid(c"xqueue".as_ptr(), true) }
}

pub fn find_database(name: &str) -> Option<Oid> {
    let name = CString::new(name).ok()?;
    // SAFETY: a lookup with a C string that outlives it.
    let database = unsafe { pg_sys::get_database_oid(name.as_ptr(), true) };
    (database != Oid::INVALID).then_some(database)
}

/// Returns whether every role that can create databases can copy this database.
pub fn is_template(database: Oid) -> bool {
    let cache = pg_sys::SysCacheIdentifier::DATABASEOID as i32;
    // SAFETY: a lookup; the row is released once it has been read.
    unsafe {
        let row = pg_sys::SearchSysCache1(cache, Datum::from(database));
        if row.is_null() {
            return false;
        }
        let form = &*pg_sys::GETSTRUCT(row).cast::<pg_sys::FormData_pg_database>();
        let is_template = form.datistemplate;
        pg_sys::ReleaseSysCache(row);
        is_template
    }
}

/// Returns the table of a trigger.
pub fn table_of_trigger(trigger: Oid) -> Option<Oid> {
    let catalogue = Relation::open(pg_sys::TriggerRelationId, LockMode::AccessShare)?;
    let by_oid = (Oid::from(pg_sys::TriggerOidIndexId), pg_sys::Anum_pg_trigger_oid as i16);
    let snapshot = Snapshot::latest();
    catalogue.first(by_oid, trigger, &snapshot, |row| row.value(2).map(Value::to_oid))?
}

/// Returns the table of an index; None for other relations.
pub fn table_of_index(index: Oid) -> Option<Oid> {
    // SAFETY: a lookup.
    let table = unsafe { pg_sys::IndexGetRelation(index, true) };
    (table != Oid::INVALID).then_some(table)
}

/// Returns the owner of a relation after all completed commands; the command in progress can still change it.
pub fn owner_of(relation: Oid) -> Option<Oid> {
    let catalogue = Relation::open(pg_sys::RelationRelationId, LockMode::AccessShare)?;
    let by_oid = (Oid::from(pg_sys::ClassOidIndexId), pg_sys::Anum_pg_class_oid as i16);
    owner_in(&catalogue, by_oid, relation, pg_sys::Anum_pg_class_relowner)
}

/// Returns the owner of a database; None for a dropped one.
pub fn owner_of_database(database: Oid) -> Option<Oid> {
    let catalogue = Relation::open_shared(pg_sys::DatabaseRelationId);
    let by_oid = (Oid::from(pg_sys::DatabaseOidIndexId), pg_sys::Anum_pg_database_oid as i16);
    owner_in(&catalogue, by_oid, database, pg_sys::Anum_pg_database_datdba)
}

fn owner_in(catalogue: &Relation, by_oid: (Oid, i16), object: Oid, owner: u32) -> Option<Oid> {
    let snapshot = Snapshot::latest();
    catalogue.first(by_oid, object, &snapshot, |row| row.value(owner as i16).map(Value::to_oid))?
}

/// Returns the name of a role, or its number if it no longer exists. Needs no snapshot of the caller's.
pub fn role_name(role: Oid) -> String {
    let catalogue = Relation::open_shared(pg_sys::AuthIdRelationId);
    let by_oid = (Oid::from(pg_sys::AuthIdOidIndexId), pg_sys::Anum_pg_authid_oid as i16);
    let (name, snapshot) = (pg_sys::Anum_pg_authid_rolname as i16, Snapshot::latest());
    let found = catalogue.first(by_oid, role, &snapshot, |row| row.value(name).map(Value::shown));
    found.flatten().unwrap_or_else(|| format!("unknown (OID={})", u32::from(role)))
}

/// The connection limit of a database that an interrupted DROP DATABASE left behind.
const INVALID: i64 = -2;

/// Returns the databases that allow connections, templates included.
pub fn connectable_databases() -> Vec<u32> {
    let table = Relation::open_shared(pg_sys::DatabaseRelationId);
    let mut found = Vec::new();
    table.scan(&Snapshot::latest(), |row| {
        let flag = |number: u32| row.value(number as i16).is_some_and(Value::to_bool);
        let limit = row.value(pg_sys::Anum_pg_database_datconnlimit as i16).map(Value::to_integer);
        if flag(pg_sys::Anum_pg_database_datallowconn) && limit != Some(INVALID) {
            found.extend(row.value(1).map(|oid| u32::from(oid.to_oid())));
        }
        true
    });
    found
}

/// Returns whether a function is written in C.
pub fn is_in_c(function: Oid) -> bool {
    of_function(function, |form| form.prolang) == Some(LANGUAGE_C)
}

pub fn owner_of_function(function: Oid) -> Option<Oid> {
    of_function(function, |form| form.proowner)
}

fn of_function(function: Oid, see: fn(&pg_sys::FormData_pg_proc) -> Oid) -> Option<Oid> {
    let cache = pg_sys::SysCacheIdentifier::PROCOID as i32;
    // SAFETY: a lookup; the row is released once it has been read.
    unsafe {
        let row = pg_sys::SearchSysCache1(cache, Datum::from(function));
        if row.is_null() {
            return None;
        }
        let seen = see(&*pg_sys::GETSTRUCT(row).cast::<pg_sys::FormData_pg_proc>());
        pg_sys::ReleaseSysCache(row);
        Some(seen)
    }
}

/// Returns whether row security applies to a role, which can be the table's owner if row security is forced.
pub fn hides_rows(table: Oid, role: Oid) -> bool {
    // SAFETY: a lookup.
    let security = unsafe { pg_sys::check_enable_rls(table, role, true) };
    security == pg_sys::CheckEnableRlsResult::RLS_ENABLED as i32
}
