//! Runs sqlsmith, then random calls, in a database full of queues with a worker and consumers at work. At the end, no
//! process has crashed, no assertion has failed, no resource has leaked, and no error is internal. Every queue passes
//! its check, and every index passes amcheck. `--help` lists the options.

mod arguments;
mod queues;
mod server_log;
mod site;
mod sqlsmith;
mod statements;
mod walker;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use xqueue_tests::{every_function, every_type};

use site::Site;
use sqlsmith::Sqlsmith;
use statements::Material;
use walker::{Tally, Walker};

const HELP: &str = "\
fuzz [--minutes N] [--seed N]

  --minutes N   how long (default 1): half of it sqlsmith, half random calls
  --seed N      repeats the choices of a run, though not how the sessions meet
XQUEUE_PGBIN names PostgreSQL's programs, XQUEUE_AS the words before a command that make it the server's user.";
/// Number of sessions with random calls, and with consumers.
const WALKERS: usize = 3;
const CONSUMERS: usize = 2;
/// The roles that sqlsmith runs as.
const SMITHS: [&str; 2] = ["fuzz_smith", "fuzz_super"];
/// Number of lines of each kind that are printed.
const SHOWN: usize = 12;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((minutes, seed)) = arguments(&words) else {
        println!("{HELP}");
        std::process::exit(2);
    };
    if !fuzz(minutes, seed) {
        std::process::exit(1);
    }
}

/// Returns the minutes and the seed.
fn arguments(words: &[String]) -> Option<(f64, u64)> {
    let (mut minutes, mut seed) = (1.0, xqueue_tests::chosen_seed());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--minutes" => minutes = words.next()?.parse().ok().filter(|n| *n > 0.0)?,
            "--seed" => seed = words.next()?.parse().ok()?,
            _ => return None,
        }
    }
    Some((minutes, seed))
}

/// Runs the fuzzer; returns whether it found no problem.
fn fuzz(minutes: f64, seed: u64) -> bool {
    let duration = Duration::from_secs_f64(minutes * 60.0);
    xqueue_tests::allow(duration + Duration::from_secs(1800));
    println!("# XQUEUE_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let site = Site::new(&mut random);
    let mut client = site.client();
    let material = Material {
        functions: every_function::functions(&mut client),
        odd: every_type::all(&mut client, &mut random),
    };
    drop(client);

    let begun = Instant::now();
    let (is_open, are_walking) = (AtomicBool::new(true), AtomicBool::new(true));
    let (walking, consuming, keeping) =
        (site.config("walker"), site.config("consumer"), site.config("house"));
    let (mut tally, mut statements) = (Tally::default(), [0; SMITHS.len()]);
    let (mut consumed, mut called) = (0, [0; 2]);
    std::thread::scope(|scope| {
        let (config, is_open) = (&consuming, &is_open);
        let seeds: [u64; CONSUMERS] = random.random();
        let consumers = seeds.map(|seed| scope.spawn(move || site::work(config, seed, is_open)));
        let folder = site.cluster.folder();
        let smiths = SMITHS.map(|role| Sqlsmith::start(&folder, role, random.random()));
        sleep_until(begun + duration / 2);
        for (number, smith) in smiths.into_iter().enumerate() {
            statements[number] = smith.stop().statements;
        }
        called[0] = site.calls();
        site.make_the_oddly_named();
        scope.spawn(|| site::keep_house(&keeping, is_open));
        let seed = random.random();
        let (config, material, are_walking) = (&walking, &material, &are_walking);
        let walk = |number| {
            let walker = Walker { config, material, number, seed };
            scope.spawn(move || walker.walk(are_walking))
        };
        let walkers: Vec<_> = (0..WALKERS).map(walk).collect();
        sleep_until(begun + duration);
        are_walking.store(false, Ordering::Relaxed);
        for walker in walkers {
            tally.add(walker.join().expect("a walker ends well"));
        }
        is_open.store(false, Ordering::Relaxed);
        consumed = consumers.into_iter().map(|c| c.join().expect("a consumer ends well")).sum();
    });
    called[1] = site.calls() - called[0];
    let (wrong, unsound, queues, relations) = site::problems(&site);
    let findings = server_log::read(&site.log(), &site.other_logs());

    for (role, count) in SMITHS.iter().zip(statements) {
        println!("# sqlsmith as {role}: {count} statements");
    }
    println!("# random calls: {} statements; consumers: {consumed}", tally.statements);
    let [beside, by] = called;
    println!("# calls of functions of xqueue: {beside} beside sqlsmith, {by} by the random calls");
    for (source, counts) in &findings.errors {
        println!("# errors of {source} by class of SQLSTATE: {counts:?}");
    }
    for statements in &tally.broken {
        println!("# a session broke after:");
        statements.iter().for_each(|sql| println!("#   {sql};"));
    }
    println!("# {:.0?}, seed {seed}", begun.elapsed());
    let is_busy = tally.statements > 0 && statements.iter().all(|count| *count > 0);
    let verdicts = [
        ("no crash, no failed assertion", findings.crashes),
        ("no leak", findings.leaks),
        ("no internal error", findings.internal),
        (&*format!("{queues} queues pass xqueue.check"), wrong),
        (&*format!("{relations} tables and indexes pass amcheck"), unsound),
        ("both were at work", if is_busy { Vec::new() } else { vec!["no statements".into()] }),
    ];
    for (number, (what, found)) in verdicts.iter().enumerate() {
        let verdict = if found.is_empty() { "ok" } else { "not ok" };
        println!("{verdict} {} - {what}", number + 1);
        found.iter().take(SHOWN).for_each(|line| println!("#   {:.2000}", line));
    }
    println!("1..{}", verdicts.len());
    let is_well = verdicts.iter().all(|(_, found)| found.is_empty());
    if !is_well {
        let kept = std::env::temp_dir().join(format!("xqueue-fuzz-{}.json", std::process::id()));
        drop(std::fs::copy(site.log(), &kept));
        println!("# the server's log is kept in {}", kept.display());
    }
    is_well
}

fn sleep_until(end: Instant) {
    std::thread::sleep(end.saturating_duration_since(Instant::now()));
}
