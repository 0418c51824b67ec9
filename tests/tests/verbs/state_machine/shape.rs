//! The columns of the table, and the SQL of operations on it.

use rand::Rng;
use rand::rngs::StdRng;
use xqueue_tests::{LETTERS, Queue, Value, connect, json, unique};

use super::features::Features;
use super::model::{Key, Task, Time};
use super::operation::{ByHand, Conflict, Given, Operation, Verb};

/// A kind of key: the columns of the table, the SQL of each key column's value, and the SQL of the number in a key.
/// In a value, `{n}` stands for the number and `{z}` for its 12 digits.
#[derive(Clone, Copy, Debug)]
struct KeyKind {
    columns: &'static str,
    values: &'static [(&'static str, &'static str)],
    number: &'static str,
}

const KEYS: [KeyKind; 4] = [
    KeyKind { columns: "id bigint PRIMARY KEY", values: &[("id", "{n}")], number: "id" },
    KeyKind {
        columns: "id uuid PRIMARY KEY",
        values: &[("id", "'00000000-0000-0000-0000-{z}'::uuid")],
        number: "right(id::text, 12)::bigint",
    },
    KeyKind {
        columns: "id text COLLATE \"C\" PRIMARY KEY",
        values: &[("id", "'k-{z}'::text")],
        number: "right(id, 12)::bigint",
    },
    KeyKind {
        columns: "a integer, b smallint, PRIMARY KEY (a, b)",
        values: &[("a", "{n} / 10"), ("b", "{n} % 10")],
        number: "a * 10 + b",
    },
];

impl KeyKind {
    /// Returns each key column with its value in SQL.
    fn parts(self, key: Key) -> impl Iterator<Item = (&'static str, String)> {
        let value = move |value: &str| {
            value.replace("{n}", &key.to_string()).replace("{z}", &format!("{key:012}"))
        };
        self.values.iter().map(move |(column, part)| (*column, value(part)))
    }

    fn names(self) -> String {
        self.values.iter().map(|(column, _)| *column).collect::<Vec<_>>().join(", ")
    }

    fn value(self, key: Key) -> String {
        self.parts(key).map(|(_, value)| value).collect::<Vec<_>>().join(", ")
    }

    /// Returns the argument that names tasks.
    fn argument(self, keys: &[Key]) -> String {
        let row = if self.values.len() > 1 { "ROW" } else { "" };
        let ids: Vec<_> = keys.iter().map(|key| format!("{row}({})", self.value(*key))).collect();
        if ids.len() == 1 { ids.concat() } else { format!("ARRAY[{}]", ids.join(", ")) }
    }

    /// Returns the SQL of a task as jsonb.
    fn task(self, key: Key, payload: Option<i64>) -> String {
        let members: String =
            self.parts(key).map(|(name, value)| format!("'{name}', {value}, ")).collect();
        let payload = payload.map_or("NULL".into(), |payload| payload.to_string());
        format!("jsonb_build_object({members}'payload', {payload})")
    }

    /// Returns the key of a task that is jsonb.
    fn key_in(self, task: &Value) -> Key {
        let number = |name: &str| task[name].as_i64();
        let digits = || task["id"].as_str()?.rsplit('-').next()?.parse().ok();
        let pair = || Some(number("a")? * 10 + number("b")?);
        let key = number("id").or_else(digits).or_else(pair);
        key.unwrap_or_else(|| panic!("no key: {task}"))
    }
}

const WORDS: [&str; 6] = ["pending", "running", "later", "failed", "passed", "done"];
const NUMBERS: [&str; 6] = ["0", "1", "20", "3", "-1", "4"];
/// Types of the column `state`, and its values. Without a type, upgrade makes the column.
const STATES: [(&str, [&str; 6]); 4] =
    [("", LETTERS), ("text", WORDS), ("enum", WORDS), ("smallint", NUMBERS)];

#[derive(Debug)]
pub struct Shape {
    pub features: Features,
    key: KeyKind,
    labels: [&'static str; 6],
    options: Value,
    columns: String,
    status: &'static str,
    /// A type made for the status column.
    pub enumeration: Option<String>,
}

impl Shape {
    pub fn random(random: &mut StdRng) -> Shape {
        let features = Features::random(random);
        let key = KEYS[random.random_range(0..KEYS.len())];
        let (kind, labels) = STATES[random.random_range(0..STATES.len())];
        let owner = ["uuid", "text", "varchar(36)"][random.random_range(0..3)];
        let mut options = json!({
            "features": features.options(), "fields": {"owner": "owner"},
            "tube_stats": if features.tube { json!(["a"]) } else { json!([]) },
        });
        let (mut state, mut status, mut enumeration) = (String::new(), "status", None);
        if !kind.is_empty() {
            status = "state";
            let names = LETTERS.iter().zip(labels).map(|(letter, word)| {
                (*letter, word.parse::<i64>().map_or(json!(word), |number| json!(number)))
            });
            options["states"] = names.collect();
            options["fields"]["status"] = json!(status);
            enumeration = (kind == "enum").then(new_enum);
            state = format!(", state {} NOT NULL", enumeration.as_deref().unwrap_or(kind));
        }
        Shape {
            features,
            key,
            labels,
            options,
            columns: format!("{}, payload jsonb, owner {owner}{state}", key.columns),
            status,
            enumeration,
        }
    }

    pub fn make(&self, theme: &str) -> Queue {
        let mut q = Queue::with(theme, &self.columns, &self.options);
        q.status_is(self.status, self.labels);
        q
    }

    fn label(&self, status: char) -> &'static str {
        let at = LETTERS.iter().position(|letter| letter.starts_with(status));
        at.map_or("?", |at| self.labels[at])
    }

    /// Returns SQL for the table as text, one line per task in the format of [`Shape::line`].
    pub fn table(&self, q: &str) -> String {
        format!(
            "SELECT coalesce(string_agg({}, E'\\n' ORDER BY {}), '') FROM {q}",
            self.lines(),
            self.key.number
        )
    }

    /// Returns SQL for a task in the format of [`Shape::line`]. A column whose feature is off has a fixed value.
    fn lines(&self) -> String {
        let Shape { features, key, status, labels, .. } = self;
        let states =
            LETTERS.iter().zip(labels).map(|(l, word)| format!(" WHEN '{word}' THEN '{l}'"));
        let states: String = states.collect();
        let optional = |has: bool, sql: &str, otherwise: &str| {
            if has { sql.to_string() } else { format!("'{otherwise}'") }
        };
        let time = |column: &str| {
            format!(
                "CASE WHEN {column} IS NULL THEN '-' WHEN {column} > clock_timestamp() THEN 'future' ELSE 'past' END"
            )
        };
        format!(
            "concat_ws(' ', {}, CASE {status}::text{states} END, 'owner', coalesce(owner::text, '-'), \
         'attempts', {}, 'priority', {}, 'tube', {}, 'payload', coalesce(payload::text, '-'), \
         'runat', {}, 'expires', {}, 'ttr', {}, 'reason', {})",
            key.number,
            optional(features.retry.is_some(), "attempts", "0"),
            optional(features.priority, "priority", "0"),
            optional(features.tube, "coalesce(tube, '-')", "-"),
            optional(features.has_runat(), &time("runat"), "-"),
            optional(features.ttl.is_some(), &time("expires"), "-"),
            optional(features.ttr.is_some(), "(ttr IS NOT NULL)::text", "false"),
            optional(features.retry.is_some(), "(reason IS NOT NULL)::text", "false"),
        )
    }

    /// Returns a task as a line.
    pub fn line(key: Key, task: &Task, sessions: &[String]) -> String {
        let time = |time: Option<Time>| match time {
            None => "-",
            Some(Time::Past) => "past",
            Some(Time::Future) => "future",
        };
        let payload = task.payload.map_or("-".into(), |payload| payload.to_string());
        format!(
            "{key} {} owner {} attempts {} priority {} tube {} payload {payload} runat {} expires {} ttr {} reason {}",
            task.status,
            task.owner.map_or("-", |owner| sessions[owner].as_str()),
            task.attempts,
            task.priority,
            task.tube.unwrap_or("-"),
            time(task.runat),
            time(task.expires),
            task.has_ttr,
            task.has_reason,
        )
    }

    pub fn key_in(&self, task: &Value) -> Key {
        self.key.key_in(task)
    }

    /// Returns the statement, in the row form if `rows` is set. It returns tasks as jsonb in one column.
    pub fn sql(&self, q: &str, operation: &Operation, rows: bool) -> String {
        let queue = if rows { format!("NULL::{q}") } else { format!("'{q}'") };
        let result = if rows { "to_jsonb(t)" } else { "t" };
        let call = |function: &str, arguments: Vec<String>| {
            let arguments = [vec![queue.clone()], arguments].concat().join(", ");
            format!("SELECT {result} FROM xqueue.{function}({arguments}) AS t")
        };
        let by_key = |key: &Key| format!("({}) = ({})", self.key.names(), self.key.value(*key));
        match operation {
            Operation::Put(keys, given) => {
                let tasks = keys.iter().map(|key| self.key.task(*key, given.update));
                let mut tasks = tasks.collect::<Vec<_>>().join(", ");
                if keys.len() > 1 {
                    tasks = format!("jsonb_build_array({tasks})");
                }
                let given = Given { update: None, ..given.clone() };
                call("put", [vec![tasks], arguments(&given)].concat())
            }
            Operation::Take(count, given) => {
                call("take", [vec![format!("count => {count}")], arguments(given)].concat())
            }
            Operation::TakeNamed(keys, given) => {
                let named = format!("id => {}", self.key.argument(keys));
                call("take", [vec![named], arguments(given)].concat())
            }
            Operation::Step(verb, keys, given) => {
                let mut list = vec![self.key.argument(keys)];
                list.extend(match verb {
                    Verb::Switch(to) => Some(format!("'{}'", self.label(*to))),
                    Verb::Touch => Some("'1 hour'".into()),
                    _ => None,
                });
                list.extend(arguments(given));
                call(verb.name(), list)
            }
            Operation::Plow(n, given) => {
                call("plow", [vec![n.to_string()], arguments(given)].concat())
            }
            Operation::Kick(n) => format!("SELECT xqueue.kick({queue}, {n})"),
            Operation::ReleaseAll => format!("SELECT xqueue.release_all({queue})"),
            Operation::GiveBack => format!("SELECT xqueue.give_back({queue})"),
            Operation::Insert(key, status, runat) => {
                let (mut columns, mut values) = (self.key.names(), self.key.value(*key));
                if let Some(status) = status {
                    columns += &format!(", {}", self.status);
                    values += &format!(", '{}'", self.label(*status));
                }
                if *runat {
                    columns += ", runat";
                    values += &format!(", {IN_AN_HOUR}");
                }
                format!("INSERT INTO {q} ({columns}) VALUES ({values})")
            }
            Operation::Update(key, by_hand) => {
                format!("UPDATE {q} SET {} WHERE {}", self.assignment(*by_hand), by_key(key))
            }
            Operation::Remove(key) => format!("DELETE FROM {q} WHERE {}", by_key(key)),
        }
    }

    fn assignment(&self, by_hand: ByHand) -> String {
        match by_hand {
            ByHand::Status(status) => {
                let time = if matches!(status, 'W' | 'Z') { IN_AN_HOUR } else { "NULL" };
                let runat = match self.features.has_runat() {
                    true => format!(", runat = {time}"),
                    false => String::new(),
                };
                format!("{} = '{}', owner = NULL{runat}", self.status, self.label(status))
            }
            ByHand::Priority(priority) => format!("priority = {priority}"),
            ByHand::Tube(tube) => format!("tube = '{tube}'"),
            ByHand::Payload(payload) => format!("payload = '{payload}'"),
            ByHand::Due => format!("runat = {A_SECOND_AGO}"),
            ByHand::Expired => format!("expires = {A_SECOND_AGO}"),
        }
    }
}

const IN_AN_HOUR: &str = "now() + interval '1 hour'";
const A_SECOND_AGO: &str = "now() - interval '1 second'";

fn arguments(given: &Given) -> Vec<String> {
    let hour = |name: &str, is_given: bool| is_given.then(|| format!("{name} => '1 hour'"));
    let all = [
        hour("delay", given.delay),
        hour("ttl", given.ttl),
        hour("ttr", given.ttr),
        given.priority.map(|priority| format!("priority => {priority}")),
        given.tube.map(|tube| format!("tube => '{tube}'")),
        given.update.map(|payload| format!("update => '{{\"payload\": {payload}}}'")),
        given.attempt.map(|attempt| format!("attempt => {attempt}")),
        given.if_held.then(|| "if_held => true".into()),
        given.unused.then(|| "failed => false".into()),
        given.error.then(|| "error => 'broken'".into()),
        given.conflict.map(|conflict| match conflict {
            Conflict::Nothing => "on_conflict => 'nothing'".into(),
            Conflict::Update => "on_conflict => 'update'".into(),
            Conflict::UpdateAtOnce => "on_conflict => 'update', delay => '0'".into(),
        }),
    ];
    all.into_iter().flatten().collect()
}

fn new_enum() -> String {
    let name = unique("state");
    let words = WORDS.map(|word| format!("'{word}'")).join(", ");
    let sql = format!("CREATE TYPE {name} AS ENUM ({words})");
    connect().batch_execute(&sql).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    name
}
