//! Values for the arguments of calls: mostly of the right type, but close to its limits.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use xqueue_tests::every_function::Argument;

use crate::queues::{QUEUES, Queue};

/// Probability of a value of an arbitrary type.
const ODD: f64 = 0.1;
/// Probability that an optional argument is given.
const GIVEN: f64 = 0.45;
/// Number of elements of a long array.
const MANY: usize = 200;

// Lists of values, one per line or separated by `|`.
const INTERVALS: &str = "'0'|'1 us'|'1 ms'|'20 ms'|'50 ms'|'100 ms'|'-1 s'|'1 day'|'10 years'|NULL|''|'P1Y2M3DT4H5M6S'
    'infinity'::interval|'-infinity'::interval|'178000000 years'|'-178000000 years'|'2147483647 days'
    '9223372036854775807 us'|'1 mon -30 days'|'1 mon -30 days -1 us'
    make_interval(secs => 'NaN')|make_interval(secs => 1e12)";
const NUMBERS: &str = "0|1|1|2|3|10|200|-1|NULL|32768|2147483647|-2147483648
    9223372036854775807|-9223372036854775808";
const TEXTS: &str = r"'a'|'b'|'c'|''|NULL|'R'|'x'|repeat('long ', 2000)|'{a,b}'|E'\\n\\'|'☃'|'%s%n%d'|md5('7')|E'\x01'";
const STATES: &str = "'R'|'T'|'W'|'B'|'Z'|'D'|'ready'|'taken'|'waiting'|'buried'|'zombie'|'done'|'nope'|''|NULL|'new'";
const NAMES: &str = r#"'nope'|''|NULL|'"'|'pg_class'|'a.b.c.d'|'postgres.public.plain'|'xqueue.queue'|repeat('x', 70)
    'notes'|'Plain'|' plain '|'whole'|'plain;'|'xqueue.taken'|E'pla\u2603in'"#;
const TASKS: &str = r#"'{}'|'{}'|'[]'|'7'|'null'|NULL|'{"payload": 1}'|'[{}, {}, {}]'|'{"nope": 1}'|'{"status": "T"}'
    '{"id": 7}'|'{"id": null}'|'{"id": -5, "b": "a"}'|'{"id": [1, 2]}'|'[{"id": 1}, {"id": 1}]'
    '{"priority": 5, "tube": "a"}'|'{"priority": 1e400}'|'{"tube": [1]}'|'{"ttr": "infinity"}'|'{"ttr": "-1 day"}'
    (SELECT jsonb_agg('{}'::jsonb) FROM generate_series(1, 200))
    jsonb_build_object('payload', repeat('x', 20000))
    (SELECT jsonb_object_agg(n, n) FROM generate_series(1, 200) n)
    repeat('[', 5000)::jsonb"#;
const OPTIONS: &str = r#"'{}'|NULL|'{"features": 7, "nope": []}'
    '{"features": {"delayed": true}}'|'{"features": {"buried": true}}'|'{"features": {"priority": true}}'
    '{"features": {"ttl": "5 s", "ttr": 1}}'|'{"features": {"ttr": "infinity"}}'|'{"features": {"zombie": 0.1}}'
    '{"features": {"priority": false}, "convert": {"W": "R", "B": "R", "Z": "delete", "D": "delete"}}'
    '{"features": {"tube": true}, "tube_stats": ["a"]}'|'{"features": {"on_task_change": "note"}}'
    '{"features": {"utube": true}}'|'{"features": {"utube": {"strict": true}}}'|'{"features": {"utube": false}}'
    '{"features": {"capacity": 500}}'|'{"features": {"capacity": false}}'
    '{"features": {"retry": {"limit": 3, "backoff": 0.01}}}'
    '{"features": {"keep": true}, "convert": {"Z": "D"}}'
    '{"features": {"delayed": false, "retry": false}, "convert": {"W": "R", "B": "R"}}'"#;
const ROWS: &str = "NULL::int|NULL::notes|ROW(1, 2)|NULL::pg_class";
const INSTANTS: &str =
    "now()|now() + '50 ms'|now() - '1 day'::interval|clock_timestamp() + '1 s'|'epoch'
    'infinity'|'-infinity'|'294276-12-31 23:59:59.999999+00'|'4713-01-01 00:00:00+00 BC'";

/// Returns a random value of a list.
pub fn one_of(list: &str, random: &mut StdRng) -> String {
    let values: Vec<&str> = list.trim().split(['|', '\n']).map(str::trim).collect();
    values.choose(random).copied().unwrap_or_default().to_owned()
}

/// Returns an argument of a call on this queue; None leaves it out.
pub fn argument(
    argument: &Argument,
    queue: &Queue,
    odd: &[String],
    random: &mut StdRng,
) -> Option<String> {
    if !argument.is_required && !random.random_bool(GIVEN) {
        return None;
    }
    if random.random_bool(ODD) {
        return odd.choose(random).cloned();
    }
    let value = match (argument.declared.as_str(), argument.name.as_str()) {
        ("text" | "regclass", "queue") if random.random_bool(0.95) => queue.literal(),
        ("text" | "regclass", "queue") => one_of(NAMES, random),
        ("anyelement", _) => row(queue, random),
        ("anycompatible", _) => id(queue, random),
        ("jsonb", "options") => one_of(OPTIONS, random),
        ("jsonb", "task") if random.random_bool(0.3) => {
            format!("(SELECT to_jsonb(q) FROM {} q LIMIT 1)", queue.name)
        }
        ("jsonb", _) => one_of(TASKS, random),
        ("interval", _) => one_of(INTERVALS, random),
        ("smallint" | "integer" | "bigint", _) => one_of(NUMBERS, random),
        ("boolean", _) => one_of("true|false|NULL", random),
        ("uuid", _) => uuid(random),
        ("text", "status") => one_of(STATES, random),
        _ => one_of(TEXTS, random),
    };
    Some(value)
}

fn uuid(random: &mut StdRng) -> String {
    let known = format!("md5('{}')::uuid", random.random_range(0..4));
    let theirs = "(SELECT uuid FROM xqueue.sessions LIMIT 1)";
    let all = format!("xqueue.identify()|{known}|{known}|{theirs}|gen_random_uuid()|NULL");
    one_of(&all, random)
}

/// Returns a row of the queue, or a value of another type.
pub fn row(queue: &Queue, random: &mut StdRng) -> String {
    let name = queue.name;
    match random.random_range(0..20) {
        0 => one_of(ROWS, random),
        1 => {
            let other = QUEUES.choose(random).map_or(name, |other| other.name);
            format!("(SELECT q FROM {other} q LIMIT 1)")
        }
        2..9 => format!("(SELECT q FROM {name} q OFFSET {} LIMIT 1)", random.random_range(0..30)),
        9 => format!("(SELECT q FROM {name} q WHERE status::text IN ('T', 'run') LIMIT 1)"),
        _ => format!("NULL::{name}"),
    }
}

/// Returns an id or several: of tasks that can exist, be taken, or be missing.
pub fn id(queue: &Queue, random: &mut StdRng) -> String {
    let name = queue.name;
    match random.random_range(0..14) {
        0..4 => queue.key.value(random),
        4..6 => {
            let columns = if name == "q_two" { "ROW(id, b)" } else { "id" };
            format!("(SELECT {columns} FROM {name} WHERE status::text IN ('T', 'run') LIMIT 1)")
        }
        6 => format!("(SELECT array_agg(id) FROM {name} WHERE owner IS NOT NULL)"),
        7..9 => array(queue, random.random_range(0..4), random),
        9 => array(queue, MANY, random),
        10 => "'{1,2,NULL}'".into(),
        11 => format!("(SELECT to_jsonb(q) FROM {name} q LIMIT 1)"),
        12 => format!("'{}'", random.random_range(-2..50)),
        _ => format!("(SELECT array_agg(ROW(id, 'a')) FROM {name})"),
    }
}

fn array(queue: &Queue, length: usize, random: &mut StdRng) -> String {
    let nulls = if random.random_bool(0.3) { 0.1 } else { 0.0 };
    let mut value = || match random.random_bool(nulls) {
        true => "NULL".into(),
        false => queue.key.value(random),
    };
    let values: Vec<String> = (0..length).map(|_| value()).collect();
    format!("ARRAY[{}]", values.join(", "))
}

/// Returns an instant for a column of times.
pub fn instant(random: &mut StdRng) -> String {
    one_of(INSTANTS, random)
}
