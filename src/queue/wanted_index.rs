//! Recognizes which of a table's indexes serves a queue's purpose: by its columns, and by the server's text of its
//! expression and predicate.

use crate::server::index;
use crate::server::relation::{ColumnType, Relation};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use xqueue_core::field::Field;
use xqueue_core::statement::{Index, Table};

/// An index that a queue needs.
pub struct WantedIndex<'a> {
    relation: &'a Relation,
    /// The table has all columns of the index; a column that `upgrade` is about to add has no number yet.
    has_columns: bool,
    /// Column numbers; 0 stands for an expression.
    columns: Vec<i16>,
    expression: Option<String>,
    predicate: String,
    /// Expression and predicate as deparsed by the server, after the first comparison.
    shown: OnceCell<(String, String)>,
}

impl<'a> WantedIndex<'a> {
    pub fn new(
        relation: &'a Relation,
        sql: &Table,
        index: Index,
        fields: &BTreeMap<Field, ColumnType>,
        order: &[ColumnType],
    ) -> WantedIndex<'a> {
        let expression = sql.index_expression(index);
        let tube = expression.iter().map(|_| Field::Tube);
        let mut about = [Field::Status].into_iter().chain(tube).chain(sql.index_fields(index));
        let begins = sql.index_fields(index).into_iter();
        let begins = begins.filter_map(|field| fields.get(&field)).map(|column| column.number);
        let ends = order.iter().take(sql.index_order(index).len()).map(|column| column.number);
        WantedIndex {
            relation,
            has_columns: about
                .all(|field| fields.get(&field).is_some_and(|column| column.number > 0)),
            columns: expression.iter().map(|_| 0).chain(begins).chain(ends).collect(),
            expression,
            predicate: sql.index_predicate(index),
            shown: OnceCell::new(),
        }
    }

    /// Returns whether an index serves the purpose. Its name and its creator do not matter.
    pub fn is_served_by(&self, known: &index::Index) -> bool {
        self.has_columns
            && known.columns == self.columns
            && !known.is_unique
            && !known.includes_columns
            && self.is_told_by(known)
    }

    fn is_told_by(&self, known: &index::Index) -> bool {
        let (expression, predicate) = self.shown.get_or_init(|| {
            let shown = |sql: &String| index::shown_expression(self.relation, sql);
            (self.expression.as_ref().map(shown).unwrap_or_default(), shown(&self.predicate))
        });
        known.predicate.as_ref() == Some(predicate) && known.expressions == *expression
    }
}
