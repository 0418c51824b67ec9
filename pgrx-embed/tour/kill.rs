//! Kills a consumer while it holds tasks, and measures how long they take to be ready again.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

use postgres::{Client, Statement};

use crate::Result;
use crate::child::Consumer;

/// How long to look for a consumer that holds tasks.
const SEARCH: Duration = Duration::from_secs(1);
/// After this the tasks of a dead consumer are lost, not late.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_micros(100);

pub struct Kill {
    pub session: String,
    /// The tasks it was seen to hold; it may have acked some of them just before it died.
    pub held: Vec<String>,
    pub ready_after: Duration,
}

pub struct Killer {
    held: Statement,
}

impl Killer {
    pub fn new(db: &mut Client) -> Result<Killer> {
        let held = db
            .prepare("SELECT path FROM tour.files WHERE owner = $1::text::uuid AND status = 'T'")?;
        Ok(Killer { held })
    }

    /// Kills the first of the consumers found at work, `start` first, and says which. None: nobody held a task.
    pub fn kill(
        &self,
        db: &mut Client,
        consumers: &mut [Consumer],
        start: usize,
    ) -> Result<Option<(usize, Kill)>> {
        let (count, begin) = (consumers.len(), Instant::now());
        for victim in (start..).map(|number| number % count) {
            let consumer = &mut consumers[victim];
            let held = self.held(db, &consumer.session)?;
            if !held.is_empty() {
                return Ok(Some((victim, self.kill_one(db, consumer, held)?)));
            }
            if begin.elapsed() > SEARCH {
                break;
            }
            sleep(POLL);
        }
        Ok(None)
    }

    fn kill_one(
        &self,
        db: &mut Client,
        consumer: &mut Consumer,
        mut held: BTreeSet<String>,
    ) -> Result<Kill> {
        let begin = Instant::now();
        consumer.kill()?;
        loop {
            let mut still = self.held(db, &consumer.session)?;
            let ready_after = begin.elapsed();
            if still.is_empty() {
                let (session, held) = (consumer.session.clone(), held.into_iter().collect());
                return Ok(Kill { session, held, ready_after });
            }
            if ready_after > PATIENCE {
                let (tasks, session) = (still.len(), &consumer.session);
                return Err(format!(
                    "{tasks} tasks of {session} are not ready {PATIENCE:?} after its death"
                )
                .into());
            }
            held.append(&mut still);
            sleep(POLL);
        }
    }

    fn held(&self, db: &mut Client, session: &str) -> Result<BTreeSet<String>> {
        Ok(db.query(&self.held, &[&session])?.iter().map(|row| row.get(0)).collect())
    }
}
