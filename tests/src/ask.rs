//! SQL queries on a queue; `{q}` in them stands for its name.

use postgres::Client;
use postgres::error::DbError;
use serde_json::Value;

use crate::client::values;
use crate::errors::expect_error;
use crate::queue::Queue;

/// Returns the first column, a jsonb, of every row.
#[track_caller]
pub fn ask(c: &mut Client, queue: &str, sql: &str) -> Vec<Value> {
    values(c, &sql.replace("{q}", queue), &[])
}

/// Returns the first column of the only row.
#[track_caller]
pub fn ask_one(c: &mut Client, queue: &str, sql: &str) -> Value {
    let mut answer = ask(c, queue, sql);
    assert_eq!(answer.len(), 1, "one row, not {answer:?}, from {sql}");
    answer.remove(0)
}

impl Queue {
    #[track_caller]
    pub fn ask(&mut self, sql: &str) -> Vec<Value> {
        let name = self.name.clone();
        ask(&mut self.admin, &name, sql)
    }

    #[track_caller]
    pub fn ask_one(&mut self, sql: &str) -> Value {
        let name = self.name.clone();
        ask_one(&mut self.admin, &name, sql)
    }

    /// Returns whether a condition holds for the row with this id.
    #[track_caller]
    pub fn holds(&mut self, id: i64, condition: &str) -> bool {
        let sql = format!("SELECT to_jsonb({condition}) FROM {{q}} WHERE id = {id}");
        self.ask_one(&sql) == Value::Bool(true)
    }

    #[track_caller]
    pub fn fails(&mut self, sql: &str, states: &str, words: &str) -> DbError {
        let sql = sql.replace("{q}", &self.name);
        expect_error(&mut self.admin, &sql, states, words)
    }

    #[track_caller]
    pub fn transition(&mut self, name: &str) -> i64 {
        self.stats()["transitions"][name].as_i64().unwrap_or(0)
    }
}
