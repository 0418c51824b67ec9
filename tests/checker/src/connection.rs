//! A connection of a client, and the outcome of its calls.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postgres::types::ToSql;
use postgres::{Client, Config, NoTls, Statement};
use serde_json::Value;

/// The connection was lost, or the server does not guarantee the outcome of a call.
pub struct Lost;

/// None if the server has rolled the call back.
pub type Answer<T> = Result<Option<T>, Lost>;

pub struct Connection {
    client: Client,
    statements: HashMap<String, Statement>,
    is_doubtful: Arc<AtomicBool>,
}

/// Returns the configuration of a connection to the server whose socket is in a folder.
pub fn config(folder: &str, name: &str) -> Config {
    let mut config = Config::new();
    config
        .host(folder)
        .port(5432)
        .user("postgres")
        .dbname("postgres")
        .application_name(name)
        .connect_timeout(Duration::from_secs(10))
        .options("-c statement_timeout=60s -c client_min_messages=warning");
    config
}

impl Connection {
    pub fn open(folder: &str, name: &str) -> Result<Connection, postgres::Error> {
        let is_doubtful = Arc::new(AtomicBool::new(false));
        let mut config = config(folder, name);
        let epoch = is_doubtful.clone();
        // "The transaction has already committed locally, but might not have been replicated to the standby."
        config.notice_callback(move |notice| {
            if notice.message().contains("synchronous replication") {
                epoch.store(true, Ordering::Relaxed);
            }
        });
        let client = config.connect(NoTls)?;
        Ok(Connection { client, statements: HashMap::new(), is_doubtful })
    }

    /// Returns the first column, jsonb, of each row.
    pub fn query(&mut self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Answer<Vec<Value>> {
        let rows = self.statement(sql).and_then(|statement| self.client.query(&statement, params));
        let values = |rows: Vec<postgres::Row>| {
            rows.iter().filter_map(|row| row.get::<_, Option<Value>>(0)).collect()
        };
        self.answer(rows.map(values))
    }

    pub fn execute(&mut self, sql: &str) -> Answer<()> {
        let done = self.client.batch_execute(sql);
        self.answer(done)
    }

    /// Rolls an open transaction back, if there is one.
    pub fn roll_back(&mut self) {
        // Without a connection there is no transaction.
        drop(self.client.batch_execute("ROLLBACK"));
    }

    fn statement(&mut self, sql: &str) -> Result<Statement, postgres::Error> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql)?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    fn answer<T>(&mut self, result: Result<T, postgres::Error>) -> Answer<T> {
        match result {
            _ if self.is_doubtful.load(Ordering::Relaxed) => Err(Lost),
            Ok(value) => Ok(Some(value)),
            Err(e) => match e.as_db_error() {
                Some(error) if error.severity() == "ERROR" && !self.client.is_closed() => {
                    // Plans for a changed table can be unusable.
                    self.statements.clear();
                    Ok(None)
                }
                _ => Err(Lost),
            },
        }
    }
}
