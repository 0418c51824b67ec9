//! The calls of a client, each logged before and after it.

use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use crate::client::{Log, Tokens};
use crate::connection::{Answer, Connection, Lost};
use crate::event::{Item, Kind, now};
use crate::queues::{QUEUES, Spec};

pub struct Work<'a> {
    pub connection: Connection,
    pub log: &'a mut Log,
    pub tokens: &'a mut Tokens,
    pub random: &'a mut StdRng,
}

/// A taken task, and its key in SQL.
struct Taken {
    item: Item,
    key: String,
    task: Value,
}

impl Work<'_> {
    pub fn put(&mut self, queue: usize) -> Result<(), Lost> {
        let (begin, items, answer) = self.send_put(queue);
        self.log_put(queue, begin, &items, &answer?.unwrap_or_default());
        Ok(())
    }

    /// Inserts rows by hand, like an ORM.
    pub fn insert(&mut self, queue: usize) -> Result<(), Lost> {
        let spec = &QUEUES[queue];
        let (items, begin, name) = (self.new_items(spec), now(), spec.name);
        self.log.write(Kind::WillPut, queue, begin, &items);
        let (tube, one) = if spec.tubes > 0 { (", tube", ", '0'") } else { ("", "") };
        let sql = format!(
            "INSERT INTO {name} (payload{tube}) SELECT jsonb_build_object('t', t){one} FROM unnest($1::bigint[]) t
             RETURNING to_jsonb({name})"
        );
        let tokens: Vec<i64> = items.iter().map(|i| i.token.cast_signed()).collect();
        let rows = self.connection.query(&sql, &[&tokens])?;
        self.log_put(queue, begin, &items, &rows.unwrap_or_default());
        Ok(())
    }

    /// Runs a transaction with a put that is kept, and another that is rolled back to a savepoint.
    pub fn put_partly(&mut self, queue: usize) -> Result<(), Lost> {
        if !self.step("BEGIN")? {
            return Ok(());
        }
        let (begin, items, kept) = self.send_put(queue);
        let Some(rows) = kept? else { return self.abandon(queue, begin, &[&items]) };
        if !self.step("SAVEPOINT s")? {
            self.log.write(Kind::PutRefused, queue, begin, &items);
            return Ok(());
        }
        let (_, more, undone) = self.send_put(queue);
        undone?;
        let end =
            format!("ROLLBACK TO s; {}", ["COMMIT", "ROLLBACK"][self.random.random_range(0..2)]);
        if self.connection.execute(&end)?.is_none() || end.ends_with("ROLLBACK") {
            return self.abandon(queue, begin, &[&items, &more]);
        }
        self.log_put(queue, begin, &items, &rows);
        self.log.write(Kind::PutRefused, queue, begin, &more);
        Ok(())
    }

    pub fn take_and_settle(&mut self, queue: usize) -> Result<(), Lost> {
        let taken = self.take(queue, None)?;
        let mut acked = Vec::new();
        for task in taken {
            match self.random.random_range(0..100) {
                0..85 => acked.push(task),
                85..92 => self.give_back(queue, &task, "release")?,
                92..97 if QUEUES[queue].has("buried") => self.give_back(queue, &task, "bury")?,
                // The task is kept until its time to run or the session ends.
                _ => {}
            }
        }
        if !self.ack(queue, &acked)? {
            // The batch was refused as a whole: acks the tasks that are still held one by one.
            for task in acked {
                self.ack(queue, &[task])?;
            }
        }
        Ok(())
    }

    pub fn take_and_ack_in_transaction(&mut self, queue: usize) -> Result<(), Lost> {
        if !self.step("BEGIN")? {
            return Ok(());
        }
        let begin = now();
        let taken = taken(&self.send_take(queue, None)?.unwrap_or_default());
        if taken.is_empty() {
            return self.step("ROLLBACK").map(drop);
        }
        let items = items(&taken);
        self.log.write(Kind::WillAck, queue, begin, &items);
        let is_acked = self.send_ack(queue, &taken)?.is_some();
        let commits = is_acked && self.random.random_bool(0.8);
        let end = if commits { "COMMIT" } else { "ROLLBACK" };
        if self.connection.execute(end)?.is_some() && commits {
            self.log.write(Kind::Took, queue, begin, &items);
            self.log.write(Kind::Acked, queue, begin, &items);
        } else {
            self.connection.roll_back();
            self.log.write(Kind::AckRefused, queue, begin, &items);
        }
        Ok(())
    }

    /// Takes several times with `done`: each round acks the tasks of the previous one in its commit.
    pub fn take_done(&mut self, queue: usize) -> Result<(), Lost> {
        let mut held = self.take(queue, None)?;
        for _ in 0..self.random.random_range(1..6) {
            if held.is_empty() {
                break;
            }
            held = self.take(queue, Some(&held))?;
        }
        self.ack(queue, &held).map(drop)
    }

    pub fn next(&mut self, queue: usize) -> Result<(), Lost> {
        let mut held: Option<Taken> = None;
        for _ in 0..self.random.random_range(2..8) {
            let begin = now();
            let done = items(held.as_slice());
            self.log.write(Kind::WillAck, queue, begin, &done);
            let sql = "CALL xqueue.next($1::text, '50 milliseconds', NULL, $2::jsonb)";
            let task = held.take().map(|t| t.task);
            let rows = self.connection.query(sql, &[&QUEUES[queue].name, &task])?;
            // The ack can have been committed before the call failed.
            let Some(rows) = rows else { return Ok(()) };
            self.log.write(Kind::Acked, queue, begin, &done);
            held = taken(&rows).pop();
            self.log.write(Kind::Took, queue, begin, &items(held.as_slice()));
            if held.is_none() {
                break;
            }
        }
        self.ack(queue, held.as_slice()).map(drop)
    }

    pub fn kick(&mut self, queue: usize) -> Result<(), Lost> {
        let sql = "SELECT to_jsonb(xqueue.kick($1::text, 100))";
        self.connection.query(sql, &[&QUEUES[queue].name]).map(drop)
    }

    fn send_put(&mut self, queue: usize) -> (u64, Vec<Item>, Answer<Vec<Value>>) {
        let spec = &QUEUES[queue];
        let mut items = self.new_items(spec);
        let begin = now();
        let tasks: Vec<Value> = items.iter().map(|item| self.new_task(spec, item)).collect();
        let delay = (spec.has("delayed") && self.random.random_range(0..4) == 0)
            .then(|| format!("{} milliseconds", self.random.random_range(1..500)));
        let ttl = (spec.has("ttl") && self.random.random_range(0..3) == 0).then_some("2 seconds");
        if ttl.is_some() {
            items.iter_mut().for_each(|item| item.dies = begin + 2_000_000);
        }
        self.log.write(Kind::WillPut, queue, begin, &items);
        let timeout = ["0", "100 milliseconds"][self.random.random_range(0..2)];
        let sql = "SELECT xqueue.put($1::text, $2::jsonb, delay => $3::text::interval, ttl => $4::text::interval,
                   timeout => $5::text::interval)";
        let answer =
            self.connection.query(sql, &[&spec.name, &Value::Array(tasks), &delay, &ttl, &timeout]);
        (begin, items, answer)
    }

    fn new_items(&mut self, spec: &Spec) -> Vec<Item> {
        let count = self.random.random_range(1..=if spec.has("capacity") { 4 } else { 8 });
        (0..count).map(|_| Item { token: self.tokens.next(), ..Item::default() }).collect()
    }

    fn new_task(&mut self, spec: &Spec, item: &Item) -> Value {
        let mut task = json!({"payload": {"t": item.token}});
        if spec.tubes > 0 {
            task["tube"] = json!(self.random.random_range(0..spec.tubes).to_string());
        }
        if spec.has("priority") {
            task["priority"] = json!(self.random.random_range(-2..3));
        }
        task
    }

    /// Logs a put; without rows there was no capacity, or it was refused.
    fn log_put(&mut self, queue: usize, begin: u64, items: &[Item], rows: &[Value]) {
        let dies = |token| items.iter().find(|i| i.token == token).map_or(0, |i| i.dies);
        let put = rows.iter().map(item).map(|i| Item { dies: dies(i.token), ..i });
        let put: Vec<Item> = put.collect();
        let kind = if put.is_empty() { Kind::PutRefused } else { Kind::Put };
        self.log.write(kind, queue, begin, if put.is_empty() { items } else { &put });
    }

    /// Takes, and acks `done` in the same call.
    fn take(&mut self, queue: usize, done: Option<&[Taken]>) -> Result<Vec<Taken>, Lost> {
        let begin = now();
        let acked = items(done.unwrap_or_default());
        self.log.write(Kind::WillAck, queue, begin, &acked);
        let Some(rows) = self.send_take(queue, done)? else {
            self.log.write(Kind::AckRefused, queue, begin, &acked);
            return Ok(Vec::new());
        };
        let taken = taken(&rows);
        self.log.write(Kind::Acked, queue, begin, &acked);
        self.log.write(Kind::Took, queue, begin, &items(&taken));
        Ok(taken)
    }

    fn send_take(&mut self, queue: usize, done: Option<&[Taken]>) -> Answer<Vec<Value>> {
        let spec = &QUEUES[queue];
        let count = self.random.random_range(1..=12);
        let timeout =
            ["0", "0", "30 milliseconds", "300 milliseconds"][self.random.random_range(0..4)];
        let tube = (spec.tubes > 0 && self.random.random_range(0..8) == 0)
            .then(|| self.random.random_range(0..spec.tubes).to_string());
        let keys = done.map(keys);
        let done = keys.as_ref().map(|_| format!(", done => $5::text::{}[]", spec.key()));
        let done = done.unwrap_or_default();
        let sql =
            format!("SELECT xqueue.take($1::text, $2::text::interval, $3, tube => $4::text{done})");
        match &keys {
            Some(keys) => self.connection.query(&sql, &[&spec.name, &timeout, &count, &tube, keys]),
            None => self.connection.query(&sql, &[&spec.name, &timeout, &count, &tube]),
        }
    }

    /// Acks tasks; returns false if the server refused all of them.
    fn ack(&mut self, queue: usize, tasks: &[Taken]) -> Result<bool, Lost> {
        if tasks.is_empty() {
            return Ok(true);
        }
        let (begin, items) = (now(), items(tasks));
        self.log.write(Kind::WillAck, queue, begin, &items);
        let is_acked = self.send_ack(queue, tasks)?.is_some();
        let kind = if is_acked { Kind::Acked } else { Kind::AckRefused };
        self.log.write(kind, queue, begin, &items);
        Ok(is_acked)
    }

    fn send_ack(&mut self, queue: usize, tasks: &[Taken]) -> Answer<Vec<Value>> {
        let spec = &QUEUES[queue];
        let sql = format!("SELECT xqueue.ack($1::text, $2::text::{}[])", spec.key());
        self.connection.query(&sql, &[&spec.name, &keys(tasks)])
    }

    fn give_back(&mut self, queue: usize, task: &Taken, how: &str) -> Result<(), Lost> {
        let (begin, spec) = (now(), &QUEUES[queue]);
        let waits = how == "release" && spec.has("delayed") && self.random.random_bool(0.5);
        let delay = if waits { ", delay => '50 milliseconds'" } else { "" };
        let key = spec.key();
        let sql = format!("SELECT xqueue.{how}($1::text, $2::text::{key}{delay})");
        if self.connection.query(&sql, &[&spec.name, &task.key])?.is_some() {
            self.log.write(Kind::GaveBack, queue, begin, &[task.item]);
        }
        Ok(())
    }

    /// Runs a statement of a transaction. Returns false if it was refused, and the transaction is rolled back.
    fn step(&mut self, sql: &str) -> Result<bool, Lost> {
        let is_done = self.connection.execute(sql)?.is_some();
        if !is_done {
            self.connection.roll_back();
        }
        Ok(is_done)
    }

    /// Logs a transaction of puts that was rolled back, by hand or by an error.
    fn abandon(&mut self, queue: usize, begin: u64, puts: &[&[Item]]) -> Result<(), Lost> {
        self.connection.roll_back();
        for items in puts {
            self.log.write(Kind::PutRefused, queue, begin, items);
        }
        Ok(())
    }
}

fn item(task: &Value) -> Item {
    Item {
        token: task["payload"]["t"].as_u64().unwrap_or(0),
        key: task["id"].as_i64().unwrap_or(0),
        tube: task["tube"].as_str().and_then(|tube| tube.parse().ok()).unwrap_or(0),
        dies: 0,
    }
}

fn taken(rows: &[Value]) -> Vec<Taken> {
    let key = |id: &Value| id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    let taken =
        |task: &Value| Taken { item: item(task), key: key(&task["id"]), task: task.clone() };
    rows.iter().map(taken).collect()
}

fn items(tasks: &[Taken]) -> Vec<Item> {
    tasks.iter().map(|task| task.item).collect()
}

fn keys(tasks: &[Taken]) -> String {
    let keys: Vec<&str> = tasks.iter().map(|task| task.key.as_str()).collect();
    format!("{{{}}}", keys.join(","))
}
