//! Puts in transactions that are prepared, kept open for a while, and resolved.

use std::path::Path;

use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use crate::client::{Log, Tokens};
use crate::event::{Item, Kind, now};
use crate::queues::QUEUES;
use crate::site::Site;

pub struct Prepared {
    log: Log,
    tokens: Tokens,
    open: Vec<Open>,
    number: u32,
}

struct Open {
    name: String,
    queue: usize,
    begin: u64,
    items: Vec<Item>,
}

impl Prepared {
    pub fn new(log: &Path) -> Prepared {
        Prepared { log: Log::open(log), tokens: Tokens::of(0), open: Vec::new(), number: 0 }
    }

    pub fn begin(&mut self, site: &Site, random: &mut StdRng) -> Result<(), String> {
        for _ in 0..random.random_range(1..4) {
            let queue = random.random_range(0..QUEUES.len());
            let count = random.random_range(1..4);
            let items: Vec<Item> =
                (0..count).map(|_| Item { token: self.tokens.next(), ..Item::default() }).collect();
            let begin = now();
            self.log.write(Kind::WillPut, queue, begin, &items);
            self.number += 1;
            let open = Open { name: format!("checker_{}", self.number), queue, begin, items };
            let put = self.put(site, &open);
            self.open.push(open);
            put.map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    fn put(&mut self, site: &Site, open: &Open) -> Result<(), postgres::Error> {
        let spec = &QUEUES[open.queue];
        let task = |item: &Item| {
            let mut task = json!({"payload": {"t": item.token}});
            if spec.tubes > 0 {
                task["tube"] = json!("0");
            }
            task
        };
        let tasks = Value::Array(open.items.iter().map(task).collect());
        let mut client = site.client();
        client.batch_execute("BEGIN")?;
        let rows = client.query("SELECT xqueue.put($1::text, $2::jsonb)", &[&spec.name, &tasks])?;
        // Without capacity there is no transaction to commit later.
        if !rows.is_empty() {
            client.batch_execute(&format!("PREPARE TRANSACTION '{}'", open.name))?;
        }
        Ok(())
    }

    /// Commits or rolls back all prepared transactions. Transactions that were not prepared ended with their
    /// connections.
    pub fn end(&mut self, site: &Site, random: &mut StdRng) {
        for open in std::mem::take(&mut self.open) {
            let verb = ["COMMIT", "ROLLBACK"][random.random_range(0..2)];
            let mut was_there = false;
            while is_prepared(site, &open.name) {
                was_there = true;
                let mut client = site.client();
                // Repeats until the transaction is resolved, regardless of the answer.
                drop(client.batch_execute(&format!("{verb} PREPARED '{}'", open.name)));
            }
            let is_put = was_there && verb == "COMMIT";
            let kind = if is_put { Kind::Put } else { Kind::PutRefused };
            // The keys are unknown; with the greatest key, these tasks never count as overtaken.
            let unknown = |item: &Item| Item { key: i64::MAX, ..*item };
            let items: Vec<Item> = open.items.iter().map(unknown).collect();
            self.log.write(kind, open.queue, open.begin, &items);
        }
    }
}

fn is_prepared(site: &Site, name: &str) -> bool {
    let sql = "SELECT EXISTS (SELECT FROM pg_prepared_xacts WHERE gid = $1)";
    loop {
        if let Ok(row) = site.client().query_one(sql, &[&name]) {
            return row.get(0);
        }
    }
}
