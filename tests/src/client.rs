//! Connections, the polling of conditions, and small reading helpers.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use postgres::types::{FromSqlOwned, ToSql, Type};
use postgres::{Client, Config, NoTls, Row};
use serde_json::Value;

use crate::turn::beside_others;

/// Time after which a condition that does not hold is a hang. It measures no speed.
const DEADLINE: Duration = Duration::from_secs(20);

const SHORTEST_PAUSE: Duration = Duration::from_millis(4);
const LONGEST_PAUSE: Duration = Duration::from_millis(40);

/// Types of the parameters of most queries.
const PARAMETERS: [Type; 5] = [Type::TEXT, Type::INT8, Type::INT4, Type::BOOL, Type::JSONB];

fn setting(name: &str, otherwise: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| otherwise.to_owned())
}

pub fn database() -> String {
    setting("PGDATABASE", "xqueue_test")
}

/// Returns the configuration of a connection to a database of the server under test.
pub fn config(db: &str) -> Config {
    let port = setting("PGPORT", "5432").parse().expect("PGPORT is a number");
    let mut config = config_at(&setting("PGHOST", "/tmp"), port, db);
    config.user(&setting("PGUSER", "postgres"));
    config
}

/// Returns the configuration with which the superuser connects to another server.
pub fn config_at(host: &str, port: u16, db: &str) -> Config {
    beside_others();
    let mut config = Config::new();
    config
        .host(host)
        .port(port)
        .user("postgres")
        .dbname(db)
        .application_name("xqueue-tests")
        .options("-c statement_timeout=60s -c client_min_messages=warning");
    config
}

pub fn try_connect(db: &str) -> Result<Client, postgres::Error> {
    config(db).connect(NoTls)
}

pub fn connect() -> Client {
    connect_to(&database())
}

pub fn connect_to(db: &str) -> Client {
    open(&config(db))
}

#[track_caller]
pub fn open(config: &Config) -> Client {
    config.connect(NoTls).unwrap_or_else(|e| panic!("cannot connect with {config:?}: {e:?}"))
}

pub fn connect_as(role: &str) -> Client {
    open(config(&database()).user(role))
}

/// Returns a name that no other test, and no earlier run, uses.
pub fn unique(theme: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let clock = std::time::UNIX_EPOCH.elapsed().expect("the clock is after 1970");
    format!(
        "{theme}_{:x}_{}_{}",
        clock.as_secs() & 0xff_ffff,
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// Polls a condition until it holds. The pauses grow with the time waited, so that long waits leave the processors to
/// other tests.
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        let waited = start.elapsed();
        assert!(waited < DEADLINE, "waited {DEADLINE:?} until {what}");
        std::thread::sleep((waited / 16).clamp(SHORTEST_PAUSE, LONGEST_PAUSE));
    }
}

/// Runs a query in one round trip; `Client::query` prepares and closes a statement in two more. That needs the types of
/// the parameters: the first of `PARAMETERS` that accepts the value.
pub fn query(
    c: &mut Client,
    sql: &str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, postgres::Error> {
    let typed: Option<Vec<_>> = params.iter().map(|value| Some((*value, kind(*value)?))).collect();
    match typed {
        Some(typed) => c.query_typed(sql, &typed),
        None => c.query(sql, params),
    }
}

fn kind(value: &(dyn ToSql + Sync)) -> Option<Type> {
    let accepts = |kind: &&Type| value.to_sql_checked(kind, &mut Default::default()).is_ok();
    PARAMETERS.iter().find(accepts).cloned()
}

/// Statements that must succeed.
pub trait Run {
    fn run(&mut self, sql: &str);
}

impl Run for Client {
    #[track_caller]
    fn run(&mut self, sql: &str) {
        self.batch_execute(sql).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    }
}

#[track_caller]
pub fn scalar<T: FromSqlOwned>(c: &mut Client, sql: &str, params: &[&(dyn ToSql + Sync)]) -> T {
    match query(c, sql, params).as_deref() {
        Ok([row]) => row.get(0),
        Ok(rows) => panic!("{sql}: {} rows", rows.len()),
        Err(e) => panic!("{sql}: {e:?}"),
    }
}

/// Returns the first column, a jsonb, of every row.
#[track_caller]
pub fn values(c: &mut Client, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Vec<Value> {
    match query(c, sql, params) {
        Ok(rows) => rows.iter().map(|row| row.get(0)).collect(),
        Err(e) => panic!("{sql}: {e:?}"),
    }
}

#[track_caller]
pub fn pid(c: &mut Client) -> i32 {
    scalar(c, "SELECT pg_backend_pid()", &[])
}
