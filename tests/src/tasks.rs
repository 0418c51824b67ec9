//! The everyday calls in their jsonb form.

use postgres::Client;
use serde_json::Value;

use crate::client::{query, scalar, values};

#[track_caller]
pub fn id(task: &Value) -> i64 {
    task["id"].as_i64().unwrap_or_else(|| panic!("a task without id: {task}"))
}

#[track_caller]
pub fn ids(tasks: &[Value]) -> Vec<i64> {
    tasks.iter().map(id).collect()
}

/// Puts one task with its number as payload and returns its id.
#[track_caller]
pub fn put(c: &mut Client, queue: &str, number: i64) -> i64 {
    let task = serde_json::json!({"payload": {"n": number}});
    id(&scalar(c, "SELECT xqueue.put($1::text, $2::jsonb)", &[&queue, &task]))
}

#[track_caller]
pub fn take(c: &mut Client, queue: &str, timeout: &str, count: i32) -> Vec<Value> {
    let sql = "SELECT t FROM xqueue.take($1::text, $2::text::interval, $3) AS t";
    values(c, sql, &[&queue, &timeout, &count])
}

/// Takes every task that is ready now.
#[track_caller]
pub fn take_all(c: &mut Client, queue: &str) -> Vec<i64> {
    ids(&take(c, queue, "0", 1_000_000))
}

#[track_caller]
pub fn ack(c: &mut Client, queue: &str, id: i64) -> Vec<Value> {
    values(c, "SELECT xqueue.ack($1::text, $2::bigint)", &[&queue, &id])
}

#[track_caller]
pub fn release(c: &mut Client, queue: &str, id: i64) -> Vec<Value> {
    values(c, "SELECT xqueue.release($1::text, $2::bigint)", &[&queue, &id])
}

/// Returns the status letter in the table; None if the task does not exist.
#[track_caller]
pub fn status(c: &mut Client, queue: &str, id: i64) -> Option<String> {
    let sql = format!("SELECT status::text FROM {queue} WHERE id = $1");
    query(c, &sql, &[&id]).expect("the status is readable").first().map(|row| row.get(0))
}
