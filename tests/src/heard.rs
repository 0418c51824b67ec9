//! The warnings that a connection gets.

use std::sync::{Arc, Mutex};

use postgres::error::DbError;
use postgres::{Client, Config};

use crate::client::open;

pub struct Heard(Arc<Mutex<Vec<DbError>>>);

impl Heard {
    #[track_caller]
    pub fn open(mut config: Config) -> (Client, Heard) {
        let warnings = Arc::new(Mutex::new(Vec::new()));
        let heard = Heard(warnings.clone());
        config.notice_callback(move |notice| warnings.lock().unwrap().push(notice));
        (open(&config), heard)
    }

    /// Returns the warnings since the last call.
    pub fn take(&self) -> Vec<DbError> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}
