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

const INTERVALS: [&str; 22] = [
    "'0'",
    "'1 us'",
    "'1 ms'",
    "'20 ms'",
    "'50 ms'",
    "'100 ms'",
    "'-1 s'",
    "'1 day'",
    "'10 years'",
    "NULL",
    "'infinity'::interval",
    "'-infinity'::interval",
    "'178000000 years'",
    "'-178000000 years'",
    "'2147483647 days'",
    "'9223372036854775807 us'",
    "'1 mon -30 days'",
    "'1 mon -30 days -1 us'",
    "''",
    "'P1Y2M3DT4H5M6S'",
    "make_interval(secs => 'NaN')",
    "make_interval(secs => 1e12)",
];
const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "1",
    "2",
    "3",
    "10",
    "200",
    "-1",
    "NULL",
    "2147483647",
    "-2147483648",
    "32768",
    "9223372036854775807",
    "-9223372036854775808",
];
const TEXTS: [&str; 14] = [
    "'a'",
    "'b'",
    "'c'",
    "''",
    "NULL",
    "'R'",
    "'x'",
    "repeat('long ', 2000)",
    "'{a,b}'",
    "E'\\\\n\\\\'",
    "'☃'",
    "'%s%n%d'",
    "md5('7')",
    "E'\\x01'",
];
const STATES: [&str; 16] = [
    "'R'",
    "'T'",
    "'W'",
    "'B'",
    "'Z'",
    "'D'",
    "'ready'",
    "'taken'",
    "'waiting'",
    "'buried'",
    "'zombie'",
    "'done'",
    "'nope'",
    "''",
    "NULL",
    "'new'",
];
const NAMES: [&str; 16] = [
    "'nope'",
    "''",
    "NULL",
    "'\"'",
    "'pg_class'",
    "'a.b.c.d'",
    "'postgres.public.plain'",
    "'xqueue.queue'",
    "repeat('x', 70)",
    "'notes'",
    "'Plain'",
    "' plain '",
    "'whole'",
    "'plain;'",
    "'xqueue.taken'",
    "E'pla\\u2603in'",
];
const TASKS: [&str; 24] = [
    "'{}'",
    "'{}'",
    "'{\"payload\": 1}'",
    "'[{}, {}, {}]'",
    "'[]'",
    "'{\"id\": 7}'",
    "'{\"id\": null}'",
    "'{\"id\": -5, \"b\": \"a\"}'",
    "'[{\"id\": 1}, {\"id\": 1}]'",
    "'{\"priority\": 5, \"tube\": \"a\"}'",
    "'{\"priority\": 1e400}'",
    "'{\"tube\": [1]}'",
    "'{\"ttr\": \"infinity\"}'",
    "'{\"ttr\": \"-1 day\"}'",
    "'{\"nope\": 1}'",
    "'{\"status\": \"T\"}'",
    "'7'",
    "'null'",
    "NULL",
    "(SELECT jsonb_agg('{}'::jsonb) FROM generate_series(1, 200))",
    "jsonb_build_object('payload', repeat('x', 20000))",
    "(SELECT jsonb_object_agg(n, n) FROM generate_series(1, 200) n)",
    "'{\"id\": [1, 2]}'",
    "repeat('[', 5000)::jsonb",
];
const FEATURES: [&str; 20] = [
    "'{}'",
    "'{\"features\": {\"delayed\": true}}'",
    "'{\"features\": {\"buried\": true}}'",
    "'{\"features\": {\"ttl\": \"5 s\", \"ttr\": 1}}'",
    "'{\"features\": {\"priority\": true}}'",
    "'{\"features\": {\"priority\": false}, \"convert\": {\"W\": \"R\", \"B\": \"R\", \"Z\": \"delete\", \"D\": \"delete\"}}'",
    "'{\"features\": {\"tube\": true}, \"tube_stats\": [\"a\"]}'",
    "'{\"features\": {\"utube\": true}}'",
    "'{\"features\": {\"utube\": {\"strict\": true}}}'",
    "'{\"features\": {\"utube\": false}}'",
    "'{\"features\": {\"capacity\": 500}}'",
    "'{\"features\": {\"capacity\": false}}'",
    "'{\"features\": {\"retry\": {\"limit\": 3, \"backoff\": 0.01}}}'",
    "'{\"features\": {\"zombie\": 0.1}}'",
    "'{\"features\": {\"keep\": true}, \"convert\": {\"Z\": \"D\"}}'",
    "'{\"features\": {\"ttr\": \"infinity\"}}'",
    "'{\"features\": {\"delayed\": false, \"retry\": false}, \"convert\": {\"W\": \"R\", \"B\": \"R\"}}'",
    "'{\"features\": {\"on_task_change\": \"note\"}}'",
    "'{\"features\": 7, \"nope\": []}'",
    "NULL",
];
const ROWS: [&str; 4] = ["NULL::int", "NULL::notes", "ROW(1, 2)", "NULL::pg_class"];

fn one_of(values: &[&str], random: &mut StdRng) -> String {
    values.choose(random).copied().unwrap_or("NULL").to_string()
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
        ("text" | "regclass", "queue") => one_of(&NAMES, random),
        ("anyelement", _) => row(queue, random),
        ("anycompatible", _) => id(queue, random),
        ("jsonb", "options") => one_of(&FEATURES, random),
        ("jsonb", "task") if random.random_bool(0.3) => {
            format!("(SELECT to_jsonb(q) FROM {} q LIMIT 1)", queue.name)
        }
        ("jsonb", _) => one_of(&TASKS, random),
        ("interval", _) => one_of(&INTERVALS, random),
        ("smallint" | "integer" | "bigint", _) => one_of(&NUMBERS, random),
        ("boolean", _) => one_of(&["true", "false", "NULL"], random),
        ("uuid", _) => uuid(random),
        ("text", "status") => one_of(&STATES, random),
        _ => one_of(&TEXTS, random),
    };
    Some(value)
}

fn uuid(random: &mut StdRng) -> String {
    let mine = "xqueue.identify()";
    let known = format!("md5('{}')::uuid", random.random_range(0..4));
    let theirs = "(SELECT uuid FROM xqueue.sessions LIMIT 1)";
    one_of(&[mine, &known, &known, theirs, "gen_random_uuid()", "NULL"], random)
}

/// Returns a row of the queue, or a value of another type.
pub fn row(queue: &Queue, random: &mut StdRng) -> String {
    let name = queue.name;
    match random.random_range(0..20) {
        0 => one_of(&ROWS, random),
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
    let mut values = Vec::with_capacity(length);
    for _ in 0..length {
        values.push(if random.random_bool(nulls) {
            "NULL".into()
        } else {
            queue.key.value(random)
        });
    }
    format!("ARRAY[{}]", values.join(", "))
}

/// Returns an instant for a column of times.
pub fn instant(random: &mut StdRng) -> String {
    let instants = [
        "now()",
        "now() + '50 ms'",
        "now() - '1 day'::interval",
        "'infinity'",
        "'-infinity'",
        "'294276-12-31 23:59:59.999999+00'",
        "'4713-01-01 00:00:00+00 BC'",
        "'epoch'",
        "clock_timestamp() + '1 s'",
    ];
    one_of(&instants, random)
}
