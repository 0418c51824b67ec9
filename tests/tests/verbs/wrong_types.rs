//! Every function with a value of the wrong type for each argument: values of every type, arrays, records, expanded
//! objects, and bytes that imitate the server's own structures. The queues have keys of different types. Each call
//! succeeds correctly or fails with a specific SQLSTATE, not an internal error, and the server survives.

mod calls;

use calls::{KEYS, Key, call};
use postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::error::Error;
use xqueue_tests::every_function::functions;
use xqueue_tests::every_type as values;
use xqueue_tests::*;

/// Calls per statement sent to the server.
const BATCH: usize = 250;
/// Number of random values for each argument of each function.
const VALUES_PER_ARGUMENT: usize = 60;
/// Number of random values that `peek` gets for each key. Keys of one column and of several columns get all values.
const VALUES_PER_KEY: usize = 500;

/// Messages of internal errors that the server itself raises, for any function.
const OF_THE_SERVER: [&str; 3] = [
    // NULL of a pseudo-type.
    "cannot display a value of type",
    "cannot accept a value of type",
    "could not determine polymorphic type",
];

fn random() -> StdRng {
    StdRng::seed_from_u64(seed())
}

/// A server of the test's own, with types and queues.
struct World {
    cluster: Cluster,
    client: Client,
    pid: i32,
}

impl World {
    fn new() -> World {
        let cluster = Cluster::new("");
        cluster.wait_running();
        let mut client = cluster.client();
        // Only fatal messages are logged.
        client.run("SET log_min_messages = fatal");
        client.run(values::TYPES);
        client.run(ATTEMPT);
        KEYS.iter().for_each(|key| client.run(&key.table()));
        let pid = pid(&mut client);
        World { cluster, client, pid }
    }

    /// Runs calls and rolls each back. Returns "OK000" and the answer, or the error, for each.
    fn attempt(&mut self, calls: &[String]) -> Vec<String> {
        let sql =
            "SELECT attempt(sql) FROM unnest($1::text[]) WITH ORDINALITY AS u(sql, n) ORDER BY n";
        let mut answers = Vec::with_capacity(calls.len());
        for batch in calls.chunks(BATCH) {
            match self.client.query(sql, &[&batch]) {
                Ok(rows) => answers.extend(rows.iter().map(|row| row.get::<_, String>(0))),
                Err(e) if e.is_closed() || code(&e).starts_with("57P") => self.blame(batch),
                Err(e) => panic!("the batch itself fails: {e:?}"),
            }
        }
        for (call, answer) in calls.iter().zip(&answers) {
            assert_is_clear(call, answer);
        }
        answers
    }

    /// Finds the call that crashed the server.
    fn blame(&mut self, batch: &[String]) -> ! {
        for call in batch {
            self.cluster.wait_running();
            let mut client = self.cluster.client();
            let run = client.query("SELECT attempt($1)", &[call]);
            assert!(run.is_ok(), "the server crashes by {call}");
        }
        panic!("the server crashes by one of {} calls, not by each alone", batch.len());
    }

    /// Asserts that the backend has survived, the queues are consistent, and the log is quiet.
    fn verify(mut self) {
        assert_eq!(pid(&mut self.client), self.pid);
        for key in KEYS {
            let check = format!("SELECT xqueue.check('{}')", key.name);
            wait_until("check finds nothing wrong", || {
                let report: Value = scalar(&mut self.client, &check, &[]);
                report["ok"] == json!(true) || report["problems"] == json!([])
            });
        }
        self.cluster.assert_quiet();
    }
}

/// Runs a statement and rolls it back; returns its result.
const ATTEMPT: &str = "
    CREATE FUNCTION attempt(sql text) RETURNS text LANGUAGE plpgsql AS $$
    DECLARE answer text; state text;
    BEGIN
        EXECUTE sql INTO answer;
        RAISE EXCEPTION USING ERRCODE = 'OK000', MESSAGE = coalesce(answer, 'NULL');
    EXCEPTION WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, answer = MESSAGE_TEXT;
        RETURN state || ' ' || answer;
    END $$";

#[track_caller]
fn assert_is_clear(call: &str, answer: &str) {
    let is_of_the_server = OF_THE_SERVER.iter().any(|known| answer.contains(known));
    let is_internal = answer.starts_with("XX") && !is_of_the_server;
    assert!(!is_internal, "{call}\n  gives {answer}");
}

#[test]
fn ids_of_every_type_and_shape() {
    let (mut world, mut random) = (World::new(), random());
    let values = values::all(&mut world.client, &mut random);
    let mut calls = Vec::new();
    for key in KEYS {
        let gets_all = matches!(key.name, "q_bigint" | "q_two");
        let count = if gets_all { values.len() } else { VALUES_PER_KEY };
        let peek = |value: &String| format!("SELECT xqueue.peek('{}', {value})::text", key.name);
        calls.extend(values.choose_multiple(&mut random, count).map(peek));
    }
    let answers = world.attempt(&calls);
    let found = answers.iter().filter(|answer| answer.starts_with("OK000")).count();
    println!("{} ids, {found} of them right", calls.len());
    assert!(found > 100, "only {found} ids are right");
    // An id that is right is that of the task.
    let scalars = values::scalars(&mut world.client);
    let mut calls = Vec::new();
    for Key { name, key, .. } in KEYS.iter().filter(|key| key.is_scalar()) {
        calls.extend(scalars.iter().map(|value| {
            format!(
                "SELECT bool_and(t.id::text = format('%s', {value})::{key}::text)::text \
                 FROM xqueue.peek(NULL::{name}, {value}) AS t"
            )
        }));
    }
    let answers = world.attempt(&calls);
    for (call, answer) in calls.iter().zip(&answers) {
        assert!(answer != "OK000 false", "{call}: another task");
    }
    let right = answers.iter().filter(|answer| *answer == "OK000 true").count();
    println!("{} ids, {right} of them of a task", calls.len());
    assert!(right > 50);
    world.verify();
}

#[test]
fn every_function_with_a_wrong_type_for_each_argument() {
    let (mut world, mut random) = (World::new(), random());
    let values = values::all(&mut world.client, &mut random);
    let mut calls = Vec::new();
    for function in functions(&mut world.client) {
        for argument in 0..function.arguments.len() {
            for value in values.choose_multiple(&mut random, VALUES_PER_ARGUMENT) {
                let key = KEYS.choose(&mut random).expect("a key");
                calls.push(call(&function, key, Some((argument, value.as_str()))));
            }
        }
        let key = KEYS.choose(&mut random).expect("a key");
        calls.push(call(&function, key, None));
    }
    let (procedures, functions): (Vec<_>, Vec<_>) =
        calls.into_iter().partition(|call| call.starts_with("CALL"));
    let answers = world.attempt(&functions);
    let right = answers.iter().filter(|answer| answer.starts_with("OK000")).count();
    println!("{} calls of functions, {right} of them right", functions.len());
    // Each procedure commits by itself.
    for call in &procedures {
        if let Err(e) = world.client.simple_query(call) {
            let error = e.as_db_error().unwrap_or_else(|| panic!("the server crashes by {call}"));
            assert_is_clear(call, &format!("{} {}", error.code().code(), error.message()));
        }
    }
    println!("{} calls of procedures", procedures.len());
    world.verify();
}

/// Variables of PL/pgSQL: expanded arrays and records, including a type that was altered later.
#[test]
fn expanded_values() {
    let mut world = World::new();
    let mut calls = Vec::new();
    for (number, (declared, value)) in values::EXPANDED.iter().enumerate() {
        let body = format!(
            "DECLARE v {declared} := {value}; answer text;
             BEGIN EXECUTE sql INTO answer USING v; RETURN answer; END"
        );
        let create = format!(
            "CREATE FUNCTION via_{number}(sql text) RETURNS text LANGUAGE plpgsql AS $f$ {body} $f$"
        );
        world.client.run(&create);
        for Key { name, .. } in KEYS {
            for call in [
                "peek(''{q}'', $1)",
                "stats(''{q}'', $1)",
                "take(''{q}'', id => $1)",
                "delete(NULL::{q}, $1)",
                "wait(''{q}'', $1, ''1 ms'')",
                "ack($1)",
                "peek($1)",
            ] {
                let call = call.replace("{q}", name);
                calls.push(format!("SELECT via_{number}('SELECT xqueue.{call}::text')"));
            }
        }
    }
    world.attempt(&calls);
    // The functions still have the old types.
    world.client.run("ALTER TABLE other ALTER id TYPE text, ADD more bytea");
    world.client.run("ALTER TYPE loose ALTER ATTRIBUTE a TYPE text, ADD ATTRIBUTE c bytea");
    let answers = world.attempt(&calls);
    println!("{} calls", 2 * answers.len());
    world.verify();
}

/// A value in its wire format.
#[derive(Debug, Clone)]
struct Raw(Vec<u8>);

impl<'a> FromSql<'a> for Raw {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Raw, Box<dyn Error + Sync + Send>> {
        Ok(Raw(raw.to_vec()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl ToSql for Raw {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut postgres::types::private::BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// Binary parameters of a prepared statement, in the server's own format, and with a byte changed or missing.
#[test]
fn binary_parameters() {
    let (mut world, mut random) = (World::new(), random());
    let scalars = values::scalars(&mut world.client);
    let mut sent = 0;
    for value in &scalars {
        for shape in [value.clone(), format!("ARRAY[{value}, NULL]")] {
            let Ok(row) = world.client.query_one(&format!("SELECT {shape}"), &[]) else { continue };
            let kind = row.columns()[0].type_().clone();
            let Some(Raw(bytes)) = row.get(0) else { continue };
            let key = KEYS.choose(&mut random).expect("a key");
            let sql = format!("SELECT xqueue.peek('{}', $1)::text", key.name);
            let Ok(statement) = world.client.prepare_typed(&sql, &[kind]) else { continue };
            let mut changed = bytes.clone();
            if !changed.is_empty() {
                let place = random.random_range(0..changed.len());
                changed[place] ^= 1 << random.random_range(0..8);
            }
            let shorter = bytes[..bytes.len() / 2].to_vec();
            for bytes in [bytes, changed, shorter] {
                sent += 1;
                if let Err(e) = world.client.query(&statement, &[&Raw(bytes.clone())]) {
                    let error = e.as_db_error();
                    let error = error
                        .unwrap_or_else(|| panic!("the server crashes by {shape} as {bytes:?}"));
                    // The server's own input function has rejected it.
                    if error.where_().is_some_and(|place| place.contains("portal parameter")) {
                        continue;
                    }
                    let answer = format!("{} {}", error.code().code(), error.message());
                    assert_is_clear(&format!("{sql} with {shape} as {bytes:?}"), &answer);
                }
            }
        }
    }
    println!("{sent} parameters");
    assert!(sent > 300);
    world.verify();
}
