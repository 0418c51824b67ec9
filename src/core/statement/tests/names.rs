//! Random names, quoted by the server's rules, and tables with these names.

use crate::statement::tests::tokens::RESERVED;
use crate::statement::*;
use crate::status::Status;
use proptest::prelude::*;
use proptest::sample::select;

/// Unquoted names of a queue's table and its columns, as in the catalogue.
#[derive(Clone, Debug)]
pub struct Names {
    pub schema: String,
    pub table: String,
    pub key: Vec<String>,
    pub order: Vec<String>,
    pub fields: Vec<String>,
    pub columns: Vec<String>,
    pub type_schema: String,
    pub status_type: String,
    pub operators: String,
    pub function: String,
    pub index: String,
    pub labels: Vec<String>,
}

pub const KEY: usize = 3;
pub const ORDER: usize = 2;
pub const COLUMNS: usize = 3;

impl Names {
    fn of(mut name: impl FnMut() -> String, labels: Vec<String>) -> Names {
        let mut names = |count: usize| (0..count).map(|_| name()).collect::<Vec<_>>();
        let (key, order) = (names(KEY), names(ORDER));
        let (fields, columns) = (names(Field::ALL.len()), names(COLUMNS));
        let [schema, table, type_schema, status_type] = [0; 4].map(|_| names(1).remove(0));
        let [operators, function, index] = [0; 3].map(|_| names(1).remove(0));
        Names {
            schema,
            table,
            key,
            order,
            fields,
            columns,
            type_schema,
            status_type,
            operators,
            function,
            index,
            labels,
        }
    }

    /// Returns names that need no quotes and occur nowhere else in the statements.
    pub fn plain() -> Names {
        let mut count = 0;
        let name = || {
            count += 1;
            format!("zq{count}")
        };
        Names::of(name, Status::ALL.map(|status| format!("zq label {}", status.letter())).into())
    }

    pub fn all(&self) -> Vec<&String> {
        let lists = [&self.key, &self.order, &self.fields, &self.columns].into_iter().flatten();
        let others = [&self.schema, &self.table, &self.type_schema, &self.status_type];
        lists.chain(others).chain([&self.operators, &self.function, &self.index]).collect()
    }

    pub fn table(&self, features: &Features, keys: usize, order_columns: usize) -> Table {
        let equals = format!("OPERATOR({}.=)", quote(&self.operators));
        let key = self.key.iter().take(keys);
        let key = key.map(|name| KeyColumn { name: quote(name), equals: equals.clone() });
        let fields = Field::ALL.into_iter().zip(&self.fields);
        let order = self.order.iter().take(order_columns).chain(&self.key[..keys]);
        Table {
            schema: quote(&self.schema),
            name: quote(&self.table),
            key: key.collect(),
            order: order.map(|name| quote(name)).collect(),
            marked: (keys + order_columns).min(2),
            fields: fields
                .filter(|(field, _)| field.is_needed(features))
                .map(|(field, name)| (field, quote(name)))
                .collect(),
            time_zone: "'UTC'".into(),
            times: [
                (Field::Runat, TimeKind::Seconds { is_long: false }),
                (Field::Expires, TimeKind::Unzoned { decimals: 6 }),
            ]
            .map(|(field, kind)| {
                (field, TimeColumn { kind, is_not_null: field == Field::Runat, has_default: false })
            })
            .into(),
            columns: (1..).zip(self.columns.iter().map(|name| quote(name))).collect(),
            status_type: format!("{}.{}", quote(&self.type_schema), quote(&self.status_type)),
            owner_is_text: true,
            tube_equals: equals.clone(),
            most_attempts: i64::from(i32::MAX),
            reason_length: Some(40),
            labels: self.labels.iter().map(|label| quote_literal(label)).collect(),
            features: features.clone(),
        }
    }
}

/// Works like the server's `quote_identifier`.
pub fn quote(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let is_safe = name.chars().all(is_plain) && !name.starts_with(|c: char| c.is_ascii_digit());
    match is_safe && !RESERVED.contains(&name) {
        true => name.to_string(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// Works like the server's `quote_literal`.
fn quote_literal(text: &str) -> String {
    let prefix = if text.contains('\\') { "E" } else { "" };
    format!("{prefix}'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// Cuts a text to the maximum length of a name.
fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(63)].to_string()
}

fn name() -> impl Strategy<Value = String> {
    let odd = [
        "a\"b",
        "\"",
        "a\\",
        "\\",
        "a\\'",
        "'",
        "''",
        "--",
        "/*",
        "*/",
        "$1",
        "$$",
        "$a$",
        " ",
        "a b",
        ";",
        "a.b",
        "()",
        "(integer)",
        "a(integer, text)",
        "E'",
        "U&",
        "::",
        "task",
        "head",
        "new",
        "old",
        "pick",
        "subqueues",
        "Заказы",
        "é",
        "\n",
        "\t",
        "NULL",
        "A",
        "x; DROP TABLE y",
        "%s",
        "{}",
        "\u{202e}x",
        "😀",
    ];
    let long = prop_oneof![Just("é".repeat(40)), Just("\"".repeat(63)), Just("a".repeat(63))];
    prop_oneof![
        4 => select(odd.to_vec()).prop_map(String::from),
        2 => select(RESERVED.to_vec()).prop_map(String::from),
        2 => "[a-z_][a-z0-9_]{0,8}",
        3 => "[^\\x00]{1,12}",
        1 => long,
    ]
    .prop_map(|name| cut(&name))
}

pub fn names() -> impl Strategy<Value = Names> {
    let count = Names::plain().all().len();
    let labels = prop::collection::vec(
        prop_oneof![4 => name(), 1 => Just(String::new())],
        Status::ALL.len(),
    );
    (prop::collection::vec(name(), count), labels).prop_map(|(names, labels)| {
        let mut names = names.into_iter();
        Names::of(|| names.next().expect("there are enough"), labels)
    })
}
