//! Random faults of the server and its clients.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;

use crate::client::LASTING_NAME;
use crate::fleet::Fleet;
use crate::prepared::Prepared;
use crate::queues::{QUEUES, SWITCHES};
use crate::site::Site;

/// Clients that faults can hit.
const CLIENT: &str = "backend_type = 'client backend' AND application_name LIKE 'client %'";
const WORKER: &str = "backend_type = 'xqueue worker'";
const LAUNCHER: &str = "backend_type = 'xqueue launcher'";

pub struct Faults {
    pub fleet: Fleet,
    pub site: Site,
    pub random: StdRng,
    prepared: Prepared,
    counts: BTreeMap<&'static str, u32>,
    /// Faults that are impossible here, with the reasons.
    pub skipped: BTreeMap<&'static str, String>,
    columns: u32,
}

/// An error gives the reason why the fault was impossible.
type Result = std::result::Result<(), String>;
type Fault = fn(&mut Faults) -> Result;

/// Name, weight, and function of each fault.
const GENTLE: [(&str, u32, Fault); 9] = [
    ("terminated backends", 10, |f| f.terminate(CLIENT)),
    ("cancelled backends", 14, Faults::cancel),
    ("killed clients", 10, Faults::kill_client),
    ("VACUUM FULL", 3, |f| f.with_queue("VACUUM FULL {q}")),
    ("REINDEX CONCURRENTLY", 3, Faults::reindex),
    ("ALTER TABLE", 4, Faults::alter),
    ("DROP INDEX and upgrade", 3, Faults::drop_index),
    ("upgrade with other features", 4, Faults::switch),
    ("out of memory", 2, Faults::out_of_memory),
];
const CRASHES: [(&str, u32, Fault); 12] = [
    ("killed backends", 5, |f| f.kill(CLIENT)),
    ("killed workers", 3, |f| f.kill(WORKER)),
    ("killed launchers", 2, |f| f.kill(LAUNCHER)),
    ("killed checkpointers", 2, |f| f.kill("backend_type = 'checkpointer'")),
    ("killed postmasters", 2, Faults::kill_postmaster),
    ("immediate stops", 3, |f| f.restart("immediate")),
    ("fast stops", 2, |f| f.restart("fast")),
    ("terminated workers", 3, |f| f.terminate(WORKER)),
    ("terminated launchers", 1, |f| f.terminate(LAUNCHER)),
    ("prepared transactions over a crash", 3, Faults::prepared),
    ("full disks", 2, Faults::full_disk),
    ("promotions", 1, Faults::promote),
];

impl Faults {
    pub fn new(site: Site, fleet: Fleet, random: StdRng) -> Faults {
        let prepared = Prepared::new(&fleet.own_log());
        let (counts, skipped) = (BTreeMap::new(), BTreeMap::new());
        Faults { site, fleet, random, prepared, counts, skipped, columns: 0 }
    }

    /// Injects a random fault. With `crashes`, faults that restart the server's processes are included.
    pub fn one(&mut self, crashes: bool) {
        let all: Vec<_> = GENTLE.iter().chain(CRASHES.iter().filter(|_| crashes)).collect();
        let weights: u32 = all.iter().map(|(_, weight, _)| weight).sum();
        let mut at = self.random.random_range(0..weights);
        for (name, weight, fault) in all {
            if at < *weight {
                return self.inject(name, *fault);
            }
            at -= weight;
        }
    }

    /// Injects each rare fault once, because a short run can miss them.
    pub fn rare(&mut self) {
        for (name, weight, fault) in &CRASHES {
            if *weight < 3 {
                self.inject(name, *fault);
            }
        }
    }

    fn inject(&mut self, name: &'static str, fault: Fault) {
        match fault(self) {
            Ok(()) => *self.counts.entry(name).or_default() += 1,
            Err(why) => {
                self.skipped.insert(name, why);
            }
        }
        // Later steps need a running server.
        drop(self.site.client());
    }

    pub fn total(&self) -> u32 {
        self.counts.values().sum()
    }

    pub fn lines(&self) -> Vec<String> {
        self.counts.iter().map(|(name, count)| format!("{count:6} {name}")).collect()
    }

    fn queue(&mut self) -> &'static str {
        QUEUES[self.random.random_range(0..QUEUES.len())].name
    }

    fn with_queue(&mut self, sql: &str) -> Result {
        let queue = self.queue();
        self.site.sql(&sql.replace("{q}", queue))
    }

    fn pause(&mut self, milliseconds: std::ops::Range<u64>) {
        let milliseconds = self.random.random_range(milliseconds);
        std::thread::sleep(Duration::from_millis(milliseconds));
    }

    fn terminate(&mut self, condition: &str) -> Result {
        self.site.sql(&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {condition} ORDER BY random() LIMIT 2"
        ))
    }

    /// Cancels random backends at several moments, including the lasting client's.
    fn cancel(&mut self) -> Result {
        for _ in 0..5 {
            self.site.sql(&format!(
                "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
                 WHERE ({CLIENT} OR application_name = '{LASTING_NAME}') AND random() < 0.5"
            ))?;
            self.pause(0..30);
        }
        Ok(())
    }

    fn kill_client(&mut self) -> Result {
        self.fleet.kill_one();
        Ok(())
    }

    fn reindex(&mut self) -> Result {
        let done = self.with_queue("REINDEX TABLE CONCURRENTLY {q}");
        if done.is_err() {
            // Drops the invalid indexes that a failed REINDEX leaves.
            self.site.sql(
                "DO $$ DECLARE i regclass; BEGIN
                 FOR i IN SELECT indexrelid FROM pg_index WHERE NOT indisvalid LOOP
                     EXECUTE 'DROP INDEX ' || i; END LOOP; END $$",
            )?;
        }
        done
    }

    fn alter(&mut self) -> Result {
        let (queue, column) = (self.queue(), format!("c{}", self.columns));
        self.columns += 1;
        let default = ["", " DEFAULT 7", " DEFAULT random()"][self.random.random_range(0..3)];
        self.site
            .sql(&format!("ALTER TABLE {queue} ADD COLUMN {column} double precision{default}"))?;
        self.pause(10..300);
        self.retry(&format!("ALTER TABLE {queue} DROP COLUMN IF EXISTS {column}"))
    }

    fn drop_index(&mut self) -> Result {
        let queue = self.queue();
        let indexes = format!(
            "SELECT indexrelid::regclass::text FROM pg_index
             WHERE indrelid = '{queue}'::regclass AND NOT indisprimary ORDER BY random() LIMIT 1"
        );
        let found = self.site.client().query_opt(&indexes, &[]).map_err(|e| e.to_string())?;
        let index: String = found.ok_or("there is no index")?.get(0);
        // The queue's triggers depend on the index.
        self.site.sql(&format!(
            "DELETE FROM pg_depend WHERE classid = 'pg_trigger'::regclass AND refobjid = '{index}'::regclass;
             DROP INDEX {index}"
        ))?;
        self.pause(10..300);
        self.retry(&format!("SELECT xqueue.upgrade('{queue}')"))
    }

    fn switch(&mut self) -> Result {
        let options = SWITCHES[self.random.random_range(0..SWITCHES.len())];
        self.site.sql(&format!("SELECT xqueue.upgrade('changing', '{options}')"))
    }

    /// Runs SQL that has to succeed in the end, in spite of clients that hold locks.
    fn retry(&mut self, sql: &str) -> Result {
        let mut last = Ok(());
        for _ in 0..20 {
            last = self.site.sql(sql);
            if last.is_ok() {
                break;
            }
            self.pause(10..100);
        }
        last
    }

    /// Limits the memory of a backend to its present size plus 100 MB, and puts a task that needs more.
    fn out_of_memory(&mut self) -> Result {
        let mut client = self.site.client();
        let pid: i32 =
            client.query_one("SELECT pg_backend_pid()", &[]).map_err(|e| e.to_string())?.get(0);
        xqueue_tests::limit_memory(pid, 100 << 20)?;
        let queue = self.queue();
        let put = format!(
            "SELECT xqueue.put('{queue}', jsonb_build_object('payload', repeat('x', 200000000)))"
        );
        match client.batch_execute(&put) {
            Err(e) if e.code().is_some_and(|code| code.code() == "53200") => {}
            other => return Err(format!("a put of 200 MB gave {other:?}")),
        }
        // The session still works.
        let take = format!("BEGIN; SELECT xqueue.take('{queue}', count => 3); ROLLBACK");
        client.batch_execute(&take).map_err(|e| format!("after it: {e}"))
    }

    fn kill(&mut self, condition: &str) -> Result {
        let pid = self.site.pid(condition).ok_or("there is none")?;
        let killed = xqueue_tests::server_command("kill").args(["-9", &pid.to_string()]).works();
        let gone = || !std::path::Path::new(&format!("/proc/{pid}")).exists();
        xqueue_tests::wait_until("the process is gone", || !killed || gone());
        Ok(())
    }

    fn kill_postmaster(&mut self) -> Result {
        self.site.kill_postmaster();
        Ok(())
    }

    fn restart(&mut self, mode: &str) -> Result {
        self.site.stop(mode);
        Ok(())
    }

    fn prepared(&mut self) -> Result {
        let begun = self.prepared.begin(&self.site, &mut self.random);
        if self.random.random_range(0..3) > 0 {
            let crash: Fault =
                [Faults::kill_postmaster as Fault, |f| f.restart("immediate"), |f| f.kill(CLIENT)]
                    [self.random.random_range(0..3)];
            crash(self)?;
        }
        drop(self.site.client());
        self.pause(50..500);
        self.prepared.end(&self.site, &mut self.random);
        begun
    }

    fn full_disk(&mut self) -> Result {
        if !self.site.disk()?.fill() {
            return Err("the disk could not be made smaller".into());
        }
        self.pause(500..2000);
        self.site.disk()?.empty();
        Ok(())
    }

    fn promote(&mut self) -> Result {
        self.site.fail_over();
        Ok(())
    }
}
