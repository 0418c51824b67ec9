//! A transaction that holds an old snapshot and does nothing, so that VACUUM removes nothing.

use postgres::Client;

use crate::{Result, database};

pub struct OldSnapshot(Client);

impl OldSnapshot {
    pub fn take() -> Result<OldSnapshot> {
        let mut db = database::connect("xqueue measure snapshot")?;
        db.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT;")?;
        Ok(OldSnapshot(db))
    }
}

impl Drop for OldSnapshot {
    fn drop(&mut self) {
        // Without this, the transaction would only end a moment after the connection closes.
        drop(self.0.batch_execute("ROLLBACK"));
    }
}
