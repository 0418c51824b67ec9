//! Queues with keys of different types, and calls of every function for them.

use xqueue_tests::every_function::{Argument, Function};

/// A queue with its own kind of key.
pub struct Key {
    pub name: &'static str,
    /// The type of column `id`, or of the only column.
    pub key: &'static str,
    /// A SELECT of rows.
    tasks: &'static str,
    /// The id of an existing task.
    id: &'static str,
}

pub const KEYS: [Key; 9] = [
    Key::of("q_bigint", "bigint", "SELECT n FROM generate_series(1, 30) n", "1"),
    Key::of(
        "q_text",
        "text",
        "SELECT t FROM unnest(ARRAY['1', 'a', 't', '{1}', '(1,2)', '[1,2)', '1 day', '']) t",
        "'a'::text",
    ),
    Key::of(
        "q_uuid",
        "uuid",
        "SELECT '00000000-0000-0000-0000-000000000001'::uuid",
        "'00000000-0000-0000-0000-000000000001'::uuid",
    ),
    Key::of(
        "q_array",
        "integer[]",
        "VALUES ('{1}'::integer[]), ('{}'), ('{1,2}')",
        "'{1}'::integer[]",
    ),
    Key::of("q_enum", "mood", "VALUES ('a'::mood), ('1')", "'a'::mood"),
    Key::of("q_domain", "small", "SELECT n::small FROM generate_series(1, 5) n", "1"),
    Key::of("q_pair", "pair", "VALUES (ROW(1, 'a')::pair)", "ROW(1, 'a')::pair"),
    Key::of("q_bytea", "bytea", "VALUES ('\\x01'::bytea), ('1')", "'1'::bytea"),
    Key::of("q_two", "integer", "VALUES (1, '1'), (1, 'a'), (2, 'a')", "ROW(1, 'a')"),
];

const OPTIONS: &str = r#"{"features": {"delayed": true, "buried": true, "zombie": true, "ttl": true,
    "ttr": true, "priority": true, "tube": true, "retry": {"limit": 5}}}"#;

impl Key {
    const fn of(
        name: &'static str,
        key: &'static str,
        tasks: &'static str,
        id: &'static str,
    ) -> Key {
        Key { name, key, tasks, id }
    }

    /// Returns whether the key is a single value, neither an array nor a record.
    pub fn is_scalar(&self) -> bool {
        !matches!(self.name, "q_array" | "q_pair" | "q_two")
    }

    pub fn table(&self) -> String {
        let Key { name, key, tasks, .. } = self;
        let columns = match *name {
            "q_two" => "id integer, b text, PRIMARY KEY (id, b)".into(),
            _ => format!("id {key} PRIMARY KEY"),
        };
        format!(
            "CREATE TABLE {name} ({columns}); INSERT INTO {name} {tasks};
             SELECT xqueue.upgrade('{name}', '{OPTIONS}')"
        )
    }
}

/// Returns a valid value for an argument.
fn valid(argument: &Argument, key: &Key) -> String {
    match (argument.declared.as_str(), argument.name.as_str()) {
        ("anyelement", _) => format!("NULL::{}", key.name),
        ("anycompatible", _) => key.id.to_string(),
        ("jsonb", _) => "'{}'".to_string(),
        ("interval", _) => "'1 ms'".to_string(),
        ("integer", _) => "1".to_string(),
        ("boolean", _) => "false".to_string(),
        ("uuid", _) => "'00000000-0000-0000-0000-000000000001'".to_string(),
        ("text", "queue") | ("regclass", _) => format!("'{}'", key.name),
        ("text", "status") => "'B'".to_string(),
        _ => "'x'".to_string(),
    }
}

/// Returns whether an argument is a timeout without which the function would wait forever.
fn is_patience(function: &Function, argument: &Argument) -> bool {
    let waits = matches!(function.name.as_str(), "wait" | "put_wait" | "next");
    waits && argument.name == "timeout"
}

/// Returns a call with valid arguments, except one with this number that gets a value of the wrong type. A timeout gets
/// no value that is a time: NULL waits forever, and others can be long.
pub fn call(function: &Function, key: &Key, wrong: Option<(usize, &str)>) -> String {
    function.call(|argument| {
        let is_patience = is_patience(function, argument);
        let is_time =
            |value: &str| ["NULL", "::interval", "::time"].iter().any(|part| value.contains(part));
        match wrong {
            Some((number, value))
                if std::ptr::eq(argument, &function.arguments[number])
                    && !(is_patience && is_time(value)) =>
            {
                Some(value.to_string())
            }
            _ => (argument.is_required || is_patience).then(|| valid(argument, key)),
        }
    })
}
