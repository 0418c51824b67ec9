//! Producers and consumers in separate processes log the server's acknowledgements, while they and the server are
//! killed, stopped and changed. At the end, no task is lost or doubled, no task had two leases, and the order was kept.
//! Counters are exact, and indexes are sound. `--help` lists the options.

mod client;
mod connection;
mod event;
mod faults;
mod fleet;
mod history;
mod memory;
mod prepared;
mod queues;
mod rest;
mod server_log;
mod site;
mod verify;
mod work;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use postgres::Client;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use faults::Faults;
use fleet::Fleet;
use history::History;
use memory::Memory;
use rest::Rest;
use site::Site;
use verify::Violation;

const HELP: &str = "\
checker [--minutes N] [--operations N] [--seed N] [--clients N] [--gentle]

  --minutes N      how long (default 1, or with --operations without end)
  --operations N   ends when so many tasks were put, taken and settled
  --seed N         repeats the choices of a run, though not its moments
  --clients N      number of processes (default 6)
  --gentle         no faults after which the server's processes are new: for their memory
XQUEUE_PGBIN names PostgreSQL's programs, XQUEUE_AS the words before a command that make it the server's user.";
/// Number of cases of each kind of violation that are printed.
const SHOWN: usize = 5;

struct Arguments {
    minutes: Option<f64>,
    operations: u64,
    seed: u64,
    clients: u32,
    gentle: bool,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [client, address, log, id, slot, seed] = &words[..]
        && client == "client"
    {
        let (id, slot) = (id.parse().expect("a number"), slot.parse().expect("a number"));
        return client::run(address, log, id, slot, seed.parse().expect("a number"));
    }
    match arguments(&words) {
        Some(arguments) if check(&arguments) => {}
        Some(_) => std::process::exit(1),
        None => {
            println!("{HELP}");
            std::process::exit(2);
        }
    }
}

fn arguments(words: &[String]) -> Option<Arguments> {
    let mut arguments = Arguments {
        minutes: None,
        operations: u64::MAX,
        seed: xqueue_tests::chosen_seed(),
        clients: 6,
        gentle: false,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--minutes" => arguments.minutes = Some(words.next()?.parse().ok()?),
            "--operations" => arguments.operations = words.next()?.parse().ok()?,
            "--seed" => arguments.seed = words.next()?.parse().ok()?,
            "--clients" => arguments.clients = words.next()?.parse().ok().filter(|n| *n > 2)?,
            "--gentle" => arguments.gentle = true,
            _ => return None,
        }
    }
    Some(arguments)
}

/// Runs the checker; returns whether all promises were kept.
fn check(arguments: &Arguments) -> bool {
    let minutes =
        arguments.minutes.unwrap_or(if arguments.operations == u64::MAX { 1.0 } else { 1e6 });
    let duration = Duration::from_secs_f64(minutes * 60.0);
    xqueue_tests::allow(duration + Duration::from_secs(900));
    println!("XQUEUE_SEED={}", arguments.seed);
    let folder = Folder::new();
    let site = Site::new(&folder.0);
    let mut random = StdRng::seed_from_u64(arguments.seed);
    site.client().batch_execute(&queues::definitions(&mut random)).expect("the queues are made");
    let fleet = Fleet::start(&folder.0, arguments.clients, arguments.seed);
    let (mut history, mut memory, mut violations) =
        (History::default(), Memory::default(), Vec::new());
    let begun = Instant::now();
    let mut faults = Faults::new(site, fleet, StdRng::seed_from_u64(random.random()));
    let mut told = Instant::now();
    if !arguments.gentle {
        faults.rare();
    }
    while begun.elapsed() < duration && history.operations < arguments.operations {
        std::thread::sleep(Duration::from_millis(random.random_range(100..900)));
        faults.one(!arguments.gentle);
        faults.fleet.read(&mut history);
        sample(&mut faults.site.client(), &mut memory, &mut violations);
        if told.elapsed() > Duration::from_secs(60) {
            told = Instant::now();
            let (elapsed, total, operations) =
                (begun.elapsed(), faults.total(), history.operations);
            println!("# {elapsed:.0?}: {operations} operations, {total} faults");
        }
    }
    let panicked = faults.fleet.dead() + faults.fleet.stop();
    if panicked > 0 {
        violations.push(Violation::new("clients that did not end well", panicked.to_string()));
    }
    faults.fleet.read(&mut history);
    let (lines, total) = (faults.lines(), faults.total());
    let skipped: Vec<String> =
        faults.skipped.iter().map(|(name, why)| format!("{name}: {why}")).collect();
    let elapsed = begun.elapsed();

    let mut client = faults.site.client();
    let mut rest = Rest::of(&mut client);
    let remains = rest.read();
    let Rest { violations: found, skipped: not_done, indexes, .. } = rest;
    violations.extend(found);
    violations.extend(verify::violations(&history, &remains, &queues::QUEUES));
    let log = faults.site.log();
    let unexpected =
        |line: &str| Violation::new("an unexpected line in the server's log", line.to_owned());
    violations.extend(server_log::unexpected(&log).into_iter().map(unexpected));
    let grows = |process| Violation::new("memory that grows", process);
    violations.extend(memory.grown().into_iter().map(grows));

    lines.iter().for_each(|line| println!("# {line}"));
    memory.lines().iter().for_each(|line| println!("# memory of {line}"));
    let (tasks, left) = (history.tasks.len(), remains.rows.len());
    println!("# {indexes} indexes checked, {tasks} tasks, {left} of them left");
    skipped.iter().for_each(|line| println!("# not always done: {line}"));
    report(&violations, &folder.0, &log);
    let (operations, broken, seed) = (history.operations, violations.len(), arguments.seed);
    println!(
        "# {operations} operations, {total} faults, {broken} violations in {elapsed:.0?}, seed {seed}"
    );
    let results = results(&violations, &not_done);
    results.iter().for_each(|result| println!("{result}"));
    println!("1..{}", results.len());
    violations.is_empty()
}

/// Compares row counts with capacities, and samples the memory of the server's processes.
fn sample(client: &mut Client, memory: &mut Memory, violations: &mut Vec<Violation>) {
    for spec in &queues::QUEUES {
        let Some(capacity) = spec.capacity() else { continue };
        let sql = format!("SELECT count(*) FROM {}", spec.name);
        let Ok(row) = client.query_one(&sql, &[]) else { continue };
        let count: i64 = row.get(0);
        if count > capacity {
            let case = format!("{}: {count}", spec.name);
            violations.push(Violation::new("more tasks than the capacity", case));
        }
    }
    let sql = "SELECT pid, backend_start::text, CASE WHEN application_name LIKE 'client %' THEN 'clients'
               WHEN backend_type = 'client backend' THEN application_name ELSE backend_type END
               FROM pg_stat_activity
               WHERE backend_type IN ('client backend', 'xqueue worker', 'xqueue launcher') AND pid <> pg_backend_pid()";
    for row in client.query(sql, &[]).unwrap_or_default() {
        memory.sample(row.get(0), row.get(1), row.get(2));
    }
    // The rows of done tasks would fill the disk in a long run.
    drop(client.batch_execute("DELETE FROM kept WHERE status = 'D'"));
}

/// Returns lines of TAP. Each kind of violation is a test of its own, so that a list of failed tests shows the causes.
fn results(violations: &[Violation], skipped: &[String]) -> Vec<String> {
    let verdict = if violations.is_empty() { "ok" } else { "not ok" };
    let all = "nothing lost, nothing doubled, in order".to_owned();
    let broken = by_kind(violations).into_iter().map(|(kind, cases)| {
        ("not ok", format!("{kind}: {} cases, {}", cases.len(), shortened(&cases[0].case)))
    });
    let skipped = skipped.iter().map(|line| ("ok", format!("{line} # SKIP")));
    let all = [(verdict, all)].into_iter().chain(broken).chain(skipped).enumerate();
    all.map(|(index, (verdict, name))| format!("{verdict} {} - {name}", index + 1)).collect()
}

fn by_kind(violations: &[Violation]) -> BTreeMap<&str, Vec<&Violation>> {
    let mut kinds: BTreeMap<&str, Vec<&Violation>> = BTreeMap::new();
    violations.iter().for_each(|v| kinds.entry(v.kind).or_default().push(v));
    kinds
}

/// Returns the beginning of a text on one line.
fn shortened(text: &str) -> String {
    text.chars().take(200).map(|c| if c.is_control() || c == '#' { ' ' } else { c }).collect()
}

/// Prints the cases of each kind, and keeps the logs.
fn report(violations: &[Violation], folder: &Path, log: &str) {
    for (kind, cases) in by_kind(violations) {
        println!("# VIOLATION {kind}: {} cases", cases.len());
        cases.iter().take(SHOWN).for_each(|v| println!("#   {}", v.case));
    }
    if !violations.is_empty() {
        let kept = std::env::temp_dir().join(format!("xqueue-checker-{}", std::process::id()));
        // Without the folder, the printed report remains.
        drop(std::fs::create_dir(&kept));
        drop(std::fs::write(kept.join("server.log"), log));
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            drop(std::fs::copy(entry.path(), kept.join(entry.file_name())));
        }
        println!("# the logs of the clients and of the server are in {}", kept.display());
    }
}

/// A folder for the clients' logs and the servers' disk.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let folder = PathBuf::from(format!("/tmp/xqueue-checker.{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder left in /tmp is visible and harmless.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_wrong_is_a_test_of_its_own() {
        let violations = [
            Violation::new("counters", "plain:\n#1".into()),
            Violation::new("counters", "2".into()),
        ];
        let skipped = ["amcheck: there is none".to_owned()];
        let lines = [
            "not ok 1 - nothing lost, nothing doubled, in order",
            "not ok 2 - counters: 2 cases, plain:  1",
            "ok 3 - amcheck: there is none # SKIP",
        ];
        assert_eq!(results(&violations, &skipped), lines);
        assert_eq!(results(&[], &[]), ["ok 1 - nothing lost, nothing doubled, in order"]);
    }
}
