//! The order of the list of queues: a fixed choice, so no part of a request becomes SQL.

/// Column names of the page, and the list's expression for each.
const COLUMNS: [(&str, &str); 9] = [
    ("queue", "name"),
    ("ready", "ready"),
    ("taken", "taken"),
    ("waiting", "waiting"),
    ("buried", "buried"),
    ("oldest", "oldest"),
    ("in", "in_1m"),
    ("out", "out_1m"),
    ("consumers", "consumers"),
];

/// Returns the ORDER BY of `queue`, `-ready` (greatest first), and so on. An unknown column sorts by name.
pub fn order_by(sort: &str) -> String {
    let (column, direction) = match sort.strip_prefix('-') {
        Some(column) => (column, "DESC"),
        None => (sort, "ASC"),
    };
    match COLUMNS.iter().find(|(name, _)| *name == column) {
        Some((_, expression)) => format!("{expression} {direction} NULLS LAST, name"),
        None => "name".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::order_by;

    #[test]
    fn queues_are_sorted_by_known_columns_only() {
        assert_eq!(order_by("-ready"), "ready DESC NULLS LAST, name");
        assert_eq!(order_by("in"), "in_1m ASC NULLS LAST, name");
        for sort in ["", "-", "name; DROP TABLE x", "--ready"] {
            assert_eq!(order_by(sort), "name", "{sort}");
        }
    }
}
