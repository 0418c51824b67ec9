//! The statements of four queues in one file, which shows what a change of this module does to them.

use crate::form::Form;
use crate::statement::tests::table;
use crate::statement::*;
use std::path::Path;

/// Names, features, numbers of key columns, and columns of the order.
const QUEUES: [(&str, &str, usize, &[&str]); 4] = [
    ("Plain queue", "{}", 1, &[]),
    (
        "Queue with most features, and a key of two columns",
        r#"{"delayed": true, "ttr": 60, "ttl": 3600, "priority": true, "tube": true, "retry": true}"#,
        2,
        &[],
    ),
    ("Queue with sub-queues", r#"{"utube": true}"#, 1, &[]),
    ("Queue with an order", r#"{"tube": true}"#, 1, &["created"]),
];

const HEAD: &str =
    "-- The SQL that this module writes for four queues. tests/golden.rs compares it.\n";

/// Each of them begins a line of the file.
const CLAUSES: [&str; 8] =
    [" SET ", " FROM ", " WHERE ", " AND ", " ORDER BY ", " FOR ", " RETURNING ", " ON CONFLICT "];

#[test]
fn statements_are_those_of_the_file() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("statement/statements.sql");
    let statements =
        QUEUES.iter().fold(String::from(HEAD), |all, (name, features, keys, order)| {
            let mut table = table(features);
            table.key.truncate(*keys);
            let key = table.key.iter().map(|column| column.name.clone());
            table.order = order.iter().map(|name| name.to_string()).chain(key).collect();
            table.marked = if table.key.len() == 1 { table.order.len() } else { 0 };
            table.columns.insert(7, "progress".to_string());
            let shown = statements(&table).into_iter().map(|(what, text)| show(&what, text));
            all + &format!("\n-- {name}: {features}\n") + &shown.collect::<String>()
        });
    if std::env::var_os("XQUEUE_WRITE_STATEMENTS").is_some() {
        std::fs::write(&path, &statements).expect("the file is written");
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    let other = statements.lines().zip(known.lines()).find(|(new, old)| new != old);
    assert!(
        statements == known,
        "XQUEUE_WRITE_STATEMENTS=1 cargo test -p xqueue-core golden writes the new file; first difference: {other:?}"
    );
}

fn show(what: &str, text: Text) -> String {
    let sql =
        CLAUSES.iter().fold(text.sql, |sql, clause| sql.replace(clause, &format!("\n   {clause}")));
    let sql = sql.replace("DELETE\n   ", "DELETE");
    format!("\n-- {what} {:?}\n{sql};\n", text.parameters)
}

fn statements(table: &Table) -> Vec<(String, Text)> {
    let indexes = Index::ALL.into_iter().filter(|index| table.needs_index(*index)).map(|index| {
        let sql = table.create_index(index, index.suffix());
        (format!("Index {index:?}"), Text { sql, parameters: vec![] })
    });
    let verbs = [Verb::Ack, Verb::Release, Verb::Bury, Verb::Dig, Verb::Touch, Verb::Delete];
    let has_time = table.has(Field::Runat);
    let verbs = verbs.into_iter().filter(|verb| *verb != Verb::Touch || has_time);
    let steps = verbs.map(|verb| (format!("{verb:?}"), table.step(&Step::new(verb))));
    let first = Within::Ready { tube: false, level: false };
    // Marks name up to two columns.
    let first = (table.marked > 0).then(|| ("First ready task", table.first(first)));
    let due = ("Next instant for the worker", table.next_due());
    let looks = [("Peek", table.peek())].into_iter().chain(first).chain([due]);
    let put = [(String::from("Put"), table.put(&put(table)))];
    let looks = looks.map(|(what, text)| (what.to_string(), text));
    indexes.chain(put).chain(changes(table)).chain(steps).chain(looks).collect()
}

/// Takes and the worker's changes: one statement, or two for keys of several columns.
fn changes(table: &Table) -> Vec<(String, Text)> {
    let within = Within::Ready { tube: table.features.tube == Some(true), level: false };
    let marked = table.marked > 0;
    let take = match table.features.utube {
        Some(_) => Change::TakeInSubqueue { ttr: false, marked, limited: false },
        None => Change::Take { within, ttr: false, marked, many: false },
    };
    let changes = [take, Change::Promote, Change::Expire, Change::Reap];
    let wanted = changes.into_iter().filter(|change| match change {
        Change::Promote => table.has(Field::Runat),
        Change::Expire => table.has(Field::Expires),
        _ => true,
    });
    wanted
        .flat_map(|change| match table.key.len() {
            1 => vec![(format!("{change:?}"), table.change(change))],
            _ => vec![
                (format!("{change:?}, pick"), table.pick(change)),
                (format!("{change:?}, change one"), table.change_one(change)),
            ],
        })
        .collect()
}

fn put(table: &Table) -> Put {
    Put {
        columns: vec![7],
        delay: table.has(Field::Runat),
        ttl: table.has(Field::Expires),
        priority: table.has(Field::Priority),
        tube: table.has(Field::Tube),
        ..Put::new(Form::Row, Source::Values)
    }
}
