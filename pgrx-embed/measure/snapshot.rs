//! A transaction that keeps an old snapshot and does nothing, so that VACUUM removes nothing.

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
        // Its end would come with that of the connection, a moment later.
        drop(self.0.batch_execute("ROLLBACK"));
    }
}
