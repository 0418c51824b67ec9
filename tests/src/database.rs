//! A database of the test's own.

use postgres::Client;

use crate::client::{config, connect, connect_to, open, scalar, unique, wait_until};

pub struct Database {
    pub name: String,
    pub admin: Client,
}

impl Database {
    pub fn empty(theme: &str) -> Database {
        let mut database = Database { name: unique(theme), admin: connect() };
        database.sql(&format!("CREATE DATABASE {}", database.name));
        database
    }

    pub fn new(theme: &str) -> Database {
        let database = Database::empty(theme);
        let mut client = database.client();
        client.batch_execute("CREATE EXTENSION xqueue").expect("the extension is created");
        database
    }

    pub fn client(&self) -> Client {
        connect_to(&self.name)
    }

    /// Connects as a role and grants it CREATE on schema public.
    pub fn client_as(&self, role: &str) -> Client {
        let grant = format!("GRANT CREATE ON SCHEMA public TO {role}");
        self.client().batch_execute(&grant).unwrap_or_else(|e| panic!("{grant}: {e:?}"));
        open(config(&self.name).user(role))
    }

    /// Waits until the connections that the test has closed are gone.
    #[track_caller]
    pub fn wait_until_alone(&mut self) {
        let connected = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = $1 \
                         AND application_name = 'xqueue-tests')";
        wait_until("the test's own connections are gone", || {
            scalar(&mut self.admin, connected, &[&self.name])
        });
    }

    /// Runs statements in the database that the tests start from, not in this one.
    #[track_caller]
    pub fn sql(&mut self, sql: &str) {
        self.admin.batch_execute(sql).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let sql = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let dropped = self.admin.batch_execute(&sql);
        if !std::thread::panicking() {
            dropped.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        }
    }
}
