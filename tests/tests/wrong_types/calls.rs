//! Queues with keys of different types, and calls of every function for them.

use xqueue_tests::Client;

/// A queue with a key of its own kind.
pub struct Key {
    pub name: &'static str,
    /// The type of column `id`; of the only column, where there is one.
    pub key: &'static str,
    columns: &'static str,
    /// Rows.
    tasks: &'static str,
    /// An id of a task that is there.
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

    /// Whether the key is one value, and neither an array nor a record.
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

/// A function or procedure.
pub struct Function {
    name: String,
    is_procedure: bool,
    pub arguments: Vec<Argument>,
}

pub struct Argument {
    name: String,
    declared: String,
    is_required: bool,
}

/// All of the schema, both forms.
pub fn functions(c: &mut Client) -> Vec<Function> {
    let sql = "SELECT quote_ident(proname), prokind = 'p', coalesce(proargnames, '{}'), \
               ARRAY(SELECT format_type(t, NULL) FROM unnest(proargtypes) WITH ORDINALITY AS u(t, n) ORDER BY n), \
               (pronargs - pronargdefaults)::int FROM pg_proc WHERE pronamespace = 'xqueue'::regnamespace ORDER BY oid";
    let rows = c.query(sql, &[]).expect("the functions");
    let function = |row: &postgres::Row| {
        let (names, types): (Vec<String>, Vec<String>) = (row.get(2), row.get(3));
        let required: i32 = row.get(4);
        let argument = |(number, (name, declared))| Argument {
            name,
            declared,
            is_required: number < required as usize,
        };
        let arguments = names.into_iter().zip(types).enumerate().map(argument).collect();
        Function { name: row.get(0), is_procedure: row.get(1), arguments }
    };
    rows.iter().map(function).collect()
}

impl Argument {
    /// What is right for it.
    fn valid(&self, key: &Key) -> String {
        match (self.declared.as_str(), self.name.as_str()) {
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
}

impl Function {
    /// Waits without end if nothing else is said.
    fn waits(&self) -> bool {
        matches!(self.name.as_str(), "wait" | "put_wait" | "next")
    }

    /// Whether a value is right for a time to wait: none is without end, others may be long.
    fn would_wait(&self, argument: &Argument, value: &str) -> bool {
        let is_time = ["NULL", "::interval", "::time"].iter().any(|part| value.contains(part));
        self.waits() && argument.name == "timeout" && is_time
    }

    pub fn plain(&self, key: &Key) -> String {
        self.call(key, None)
    }

    fn call(&self, key: &Key, wrong: Option<(usize, &str)>) -> String {
        let mut given = Vec::new();
        for (number, argument) in self.arguments.iter().enumerate() {
            let value = match wrong {
                Some((wrong, value)) if wrong == number && !self.would_wait(argument, value) => {
                    value.to_string()
                }
                _ if argument.is_required || self.waits() && argument.name == "timeout" => {
                    argument.valid(key)
                }
                _ => continue,
            };
            given.push(format!("\"{}\" => {value}", argument.name));
        }
        let given = given.join(", ");
        match self.is_procedure {
            true => format!("CALL xqueue.{}({given})", self.name),
            false => format!("SELECT xqueue.{}({given})::text", self.name),
        }
    }
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
        self.function.call(self.key, Some((self.argument, self.value)))
    }
}
