//! Kills a consumer while it holds tasks, and measures the time until they are ready again.

use std::thread::sleep;
use std::time::{Duration, Instant};

use postgres::{Client, Statement};

use crate::Result;
use crate::child::Consumer;

const HELD: &str = "
    SELECT count(*) FROM tour.files WHERE owner = $1::text::uuid AND status = 'T'";
/// The longest search for a consumer that holds tasks.
const SEARCH: Duration = Duration::from_secs(1);
/// Tasks of a dead consumer that take longer count as lost.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_micros(100);

pub struct Kill {
    pub session: String,
    pub ready_after: Duration,
}

pub struct Killer {
    held: Statement,
}

impl Killer {
    pub fn new(db: &mut Client) -> Result<Killer> {
        Ok(Killer { held: db.prepare(HELD)? })
    }

    /// Kills the first consumer found at work, beginning with `start`, and returns its index. Returns None if no
    /// consumer held a task.
    pub fn kill(
        &self,
        db: &mut Client,
        consumers: &mut [Consumer],
        start: usize,
    ) -> Result<Option<(usize, Kill)>> {
        let (count, begin) = (consumers.len(), Instant::now());
        for victim in (start..).map(|number| number % count) {
            if self.held(db, &consumers[victim].session)? > 0 {
                return Ok(Some((victim, self.kill_one(db, &mut consumers[victim])?)));
            }
            if begin.elapsed() > SEARCH {
                break;
            }
            sleep(POLL);
        }
        Ok(None)
    }

    fn kill_one(&self, db: &mut Client, consumer: &mut Consumer) -> Result<Kill> {
        let begin = Instant::now();
        consumer.kill()?;
        loop {
            let held = self.held(db, &consumer.session)?;
            let ready_after = begin.elapsed();
            if held == 0 {
                return Ok(Kill { session: consumer.session.clone(), ready_after });
            }
            if ready_after > PATIENCE {
                let session = &consumer.session;
                return Err(format!(
                    "{held} tasks of {session} are still taken {PATIENCE:?} after its death"
                )
                .into());
            }
            sleep(POLL);
        }
    }

    fn held(&self, db: &mut Client, session: &str) -> Result<i64> {
        Ok(db.query_one(&self.held, &[&session])?.get(0))
    }
}
