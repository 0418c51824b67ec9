//! What the server's catalogues say: names and their quoting, types, operators.

use crate::error::{Error, Result};
use crate::server::foreign::list_nth;
use crate::server::relation::{Lock, Relation};
use crate::server::row::Row;
use crate::server::types;
use crate::server::value::Value;
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::{self, Datum, Oid};
use std::ffi::{CStr, CString};

/// The language C, whose oid is the same in every database.
const LANGUAGE_C: Oid = Oid::from_u32(13);

/// A name quoted by the server's own rules.
pub fn quote(name: &str) -> String {
    let name = CString::new(name).unwrap_or_default();
    // SAFETY: gives back its argument or a palloc'ed copy; copied here.
    unsafe { CStr::from_ptr(pg_sys::quote_identifier(name.as_ptr())) }
        .to_string_lossy()
        .into_owned()
}

/// A string literal quoted by the server's own rules.
pub fn quote_literal(text: &str) -> String {
    let text = CString::new(text).unwrap_or_default();
    // SAFETY: gives back a palloc'ed string; copied here.
    unsafe { CStr::from_ptr(pg_sys::quote_literal_cstr(text.as_ptr())) }
        .to_string_lossy()
        .into_owned()
}

pub fn schema_name(schema: Oid) -> String {
    // SAFETY: a look-up; a palloc'ed string or null.
    unsafe { owned(pg_sys::get_namespace_name(schema)) }.unwrap_or_default()
}

pub fn database_name(database: Oid) -> String {
    // SAFETY: a look-up; a palloc'ed string or null.
    unsafe { owned(pg_sys::get_database_name(database)) }.unwrap_or_default()
}

/// A table by schema and name, unquoted.
pub fn table_name(table: Oid) -> Option<(String, String)> {
    // SAFETY: look-ups; palloc'ed strings or null.
    unsafe {
        let name = owned(pg_sys::get_rel_name(table))?;
        Some((schema_name(pg_sys::get_rel_namespace(table)), name))
    }
}

/// A type's name with its schema, as SQL reads it.
pub fn type_name(oid: Oid) -> String {
    // What is called "character" has one character.
    if oid == pg_sys::BPCHAROID {
        return "pg_catalog.bpchar".into();
    }
    // SAFETY: a palloc'ed string.
    unsafe { owned(pg_sys::format_type_be_qualified(oid)) }.unwrap_or_default()
}

/// A type's name as the server shows it in the current search path.
pub fn short_type_name(oid: Oid) -> String {
    // SAFETY: a palloc'ed string.
    unsafe { owned(pg_sys::format_type_be(oid)) }.unwrap_or_default()
}

/// `OPERATOR(schema.name)`: equality in the default order of a type. None without such an order.
pub fn equality(oid: Oid) -> Option<String> {
    // SAFETY: look-ups in the system cache; the list holds two C strings.
    unsafe {
        let class = pg_sys::GetDefaultOpClass(oid, pg_sys::BTREE_AM_OID);
        if class == Oid::INVALID {
            return None;
        }
        let family = pg_sys::get_opclass_family(class);
        let input = pg_sys::get_opclass_input_type(class);
        let operator =
            pg_sys::get_opfamily_member(family, input, input, pg_sys::BTEqualStrategyNumber as i16);
        if operator == Oid::INVALID {
            return None;
        }
        let (mut names, mut arguments) = (std::ptr::null_mut(), std::ptr::null_mut());
        pg_sys::format_operator_parts(operator, &mut names, &mut arguments, false);
        let schema = CStr::from_ptr(list_nth(names, 0)).to_string_lossy();
        let name = CStr::from_ptr(list_nth(names, 1)).to_string_lossy();
        Some(format!("OPERATOR({}.{name})", quote(&schema)))
    }
}

/// The element type of an array type, None if it is none.
pub fn element_type(oid: Oid) -> Option<Oid> {
    // SAFETY: a look-up.
    let element = unsafe { pg_sys::get_element_type(oid) };
    (element != Oid::INVALID).then_some(element)
}

pub fn array_type(element: Oid) -> Oid {
    // SAFETY: a look-up.
    unsafe { pg_sys::get_array_type(element) }
}

pub fn base_type(oid: Oid) -> Oid {
    // SAFETY: a look-up.
    unsafe { pg_sys::getBaseType(oid) }
}

/// The modifier of a type, or, for a domain, that of the type it is based on.
pub fn base_modifier(oid: Oid, modifier: i32) -> i32 {
    let mut modifier = modifier;
    // SAFETY: a look-up; the modifier is read and written.
    unsafe { pg_sys::getBaseTypeAndTypmod(oid, &mut modifier) };
    modifier
}

/// Whether a type is one of rows.
pub fn is_composite(oid: Oid) -> bool {
    // SAFETY: a look-up.
    unsafe { pg_sys::get_typtype(oid) as u8 == pg_sys::TYPTYPE_COMPOSITE }
}

/// Whether a type, or the one below a domain, is PostgreSQL's own.
pub fn is_of_the_server(oid: Oid) -> bool {
    u32::from(base_type(oid)) < pg_sys::FirstNormalObjectId
}

pub fn is_enum(oid: Oid) -> bool {
    // SAFETY: a look-up.
    unsafe { pg_sys::type_is_enum(oid) }
}

/// The value of an enum by its label.
pub fn enum_value(oid: Oid, label: &str) -> Option<Oid> {
    let label = CString::new(label).ok()?;
    // SAFETY: a look-up by type and label.
    let value = unsafe {
        pg_sys::GetSysCacheOid(
            pg_sys::SysCacheIdentifier::ENUMTYPOIDNAME as _,
            1,
            Datum::from(oid),
            Datum::from(label.as_ptr()),
            Datum::from(0),
            Datum::from(0),
        )
    };
    (value != Oid::INVALID).then_some(value)
}

/// The kind of an ordinary table, as `relation_kind` says it.
pub const TABLE: u8 = pg_sys::RELKIND_RELATION;

/// The kind of a relation, as in `pg_class`; None if there is no such relation.
pub fn relation_kind(relation: Oid) -> Option<u8> {
    // SAFETY: a look-up.
    let kind = unsafe { pg_sys::get_rel_relkind(relation) } as u8;
    (kind != 0).then_some(kind)
}

/// A name for a new index of a table that no other relation has.
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

/// The relation of this name in our schema, if the extension is there.
pub fn own_relation(name: &CStr) -> Option<Oid> {
    // SAFETY: look-ups with C strings that outlive them.
    unsafe {
        let schema = pg_sys::get_namespace_oid(c"xqueue".as_ptr(), true);
        if schema == Oid::INVALID {
            return None;
        }
        let relation = pg_sys::get_relname_relid(name.as_ptr(), schema);
        (relation != Oid::INVALID).then_some(relation)
    }
}

/// The function without arguments of this name in our schema, if the extension is there.
pub fn own_function(name: &CStr) -> Option<Oid> {
    // SAFETY: look-ups with a C string and a vector that outlive them.
    unsafe {
        let schema = pg_sys::get_namespace_oid(c"xqueue".as_ptr(), true);
        let no_arguments = pg_sys::buildoidvector(std::ptr::null(), 0);
        let function = pg_sys::GetSysCacheOid(
            pg_sys::SysCacheIdentifier::PROCNAMEARGSNSP as _,
            pg_sys::Anum_pg_proc_oid as i16,
            Datum::from(name.as_ptr()),
            Datum::from(no_arguments),
            Datum::from(schema),
            Datum::from(0),
        );
        pg_sys::pfree(no_arguments.cast());
        (function != Oid::INVALID).then_some(function)
    }
}

/// Whether the extension is installed in this database.
pub fn is_installed() -> bool {
    // SAFETY: a look-up.
    unsafe { pg_sys::get_extension_oid(c"xqueue".as_ptr(), true) != Oid::INVALID }
}

pub fn find_database(name: &str) -> Option<Oid> {
    let name = CString::new(name).ok()?;
    // SAFETY: a look-up with a C string that outlives it.
    let database = unsafe { pg_sys::get_database_oid(name.as_ptr(), true) };
    (database != Oid::INVALID).then_some(database)
}

/// Whether all who may create databases may copy a database.
pub fn is_template(database: Oid) -> bool {
    let cache = pg_sys::SysCacheIdentifier::DATABASEOID as i32;
    // SAFETY: a look-up; the row is released once it has been read.
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

/// The table of a trigger.
pub fn table_of_trigger(trigger: Oid) -> Option<Oid> {
    let catalogue = Relation::open(pg_sys::TriggerRelationId, Lock::AccessShare)?;
    let by_oid = (Oid::from(pg_sys::TriggerOidIndexId), pg_sys::Anum_pg_trigger_oid as i16);
    let snapshot = crate::server::relation::Snapshot::latest();
    catalogue.first(by_oid, trigger, &snapshot, |row| row.value(2).map(Value::to_oid))?
}

/// The owner of a relation, as what has been done so far has left it; the command in progress may change that.
pub fn owner_of(relation: Oid) -> Option<Oid> {
    let catalogue = Relation::open(pg_sys::RelationRelationId, Lock::AccessShare)?;
    let by_oid = (Oid::from(pg_sys::ClassOidIndexId), pg_sys::Anum_pg_class_oid as i16);
    let owner = pg_sys::Anum_pg_class_relowner as i16;
    let snapshot = crate::server::relation::Snapshot::latest();
    catalogue.first(by_oid, relation, &snapshot, |row| row.value(owner).map(Value::to_oid))?
}

/// The name of a role, or its number if it is gone. Needs no snapshot of the caller's.
pub fn role_name(role: Oid) -> String {
    let catalogue = Relation::open_shared(pg_sys::AuthIdRelationId);
    let by_oid = (Oid::from(pg_sys::AuthIdOidIndexId), pg_sys::Anum_pg_authid_oid as i16);
    let (name, snapshot) =
        (pg_sys::Anum_pg_authid_rolname as i16, crate::server::relation::Snapshot::latest());
    let found = catalogue.first(by_oid, role, &snapshot, |row| row.value(name).map(Value::shown));
    found.flatten().unwrap_or_else(|| format!("unknown (OID={})", u32::from(role)))
}

/// The databases that can be connected to and are no templates.
pub fn connectable_databases() -> Vec<u32> {
    let table = Relation::open_shared(pg_sys::DatabaseRelationId);
    let mut found = Vec::new();
    table.scan(&crate::server::relation::Snapshot::latest(), |row| {
        let flag = |number: u32| row.value(number as i16).is_some_and(Value::to_bool);
        if flag(pg_sys::Anum_pg_database_datallowconn)
            && !flag(pg_sys::Anum_pg_database_datistemplate)
        {
            found.extend(row.value(1).map(|oid| u32::from(oid.to_oid())));
        }
        true
    });
    found
}

/// Reads a value of a type from its text; errors are those of the type's input function.
pub fn parse_value<'to>(text: &str, oid: Oid) -> Result<Value<'to>> {
    parse_value_for(text, oid, -1)
}

/// The same, with a type's modifier such as the length of char(n).
pub fn parse_value_for<'to>(text: &str, oid: Oid, modifier: i32) -> Result<Value<'to>> {
    let text = CString::new(text).map_err(|_| {
        Error::new(
            PgSqlErrorCode::ERRCODE_UNTRANSLATABLE_CHARACTER,
            "a value holds a NUL character",
        )
        .hint("Give a value without NUL characters.")
    })?;
    // SAFETY: the input function of the type reads a C string and gives a value of the type.
    unsafe {
        let (mut function, mut parameter) = (Oid::INVALID, Oid::INVALID);
        pg_sys::getTypeInputInfo(oid, &mut function, &mut parameter);
        let text = text.as_ptr().cast_mut();
        let value = pg_sys::OidInputFunctionCall(function, text, parameter, modifier);
        Ok(Value::new(value, oid))
    }
}

/// A value as the output function of its type shows it.
pub fn value_text(value: Value) -> String {
    // SAFETY: the output function of the type gives a palloc'ed C string.
    unsafe {
        let (mut function, mut is_varlena) = (Oid::INVALID, false);
        pg_sys::getTypeOutputInfo(value.type_oid(), &mut function, &mut is_varlena);
        owned(pg_sys::OidOutputFunctionCall(function, value.datum())).unwrap_or_default()
    }
}

/// A number that is the same for values that are equal in the order of their type. None for types
/// that cannot be hashed.
pub fn hash(value: Value, collation: Oid, seed: u64) -> Option<u64> {
    // SAFETY: the cache entry lives as long as the process, its function takes a value of the type
    // and a seed.
    unsafe {
        let entry = pg_sys::lookup_type_cache(
            base_type(value.type_oid()),
            pg_sys::TYPECACHE_HASH_EXTENDED_PROC_FINFO as i32,
        );
        let function = &raw mut (*entry).hash_extended_proc_finfo;
        if (*function).fn_oid == Oid::INVALID {
            return None;
        }
        let hash = pg_sys::FunctionCall2Coll(function, collation, value.datum(), Datum::from(seed));
        Some(hash.value() as u64)
    }
}

/// Whether strings may be equal in a collation that are not the same.
pub fn tells_by_rules(collation: Oid) -> bool {
    // SAFETY: a look-up.
    collation != Oid::INVALID && unsafe { !pg_sys::get_collation_isdeterministic(collation) }
}

/// Whether two strings are equal as values of type text, varchar or char(n) with a collation.
pub fn equal_texts(first: &str, second: &str, oid: Oid, collation: Oid) -> bool {
    equals_text(Value::text(first), second, oid, collation)
}

/// The same of a value of such a type and a string. Other types have no such values.
pub fn equals_text(value: Value, text: &str, oid: Oid, collation: Oid) -> bool {
    if !types::TEXTS.contains(&oid) {
        return false;
    }
    let (value, text) = (value.require_text(), Value::text(text).datum());
    // SAFETY: the cache entry lives as long as the process; these types have an equality of the server's, and
    // are stored alike.
    unsafe {
        let kind = pg_sys::TYPECACHE_EQ_OPR_FINFO as i32;
        let entry = pg_sys::lookup_type_cache(oid, kind);
        let function = &raw mut (*entry).eq_opr_finfo;
        pg_sys::FunctionCall2Coll(function, collation, value, text).value() != 0
    }
}

/// The collation of a type's columns unless they say otherwise.
pub fn type_collation(oid: Oid) -> Oid {
    // SAFETY: a look-up.
    unsafe { pg_sys::get_typcollation(oid) }
}

/// Whether two values of a type are equal in its default order. False for types that have none.
pub fn equal(one: Value, other: Value, collation: Oid) -> bool {
    let oid = base_type(one.type_oid());
    let kind = pg_sys::TYPECACHE_EQ_OPR_FINFO;
    let other = other.require(oid);
    // SAFETY: the cache entry lives as long as the process, its function takes two values of the type.
    unsafe {
        let entry = pg_sys::lookup_type_cache(oid, kind as i32);
        let function = &raw mut (*entry).eq_opr_finfo;
        (*function).fn_oid != Oid::INVALID
            && pg_sys::FunctionCall2Coll(function, collation, one.datum(), other).value() != 0
    }
}

/// Whether values of a type can be hashed.
pub fn is_hashable(oid: Oid) -> bool {
    let kind = pg_sys::TYPECACHE_HASH_EXTENDED_PROC;
    // SAFETY: the cache entry lives as long as the process.
    unsafe {
        (*pg_sys::lookup_type_cache(base_type(oid), kind as i32)).hash_extended_proc != Oid::INVALID
    }
}

/// Whether a type is a domain, or a composite type, whose columns may be of domains.
pub fn has_parts_or_checks(oid: Oid) -> bool {
    // SAFETY: a look-up.
    let kind = unsafe { pg_sys::get_typtype(oid) } as u8;
    [pg_sys::TYPTYPE_COMPOSITE, pg_sys::TYPTYPE_DOMAIN].contains(&kind)
}

/// Whether a type is none of the server's own, nor an enum: what orders, splits or subtracts its values may be a
/// function of the user's.
pub fn is_made_by_users(oid: Oid) -> bool {
    u32::from(oid) >= pg_sys::FirstNormalObjectId && !is_enum(oid)
}

/// Whether a function is written in C.
pub fn is_in_c(function: Oid) -> bool {
    let cache = pg_sys::SysCacheIdentifier::PROCOID as i32;
    // SAFETY: a look-up; the row is released once it has been read.
    unsafe {
        let row = pg_sys::SearchSysCache1(cache, Datum::from(function));
        if row.is_null() {
            return false;
        }
        let language = (*pg_sys::GETSTRUCT(row).cast::<pg_sys::FormData_pg_proc>()).prolang;
        pg_sys::ReleaseSysCache(row);
        language == LANGUAGE_C
    }
}

/// Whether row security applies to a role, as it does to a table's owner if it is forced.
pub fn hides_rows(table: Oid, role: Oid) -> bool {
    // SAFETY: a look-up.
    let security = unsafe { pg_sys::check_enable_rls(table, role, true) };
    security == pg_sys::CheckEnableRlsResult::RLS_ENABLED as i32
}

/// The elements of an array; None for an element that is NULL. An error for what is no array.
pub fn array_elements<'to>(array: Value) -> Vec<Option<Value<'to>>> {
    let element = array.require_array();
    // SAFETY: the value is an array of this element type; the server's function fills in the palloc'ed
    // arrays and their length.
    unsafe {
        let (mut length, mut by_value, mut alignment) = (0i16, false, 0);
        pg_sys::get_typlenbyvalalign(element, &mut length, &mut by_value, &mut alignment);
        let (mut values, mut nulls, mut count) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
        pg_sys::deconstruct_array(
            pg_sys::pg_detoast_datum(array.datum().cast_mut_ptr()).cast(),
            element,
            i32::from(length),
            by_value,
            alignment,
            &mut values,
            &mut nulls,
            &mut count,
        );
        let value = |index| Value::new(*values.add(index), element);
        (0..count as usize).map(|index| (!*nulls.add(index)).then(|| value(index))).collect()
    }
}

/// # Safety
/// `text` is null or a palloc'ed C string.
unsafe fn owned(text: *mut std::ffi::c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: by the contract of this function.
    unsafe {
        let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
        pg_sys::pfree(text.cast());
        Some(copy)
    }
}
