//! Queues with keys of different types, and calls of every function for them.

use xqueue_tests::every_function::{Argument, Function};

/// A queue with its own kind of key.
pub struct Key {
    pub name: &'static str,
    /// The type of column `id`, or of the only column.
    pub key: &'static str,
    columns: &'static str,
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
    Key {
        name: "q_two",
        key: "integer",
        columns: "id integer, b text, PRIMARY KEY (id, b)",
        tasks: "VALUES (1, '1'), (1, 'a'), (2, 'a')",
        id: "ROW(1, 'a')",
    },
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
        Key { name, key, columns: "", tasks, id }
    }

    /// Returns whether the key is a single value, neither an array nor a record.
    pub fn is_scalar(&self) -> bool {
        !matches!(self.name, "q_array" | "q_pair" | "q_two")
    }

    pub fn table(&self) -> String {
        let Key { name, key, columns, tasks, .. } = self;
        let single = format!("id {key} PRIMARY KEY");
        let columns = if columns.is_empty() { single.as_str() } else { columns };
        format!(
            "CREATE TABLE {name} ({columns}); INSERT INTO {name} {tasks};
             SELECT xqueue.upgrade('{name}', '{OPTIONS}')"
        )
    }
}

/// Returns a valid value for an argument.
fn valid(argument: &Argument, key: &Key) -> String {
    match (argument.declared.as_str(), argument.name.as_str()) {
        ("text", "queue") => format!("'{}'", key.name),
        ("anyelement", _) => format!("NULL::{}", key.name),
        ("anycompatible", _) => key.id.to_string(),
        ("jsonb", _) => "'{}'".to_string(),
        ("interval", _) => "'1 ms'".to_string(),
        ("integer", _) => "1".to_string(),
        ("boolean", _) => "false".to_string(),
        ("uuid", _) => "'00000000-0000-0000-0000-000000000001'".to_string(),
        ("regclass", _) => format!("'{}'", key.name),
        ("text", "status") => "'B'".to_string(),
        _ => "'x'".to_string(),
    }
}

/// Returns whether a function waits forever by default.
fn waits(function: &Function) -> bool {
    matches!(function.name.as_str(), "wait" | "put_wait" | "next")
}

/// Returns whether a value would be a valid timeout: NULL waits forever, and other values can be long.
fn would_wait(function: &Function, argument: &Argument, value: &str) -> bool {
    let is_time = ["NULL", "::interval", "::time"].iter().any(|part| value.contains(part));
    waits(function) && argument.name == "timeout" && is_time
}

/// Returns a call with valid arguments only.
pub fn plain(function: &Function, key: &Key) -> String {
    function.call(|argument| needed(function, argument, key))
}

fn needed(function: &Function, argument: &Argument, key: &Key) -> Option<String> {
    let is_needed = argument.is_required || waits(function) && argument.name == "timeout";
    is_needed.then(|| valid(argument, key))
}

/// A call with a value of the wrong type.
pub struct Call<'a> {
    pub function: &'a Function,
    pub key: &'a Key,
    pub argument: usize,
    pub value: &'a str,
}

impl Call<'_> {
    pub fn sql(&self) -> String {
        let Call { function, key, value, .. } = self;
        let wrong = &function.arguments[self.argument];
        function.call(|argument| {
            if std::ptr::eq(argument, wrong) && !would_wait(function, argument, value) {
                Some(value.to_string())
            } else {
                needed(function, argument, key)
            }
        })
    }
}
