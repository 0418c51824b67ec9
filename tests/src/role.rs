//! A role that can log in.

use postgres::Client;

use crate::client::{config, connect, connect_as, open, unique};
use crate::code;

/// Two tests that change the privileges of schema public at the same time would fail.
const ONE_AT_A_TIME: &str = "SELECT pg_advisory_xact_lock(5550001)";

/// A role of the test's own, dropped at its end.
pub struct Role {
    pub name: String,
    admin: Client,
}

impl Role {
    pub fn create() -> Role {
        let (name, mut admin) = (unique("priv"), connect());
        admin
            .batch_execute(&format!(
                "{ONE_AT_A_TIME}; CREATE ROLE {name} LOGIN; GRANT CREATE ON SCHEMA public TO {name}"
            ))
            .unwrap();
        Role { name, admin }
    }

    pub fn client(&self) -> Client {
        connect_as(&self.name)
    }

    pub fn client_in(&self, db: &str) -> Client {
        open(config(db).user(&self.name))
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let sql = format!("{ONE_AT_A_TIME}; DROP OWNED BY {0} CASCADE; DROP ROLE {0}", self.name);
        let mut dropped = self.admin.batch_execute(&sql);
        // The worker can have locked the role's tables in another order.
        while dropped.as_ref().is_err_and(|e| code(e) == "40P01") {
            dropped = self.admin.batch_execute(&sql);
        }
        if !std::thread::panicking() {
            dropped.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        }
    }
}
