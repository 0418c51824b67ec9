//! Which of a table's indexes is the one that a queue needs for something.

use crate::model::definition::Made;

use crate::model::field::Field;
use crate::server::relation::ColumnType;
use crate::server::{index, types};
use crate::statement::{Index, Table};
use std::collections::BTreeMap;

/// An index that a queue needs.
pub struct WantedIndex {
    is_unique: bool,
    /// An expression stands as 0 among the numbers of the columns.
    columns: Vec<i16>,
    expressions: String,
    predicates: Vec<String>,
    /// The name of the one that we have made ourselves.
    ours: Option<String>,
}

impl WantedIndex {
    pub fn new(
        sql: &Table,
        index: Index,
        fields: &BTreeMap<Field, ColumnType>,
        key: &[ColumnType],
        made: &Made,
    ) -> WantedIndex {
        let status = fields.get(&Field::Status).map_or(types::CHAR, |status| status.oid);
        let (lane, expressions) = match index.is_by_lane() {
            true => (Some(0), sql.deparsed_lane()),
            false => (None, String::new()),
        };
        let begins = sql.index_fields(index).into_iter();
        let begins = begins.filter_map(|field| fields.get(&field)).map(|column| column.number);
        let ends = key.iter().take(sql.index_key(index).len()).map(|column| column.number);
        WantedIndex {
            is_unique: index.is_unique(),
            columns: lane.into_iter().chain(begins).chain(ends).collect(),
            expressions,
            predicates: sql.deparsed_predicates(index, &types::short_type_name(status)),
            ours: made.indexes.get(index.suffix()).cloned(),
        }
    }

    /// Whether an index is what is wanted. What we have made ourselves need not be recognised by its
    /// text.
    pub fn is_served_by(&self, known: &index::Index) -> bool {
        let is_ours = self.ours.as_ref() == Some(&known.name) && known.predicate.is_some();
        self.has_shape(known) && (is_ours || self.is_told_by(known))
    }

    /// The same, as far as the index itself says so: somebody may have put another one in its place.
    pub fn is_surely_served_by(&self, known: &index::Index) -> bool {
        self.has_shape(known) && self.is_told_by(known)
    }

    fn has_shape(&self, known: &index::Index) -> bool {
        known.columns == self.columns && (known.is_unique || !self.is_unique)
    }

    fn is_told_by(&self, known: &index::Index) -> bool {
        let predicate = known.predicate.as_ref();
        predicate.is_some_and(|predicate| self.predicates.contains(predicate))
            && known.expressions == self.expressions
    }
}
