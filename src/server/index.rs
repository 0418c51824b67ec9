//! The indexes of a table.

use crate::server::foreign::list_nth;
use crate::server::relation::{LockMode, Relation};
use crate::server::types;
use crate::server::value::Value;
use pgrx::pg_sys::{self, Datum, Oid};
use std::ffi::CString;

/// Maximum number of bytes of a stored expression; longer ones are not read.
pub(super) const STORED: usize = 16 << 10;

/// A valid btree index in the default order of its columns.
pub struct Index {
    pub oid: Oid,
    /// Numbers of the columns without those of INCLUDE, 0 for an expression.
    pub columns: Vec<i16>,
    /// The expressions, deparsed by the server.
    pub expressions: String,
    /// The predicate, deparsed by the server; None if the index contains all rows.
    pub predicate: Option<String>,
    pub is_unique: bool,
    /// The index has INCLUDE columns.
    pub includes_columns: bool,
    /// The index can lack older rows that some snapshots still see.
    pub lacks_old_rows: bool,
}

/// Returns the valid btree indexes of a table that have the default order. Checks no privileges and opens no index.
pub fn of(relation: &Relation) -> Vec<Index> {
    let describe = |oid| Entry::of(oid)?.describe(relation);
    relation.indexes().into_iter().filter_map(describe).collect()
}

/// Returns the columns of each index of the table that refuses two equal rows immediately. Opens and locks no index.
pub fn keys(relation: &Relation) -> Vec<Vec<i16>> {
    let columns = |oid| Entry::of(oid)?.key();
    relation.indexes().into_iter().filter_map(columns).collect()
}

/// As `keys`, but without indexes that compare columns by another operator class or collation than the columns' own.
/// Values that differ there can be equal for the column.
pub fn plain_keys(relation: &Relation) -> Vec<Vec<i16>> {
    let columns = |oid| {
        let entry = Entry::of(oid)?;
        let key = entry.key()?;
        entry.has_default_order(relation, &entry.key_columns()).then_some(key)
    };
    relation.indexes().into_iter().filter_map(columns).collect()
}

/// The key columns of an index, and how it orders each of them.
struct KeyColumns {
    columns: Vec<i16>,
    flags: Vec<i16>,
    classes: Vec<Oid>,
    collations: Vec<Oid>,
}

/// An index's catalog row, released on drop. The index is not opened, because its owner can have locked it; a lock on
/// the table keeps it from being dropped.
struct Entry(pg_sys::HeapTuple);

impl Entry {
    const CACHE: i32 = pg_sys::SysCacheIdentifier::INDEXRELID as i32;

    fn of(index: Oid) -> Option<Entry> {
        // SAFETY: a lookup.
        let row = unsafe { pg_sys::SearchSysCache1(Entry::CACHE, Datum::from(index)) };
        (!row.is_null()).then(|| Entry(row))
    }

    fn form(&self) -> &pg_sys::FormData_pg_index {
        // SAFETY: a row of pg_index.
        unsafe { &*pg_sys::GETSTRUCT(self.0).cast() }
    }

    /// Returns a column of pg_index that can be NULL or has no fixed length.
    fn attribute(&self, number: u32) -> Option<Datum> {
        let mut is_null = false;
        // SAFETY: a row of pg_index, and a column of it.
        let datum =
            unsafe { pg_sys::SysCacheGetAttr(Entry::CACHE, self.0, number as i16, &mut is_null) };
        (!is_null).then_some(datum)
    }

    /// Returns a column of pg_index that is a vector.
    ///
    /// # Safety
    /// The elements of the column have type `T`.
    unsafe fn vector<T: Copy>(&self, number: u32) -> Vec<T> {
        let Some(datum) = self.attribute(number) else { return vec![] };
        // SAFETY: all vector types differ only in their elements; `dim1` is their number.
        unsafe {
            let vector = &*datum.cast_mut_ptr::<pg_sys::oidvector>();
            let values = vector.values.as_ptr().cast::<T>();
            std::slice::from_raw_parts(values, vector.dim1.max(0) as usize).to_vec()
        }
    }

    /// Returns the expression in a column of pg_index, deparsed by the server.
    fn shown(&self, number: u32) -> Option<String> {
        // SAFETY: the columns with expressions contain them as text.
        let tree = self.attribute(number)?;
        // SAFETY: as above. An expression longer than any that the extension makes does not match, and takes long to
        // deparse.
        let is_long = unsafe { pg_sys::toast_raw_datum_size(tree) } > STORED;
        let shown = || unsafe { shown_tree(tree, self.form().indrelid) };
        if is_long { Some(String::new()) } else { shown() }
    }

    /// Returns the columns of a btree that refuses two equal rows immediately; None for other indexes.
    fn key(&self) -> Option<Vec<i16>> {
        let form = self.form();
        let columns = self.key_columns().columns;
        let is_of_all = self.attribute(pg_sys::Anum_pg_index_indpred).is_none();
        // An expression has the number 0.
        let is_key = form.indisunique && form.indisvalid && form.indimmediate && is_of_all;
        let is_btree = || method(form.indexrelid) == Some(pg_sys::BTREE_AM_OID);
        (is_key && !columns.contains(&0) && is_btree()).then_some(columns)
    }

    /// Returns the key columns, without those of INCLUDE.
    fn key_columns(&self) -> KeyColumns {
        // SAFETY: vectors of these types; the first has an entry for each column, the others for each key column.
        let (mut columns, flags, classes, collations) = unsafe {
            (
                self.vector::<i16>(pg_sys::Anum_pg_index_indkey),
                self.vector::<i16>(pg_sys::Anum_pg_index_indoption),
                self.vector::<Oid>(pg_sys::Anum_pg_index_indclass),
                self.vector::<Oid>(pg_sys::Anum_pg_index_indcollation),
            )
        };
        columns.truncate(self.form().indnkeyatts as usize);
        KeyColumns { columns, flags, classes, collations }
    }

    /// Returns whether the index orders its columns by the default of their types and collations, up or down.
    fn has_default_order(&self, table: &Relation, key: &KeyColumns) -> bool {
        (0..key.columns.len()).all(|at| {
            // The stored type of an index column can differ from the table column's type.
            let ordered = match key.columns[at] {
                ..=0 => (self.form().indexrelid, at as i16 + 1),
                number => (table.oid(), number),
            };
            has_default_order(ordered, key.classes[at], key.collations[at])
        })
    }

    fn describe(&self, table: &Relation) -> Option<Index> {
        let (form, key) = (self.form(), self.key_columns());
        let is_btree = method(form.indexrelid) == Some(pg_sys::BTREE_AM_OID);
        let is_forward = key.flags.iter().all(|flags| *flags == 0);
        if !form.indisvalid || !is_btree || !is_forward || !self.has_default_order(table, &key) {
            return None;
        }
        Some(Index {
            oid: form.indexrelid,
            columns: key.columns,
            expressions: self.shown(pg_sys::Anum_pg_index_indexprs).unwrap_or_default(),
            predicate: self.shown(pg_sys::Anum_pg_index_indpred),
            is_unique: form.indisunique,
            includes_columns: form.indnkeyatts != form.indnatts,
            lacks_old_rows: form.indcheckxmin,
        })
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: looked up in `of`. After an error the resource owner releases it.
            unsafe { pg_sys::ReleaseSysCache(self.0) }
        }
    }
}

/// Returns the access method of an index.
fn method(index: Oid) -> Option<Oid> {
    let cache = pg_sys::SysCacheIdentifier::RELOID as i32;
    // SAFETY: a lookup; the row is released once it has been read.
    unsafe {
        let row = pg_sys::SearchSysCache1(cache, Datum::from(index));
        if row.is_null() {
            return None;
        }
        let method = (*pg_sys::GETSTRUCT(row).cast::<pg_sys::FormData_pg_class>()).relam;
        pg_sys::ReleaseSysCache(row);
        Some(method)
    }
}

/// Returns whether an index orders a column, or the value of an expression, by the default of its type and collation.
/// `ordered`: the relation that has the column, and the column's number.
fn has_default_order((relation, number): (Oid, i16), class: Oid, collation: Oid) -> bool {
    let (mut of_type, mut modifier, mut own_collation) = (Oid::INVALID, 0, Oid::INVALID);
    // SAFETY: lookups; the lock on the table keeps the index and the table.
    unsafe {
        pg_sys::get_atttypetypmodcoll(
            relation,
            number,
            &mut of_type,
            &mut modifier,
            &mut own_collation,
        );
        let what = pg_sys::TYPECACHE_BTREE_OPFAMILY as i32;
        let family = (*pg_sys::lookup_type_cache(of_type, what)).btree_opf;
        family != Oid::INVALID
            && family == pg_sys::get_opclass_family(class)
            && collation == own_collation
    }
}

/// An index's properties, read from the catalogs.
pub(super) struct Stored {
    /// The expressions and the predicate; None for an expression that is too long to be cheap.
    pub(super) expressions: Vec<Option<*mut pg_sys::Node>>,
    /// A btree or hash index with operator classes of the server. Its constraint, if it has one, is immediate and for
    /// equal values. The direct path can add rows to it, and a row enters it quickly.
    pub(super) is_simple: bool,
    /// Numbers of its key columns, 0 for an expression.
    pub(super) key: Vec<i16>,
    /// Numbers of all its columns, with INCLUDE columns.
    pub(super) columns: Vec<i16>,
    /// It compares a new row with others: it is unique, or enforces an exclusion constraint.
    pub(super) compares_rows: bool,
    /// It uses operator classes of users.
    pub(super) calls_users: bool,
}

/// Reads an index from the catalogs.
pub(super) fn stored(index: Oid) -> Option<Stored> {
    let entry = Entry::of(index)?;
    // SAFETY: the text of an expression.
    let node = |text: Datum| unsafe {
        let is_short = pg_sys::toast_raw_datum_size(text) <= STORED;
        let node = || pg_sys::stringToNode(pg_sys::text_to_cstring(text.cast_mut_ptr())).cast();
        is_short.then(node)
    };
    let stored = [pg_sys::Anum_pg_index_indexprs, pg_sys::Anum_pg_index_indpred];
    let expressions = stored.into_iter().filter_map(|number| entry.attribute(number)).map(node);
    // SAFETY: vectors of these types.
    let (classes, mut key) = unsafe {
        (
            entry.vector::<Oid>(pg_sys::Anum_pg_index_indclass),
            entry.vector::<i16>(pg_sys::Anum_pg_index_indkey),
        )
    };
    let calls_users = classes.iter().any(|class| u32::from(*class) >= pg_sys::FirstNormalObjectId);
    let (form, method) = (entry.form(), method(index)?);
    let is_simple = !form.indisexclusion
        && (form.indimmediate || !form.indisunique)
        && [pg_sys::BTREE_AM_OID, pg_sys::HASH_AM_OID].contains(&method)
        && !calls_users;
    let columns = key.clone();
    key.truncate(form.indnkeyatts as usize);
    let compares_rows = form.indisunique || form.indisexclusion;
    let expressions = expressions.collect();
    Some(Stored { expressions, is_simple, key, columns, compares_rows, calls_users })
}

/// Returns an SQL expression over a table's columns in the form that the server uses in index definitions: parsed,
/// resolved and deparsed by the server itself.
pub fn shown_expression(relation: &Relation, sql: &str) -> String {
    let sql = CString::new(format!("SELECT {sql}")).unwrap_or_default();
    // SAFETY: the parser returns a list of one SELECT with one target; the table is open, and the state lives until it
    // is freed.
    unsafe {
        let statements = pg_sys::raw_parser(sql.as_ptr(), pg_sys::RawParseMode::RAW_PARSE_DEFAULT);
        let select =
            (*list_nth::<pg_sys::RawStmt>(statements, 0)).stmt.cast::<pg_sys::SelectStmt>();
        let target = list_nth::<pg_sys::ResTarget>((*select).targetList, 0);
        let state = pg_sys::make_parsestate(std::ptr::null_mut());
        (*state).p_sourcetext = sql.as_ptr();
        let item = pg_sys::addRangeTableEntryForRelation(
            state,
            relation.pointer(),
            LockMode::AccessShare.mode(),
            std::ptr::null_mut(),
            false,
            true,
        );
        pg_sys::addNSItemToQuery(state, item, false, true, true);
        let kind = pg_sys::ParseExprKind::EXPR_KIND_INDEX_PREDICATE;
        let node = pg_sys::transformExpr(state, (*target).val, kind);
        pg_sys::assign_expr_collations(state, node);
        let tree = pg_sys::cstring_to_text(pg_sys::nodeToString(node.cast()));
        let shown = shown_tree(Datum::from(tree), relation.oid()).unwrap_or_default();
        pg_sys::free_parsestate(state);
        shown
    }
}

/// Returns a stored expression over a table's columns, deparsed by the server.
///
/// # Safety
/// `tree` is the text of a node tree.
unsafe fn shown_tree(tree: Datum, table: Oid) -> Option<String> {
    let arguments = [Some(tree), Some(Datum::from(table))];
    // SAFETY: by the contract of this function; the server's function for such an expression.
    let text = unsafe { pgrx::direct_function_call_as_datum(pg_sys::pg_get_expr, &arguments) }?;
    // SAFETY: the result is a text.
    Some(unsafe { Value::new(text, types::TEXT) }.to_text())
}
