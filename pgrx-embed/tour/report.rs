//! The report, in plain words.

use std::time::Duration;

use indicatif::{DecimalBytes, HumanCount};
use postgres::Client;

use crate::Result;
use crate::run::Outcome;
use crate::table::Plan;
use crate::verify::Verdict;

/// Maximum number of problems to print.
const SHOWN: usize = 20;

pub fn print(db: &mut Client, plan: &Plan, outcome: &Outcome, verdict: &Verdict) -> Result<()> {
    let files = plan.files.len();
    let bytes: i64 = plan.files.iter().map(|file| file.size).sum();
    let seconds = outcome.elapsed.as_secs_f64();
    let done: i64 = db.query_one("SELECT count(*) FROM tour.digests", &[])?.get(0);
    line("files", format!("{}, {}", count(files), DecimalBytes(bytes.unsigned_abs())));
    if verdict.unreadable > 0 {
        line(
            "",
            format!("{} vanished or are unreadable, which is noted", count(verdict.unreadable)),
        );
    }
    if verdict.changed > 0 {
        line(
            "",
            format!("{} changed during the tour, and were not compared", count(verdict.changed)),
        );
    }
    let rate = count((done as f64 / seconds) as usize);
    line("tasks done", format!("{} in {seconds:.1} s: {rate} per second", count(done as usize)));

    let again: i64 = verdict.taken_again.iter().sum();
    line(
        "consumers killed",
        format!("{}, of whose tasks {again} were taken again", outcome.kills.len()),
    );
    // A consumer that had just acked all its tasks when it died left nothing to measure.
    let killed = outcome.kills.iter().zip(&verdict.taken_again).filter(|(_, again)| **again > 0);
    line("  ready again after", summary(killed.map(|(kill, _)| kill.ready_after).collect()));

    line(
        "delayed",
        format!("{} by put, {} by release", count(plan.put_late), count(plan.postponed())),
    );
    line("  ready, when due", summary(differences(db, "ready")?));
    line("  taken, when due", summary(differences(db, "taken")?));

    let stats: String = db.query_one("SELECT xqueue.stats('tour.files')::text", &[])?.get(0);
    line("stats", stats);
    if verdict.problems.is_empty() {
        line(
            "checked",
            "each file digested once, as sha256sum does; xqueue.check finds the queue ok"
                .to_owned(),
        );
    }
    for problem in verdict.problems.iter().take(SHOWN) {
        line("WRONG", problem.clone());
    }
    if verdict.problems.len() > SHOWN {
        line("WRONG", format!("and {} more", verdict.problems.len() - SHOWN));
    }
    Ok(())
}

fn line(name: &str, text: String) {
    println!("{name:20} {text}");
}

fn count(number: usize) -> HumanCount {
    HumanCount(number as u64)
}

/// Returns the times between the due time of the delayed tasks and `event`.
fn differences(db: &mut Client, event: &str) -> Result<Vec<Duration>> {
    let sql = format!(
        "SELECT extract(epoch FROM {event} - due)::float8 FROM tour.digests WHERE {event} >= due"
    );
    Ok(db.query(&sql, &[])?.iter().map(|row| Duration::from_secs_f64(row.get(0))).collect())
}

fn summary(mut times: Vec<Duration>) -> String {
    times.sort();
    let Some(last) = times.len().checked_sub(1) else { return "not measured".to_owned() };
    let at = |percent: usize| times[(last * percent).div_ceil(100)].as_secs_f64() * 1000.0;
    format!("{:.1} ms (median), {:.1} ms (p99), {:.1} ms (max)", at(50), at(99), at(100))
}
