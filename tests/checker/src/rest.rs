//! The state of the queues after clients and faults have ended.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use postgres::Client;
use serde_json::Value;

use crate::event::{Token, now};
use crate::queues::{QUEUES, SWITCHES, Spec};
use crate::verify::{Remains, Violation};

/// Delays, times to run and lives of the checker's tasks end within this time.
const LONGEST: Duration = Duration::from_secs(4);
/// The worker must finish within this time: a recount that stopped for faults waits for up to a minute.
const PATIENCE: Duration = Duration::from_secs(180);

pub struct Rest<'a> {
    pub client: &'a mut Client,
    pub violations: Vec<Violation>,
    pub skipped: Vec<String>,
    /// Number of indexes that amcheck has read.
    pub indexes: u64,
}

impl Rest<'_> {
    pub fn of(client: &mut Client) -> Rest<'_> {
        Rest { client, violations: Vec::new(), skipped: Vec::new(), indexes: 0 }
    }

    pub fn read(&mut self) -> Remains {
        self.mend();
        self.come_to_rest();
        let remains = self.remains();
        QUEUES.iter().for_each(|spec| self.check(spec));
        self.check_indexes();
        QUEUES.iter().for_each(|spec| self.drain(spec));
        remains
    }

    fn violation(&mut self, kind: &'static str, case: String) {
        self.violations.push(Violation::new(kind, case));
    }

    #[track_caller]
    fn value<T: postgres::types::FromSqlOwned>(&mut self, sql: &str) -> T {
        xqueue_tests::scalar(self.client, sql, &[])
    }

    /// Remakes indexes that a fault has dropped, and restores the options of the queue that changed.
    fn mend(&mut self) {
        let last = SWITCHES[SWITCHES.len() - 1];
        for spec in &QUEUES {
            let options = if spec.name == "changing" { last } else { "{}" };
            let _definition: Value =
                self.value(&format!("SELECT xqueue.upgrade('{}', '{options}')", spec.name));
        }
    }

    fn come_to_rest(&mut self) {
        std::thread::sleep(LONGEST);
        let moving = QUEUES
            .map(|spec| format!("SELECT 1 FROM {} WHERE status::text IN ('T', 'W')", spec.name));
        let moving = format!("SELECT EXISTS ({})", moving.join(" UNION ALL "));
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE && self.value(&moving) {
            std::thread::sleep(Duration::from_millis(20));
        }
        if self.value(&moving) {
            let what = "no task is taken or waits at the end";
            self.violation("the worker does not do its work", what.into());
        }
    }

    fn remains(&mut self) -> Remains {
        let mut remains = Remains { at: now(), ..Remains::default() };
        for spec in &QUEUES {
            let sql = format!("SELECT (payload->>'t')::bigint, status::text FROM {}", spec.name);
            for row in self.client.query(&sql, &[]).expect("the table can be read") {
                let (token, state): (Option<i64>, String) = (row.get(0), row.get(1));
                let token: Token = token.unwrap_or(0).cast_unsigned();
                remains.rows.entry(token).or_default().extend(state.chars().take(1));
            }
        }
        let sql = "SELECT token, count(*)::int FROM effects GROUP BY 1";
        for row in self.client.query(sql, &[]).expect("the table can be read") {
            let (token, count): (i64, i32) = (row.get(0), row.get(1));
            remains.effects.insert(token.cast_unsigned(), count.cast_unsigned());
        }
        remains
    }

    /// Compares the counters with the table, and asserts that `check` reports no problem.
    fn check(&mut self, spec: &Spec) {
        let name = spec.name;
        let counted = format!(
            "SELECT jsonb_build_object('ready', count(*) FILTER (WHERE s = 'R'), 'taken', count(*) FILTER (WHERE s = 'T'),
             'waiting', count(*) FILTER (WHERE s = 'W'), 'buried', count(*) FILTER (WHERE s = 'B'),
             'zombie', count(*) FILTER (WHERE s = 'Z'), 'done', count(*) FILTER (WHERE s = 'D'), 'total', count(*))
             FROM (SELECT status::text AS s FROM {name}) rows"
        );
        let stats = format!("SELECT xqueue.stats('{name}')");
        let begun = Instant::now();
        loop {
            let (stats, counted): (Value, Value) = (self.value(&stats), self.value(&counted));
            if stats["exact"] == true && stats["tasks"] == counted {
                break;
            }
            if begun.elapsed() > PATIENCE {
                self.violation("counters", format!("{name}: {stats}, but {counted}"));
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let report: Value = self.value(&format!("SELECT xqueue.check('{name}')"));
        if report["ok"] != true {
            self.violation("check", report.to_string());
        }
    }

    /// Checks that each index is in order and has an entry for each row.
    fn check_indexes(&mut self) {
        if let Err(e) = self.client.batch_execute("CREATE EXTENSION IF NOT EXISTS amcheck") {
            let why =
                e.as_db_error().map_or_else(|| e.to_string(), |error| error.message().to_owned());
            return self.skipped.push(format!("amcheck: {why}"));
        }
        for (name, check) in xqueue_tests::index_checks(self.client) {
            if let Err(e) = self.client.batch_execute(&check) {
                let error = e.as_db_error().map_or("", |error| error.message()).to_owned();
                self.violation("amcheck", format!("{name}: {error}"));
            }
            self.indexes += 1;
        }
    }

    /// Takes all tasks with one consumer, and checks their order.
    fn drain(&mut self, spec: &Spec) {
        let name = spec.name;
        let tube = if spec.tubes > 0 { "tube" } else { "''" };
        // The function that picks chooses the greatest key first.
        let order = match spec {
            _ if spec.has("priority") => "q.priority, q.id",
            _ if spec.has("pick") => "q.id DESC",
            _ => "q.id",
        };
        let expected = format!(
            "SELECT {tube}, id::text FROM {name} q WHERE status::text = 'R' ORDER BY {order}"
        );
        let expected: Vec<(String, String)> = self.pairs(&expected);
        let mut taken: Vec<(String, String)> = Vec::new();
        loop {
            let take = format!(
                "SELECT {tube}, id::text FROM xqueue.take(NULL::{name}, count => 50) WITH ORDINALITY t ORDER BY ordinality"
            );
            let tasks = self.pairs(&take);
            if tasks.is_empty() {
                break;
            }
            let keys: Vec<&str> = tasks.iter().map(|(_, id)| id.as_str()).collect();
            let ack =
                format!("SELECT xqueue.ack('{name}', '{{{}}}'::{}[])", keys.join(","), spec.key());
            self.client.batch_execute(&ack).expect("its own tasks are acked");
            taken.extend(tasks);
        }
        // The order is defined only within a sub-queue.
        let is_in_order = match spec.has("utube") {
            true => by_tube(&expected) == by_tube(&taken),
            false => expected == taken,
        };
        if !is_in_order {
            let case = format!("{name}: {expected:?}, but {taken:?}");
            self.violation("the last tasks come in another order, or not", case);
        }
    }

    fn pairs(&mut self, sql: &str) -> Vec<(String, String)> {
        let rows = self.client.query(sql, &[]).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        rows.iter()
            .map(|row| (row.get::<_, Option<String>>(0).unwrap_or_default(), row.get(1)))
            .collect()
    }
}

fn by_tube(tasks: &[(String, String)]) -> BTreeMap<&str, Vec<&str>> {
    let mut tubes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    tasks.iter().for_each(|(tube, id)| tubes.entry(tube).or_default().push(id));
    tubes
}
