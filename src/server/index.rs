//! The indexes of a table.

use crate::server::foreign::{attribute, list_nth};
use crate::server::relation::{Lock, Relation, name_text};
use crate::server::types;
use crate::server::value::Value;
use pgrx::pg_sys::{self, Datum, Oid};
use std::ffi::CString;

/// A valid btree index in the default order of its columns.
pub struct Index {
    pub oid: Oid,
    pub name: String,
    /// Numbers of the columns, 0 for an expression.
    pub columns: Vec<i16>,
    /// The expressions, as the server shows them.
    pub expressions: String,
    /// What rows it holds, as the server shows it, if not all.
    pub predicate: Option<String>,
    pub is_unique: bool,
    /// Rows older than the index may be missing for snapshots that still see them.
    pub lacks_old_rows: bool,
}

/// The valid btree indexes of a table that have the default order. Asks no privileges.
pub fn of(relation: &Relation) -> Vec<Index> {
    let describe = |oid| {
        // SAFETY: an index of an open table; the lock stays until the end of the transaction.
        unsafe {
            let index = pg_sys::index_open(oid, Lock::AccessShare.mode());
            let described = describe(index, relation);
            pg_sys::index_close(index, pg_sys::NoLock as pg_sys::LOCKMODE);
            described
        }
    };
    relation.indexes().into_iter().filter_map(describe).collect()
}

/// # Safety
/// `index` is an open index of the table.
unsafe fn describe(index: pg_sys::Relation, table: &Relation) -> Option<Index> {
    // SAFETY: by the contract of this function; the arrays have an entry for each key column, that of
    // the numbers one for each column.
    unsafe {
        let (form, relation) = (&*(*index).rd_index, &*(*index).rd_rel);
        let columns =
            std::slice::from_raw_parts(form.indkey.values.as_ptr(), form.indnatts as usize);
        let keys = 0..form.indnkeyatts as usize;
        let is_in_default_order = |key: usize| {
            let is_ascending = *(*index).rd_indoption.add(key) == 0;
            is_ascending
                && (columns[key] <= 0 || has_default_order(index, key, columns[key], table))
        };
        let is_btree = relation.relam == pg_sys::BTREE_AM_OID;
        if !form.indisvalid || !is_btree || !keys.clone().all(is_in_default_order) {
            return None;
        }
        Some(Index {
            oid: (*index).rd_id,
            name: name_text(&relation.relname),
            columns: columns.to_vec(),
            expressions: shown(index, pg_sys::Anum_pg_index_indexprs).unwrap_or_default(),
            predicate: shown(index, pg_sys::Anum_pg_index_indpred),
            is_unique: form.indisunique,
            lacks_old_rows: form.indcheckxmin,
        })
    }
}

/// Returns whether an index orders a column as the column's type and collation say.
///
/// # Safety
/// `index` is an open btree index of the table with so many key columns.
unsafe fn has_default_order(
    index: pg_sys::Relation,
    key: usize,
    column: i16,
    table: &Relation,
) -> bool {
    // SAFETY: by the contract of this function; look-ups.
    unsafe {
        let attribute = attribute(table.description(), column as usize - 1);
        let what = pg_sys::TYPECACHE_BTREE_OPFAMILY as i32;
        let family = (*pg_sys::lookup_type_cache(attribute.atttypid, what)).btree_opf;
        family != Oid::INVALID
            && family == *(*index).rd_opfamily.add(key)
            && *(*index).rd_indcollation.add(key) == attribute.attcollation
    }
}

/// What the catalogue says of an index.
pub(super) struct Stored {
    /// The expressions and the predicate.
    pub(super) expressions: Vec<*mut pg_sys::Node>,
    /// The operator classes, and with them the access method, are the server's own, and there are no operators for
    /// exclusion, which are named one by one.
    pub(super) is_of_the_server: bool,
}

/// An index as it is stored. It is not opened, as its owner may have locked it; a lock on its table keeps it from being
/// dropped.
pub(super) fn stored(index: Oid) -> Option<Stored> {
    let cache = pg_sys::SysCacheIdentifier::INDEXRELID as i32;
    // SAFETY: a look-up; the row is released once the texts, which are those of expressions, have been copied, and the
    // operator classes, of which there are as many as the vector says, have been looked at.
    unsafe {
        let row = pg_sys::SearchSysCache1(cache, Datum::from(index));
        if row.is_null() {
            return None;
        }
        let read = |number: u32| {
            let mut is_null = false;
            let tree = pg_sys::SysCacheGetAttr(cache, row, number as i16, &mut is_null);
            let node = |text| pg_sys::stringToNode(pg_sys::text_to_cstring(text)).cast();
            (!is_null).then(|| node(tree.cast_mut_ptr()))
        };
        let stored = [pg_sys::Anum_pg_index_indexprs, pg_sys::Anum_pg_index_indpred];
        let expressions = stored.into_iter().filter_map(read).collect();
        let (number, mut is_null) = (pg_sys::Anum_pg_index_indclass as i16, false);
        let classes = pg_sys::SysCacheGetAttr(cache, row, number, &mut is_null);
        let classes = &*classes.cast_mut_ptr::<pg_sys::oidvector>();
        let classes = classes.values.as_slice(classes.dim1.max(0) as usize);
        let excludes = (*pg_sys::GETSTRUCT(row).cast::<pg_sys::FormData_pg_index>()).indisexclusion;
        let is_own = |class: &Oid| u32::from(*class) < pg_sys::FirstNormalObjectId;
        let is_of_the_server = !excludes && classes.iter().all(is_own);
        pg_sys::ReleaseSysCache(row);
        Some(Stored { expressions, is_of_the_server })
    }
}

/// An expression of an index's definition, as the server shows it.
///
/// # Safety
/// `index` is an open index, `number` that of a column of pg_index that holds an expression.
unsafe fn shown(index: pg_sys::Relation, number: u32) -> Option<String> {
    let mut is_null = false;
    // SAFETY: by the contract of this function; the server's function for such an expression.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::INDEXRELID as i32;
        let tuple = (*index).rd_indextuple;
        let tree = pg_sys::SysCacheGetAttr(cache, tuple, number as i16, &mut is_null);
        if is_null { None } else { shown_tree(tree, (*(*index).rd_index).indrelid) }
    }
}

/// Returns a condition or an expression over a table's columns, given as SQL, as the server would show it in the definition
/// of an index: parsed, resolved and deparsed by the server itself.
pub fn shown_expression(relation: &Relation, sql: &str) -> String {
    let sql = CString::new(format!("SELECT {sql}")).unwrap_or_default();
    // SAFETY: the parser gives a list of one SELECT with one target; the table is open, and the state lives until it is
    // freed.
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
            Lock::AccessShare.mode(),
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

/// Returns a stored expression over a table's columns as the server shows it.
///
/// # Safety
/// `tree` is the text of a node tree.
unsafe fn shown_tree(tree: Datum, table: Oid) -> Option<String> {
    let arguments = [Some(tree), Some(Datum::from(table))];
    // SAFETY: by the contract of this function; the server's function for such an expression.
    let text = unsafe { pgrx::direct_function_call_as_datum(pg_sys::pg_get_expr, &arguments) }?;
    // SAFETY: it gives a text.
    Some(unsafe { Value::new(text, types::TEXT) }.to_text())
}
