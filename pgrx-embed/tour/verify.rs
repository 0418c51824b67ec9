//! Verifies that each file has exactly one digest, equal to that of sha256sum, and that the queue is in its expected
//! state.

use std::collections::HashMap;
use std::process::{Command, Stdio};

use postgres::Client;

use crate::Result;
use crate::files::Input;
use crate::options::Options;
use crate::run::Outcome;
use crate::table::Plan;

const AGAIN: &str = "
    SELECT count(*) FROM tour.returned r JOIN tour.digests d USING (path)
    WHERE r.session = $1::text::uuid AND d.session <> r.session";
const CHECK: &str = "
    SELECT (found->>'ok')::boolean AS ok, found::text FROM xqueue.check('tour.files') AS found";
const COUNTED: &str = "SELECT (xqueue.stats('tour.files')->'calls'->>'session')::bigint";

/// A consumer's result: a digest, or the reason for its absence.
type Stored = std::result::Result<String, String>;

#[derive(Default)]
pub struct Verdict {
    pub problems: Vec<String>,
    pub unreadable: usize,
    /// Number of files that were changed during the tour. Their digests cannot be verified.
    pub changed: usize,
    /// For each kill, the number of the dead consumer's tasks that became ready again and were done by others.
    pub taken_again: Vec<i64>,
}

pub fn verify(
    db: &mut Client,
    plan: &Plan,
    outcome: &Outcome,
    options: &Options,
) -> Result<Verdict> {
    let mut verdict = Verdict::default();
    compare(&mut verdict, plan.files, digests(db)?, &sha256sum(plan.files)?);
    check_delays(&mut verdict, db, plan)?;
    check_kills(&mut verdict, db, outcome, options)?;
    let row = db.query_one(CHECK, &[])?;
    if !row.get::<_, bool>("ok") {
        verdict.problems.push(format!("xqueue.check: {}", row.get::<_, &str>("found")));
    }
    Ok(verdict)
}

fn digests(db: &mut Client) -> Result<HashMap<String, Vec<Stored>>> {
    let mut digests: HashMap<String, Vec<Stored>> = HashMap::new();
    for row in
        db.query("SELECT path, sha256, coalesce(error, 'no reason') FROM tour.digests", &[])?
    {
        let stored = row.get::<_, Option<String>>(1).ok_or_else(|| row.get(2));
        digests.entry(row.get(0)).or_default().push(stored);
    }
    Ok(digests)
}

fn compare(
    verdict: &mut Verdict,
    files: &[Input],
    mut digests: HashMap<String, Vec<Stored>>,
    expected: &HashMap<String, String>,
) {
    for file in files {
        let path = &file.path;
        let stored = digests.remove(path).unwrap_or_default();
        let problem = match (stored.as_slice(), expected.get(path)) {
            ([Ok(digest)], Some(expected)) if digest == expected => continue,
            ([Err(_)], None) => {
                verdict.unreadable += 1;
                continue;
            }
            ([], _) => format!("{path} was not digested"),
            ([_], _) if file.has_changed() => {
                verdict.changed += 1;
                continue;
            }
            ([Ok(digest)], Some(expected)) => {
                format!("{path}: {digest}, but sha256sum says {expected}")
            }
            ([Ok(_)], None) => format!("{path} was digested, but sha256sum cannot read it"),
            ([Err(error)], Some(_)) => {
                format!("{path} was not read: {error}; but sha256sum can read it")
            }
            (several, _) => format!("{path} was digested {} times", several.len()),
        };
        verdict.problems.push(problem);
    }
    verdict
        .problems
        .extend(digests.into_keys().map(|path| format!("{path} was digested, but never put")));
}

/// Returns the digests of sha256sum, without the files that it cannot read.
fn sha256sum(files: &[Input]) -> Result<HashMap<String, String>> {
    let mut sums = HashMap::new();
    for batch in files.chunks(500) {
        let output = Command::new("sha256sum")
            .args(["--zero", "--"])
            .args(batch.iter().map(|file| &file.path))
            .stderr(Stdio::null())
            .output()
            .map_err(|error| format!("sha256sum does not run: {error}"))?;
        for line in String::from_utf8(output.stdout)?.split_terminator('\0') {
            let (sum, path) =
                line.split_once("  ").ok_or_else(|| format!("sha256sum says {line:?}"))?;
            sums.insert(path.to_owned(), sum.to_owned());
        }
    }
    Ok(sums)
}

/// Checks that each task put or released with a delay has waited, and was not taken early.
fn check_delays(verdict: &mut Verdict, db: &mut Client, plan: &Plan) -> Result<()> {
    let row = db.query_one(
        "SELECT count(due), count(*) FILTER (WHERE taken < due) FROM tour.digests",
        &[],
    )?;
    let (delayed, early): (i64, i64) = (row.get(0), row.get(1));
    let expected = plan.put_late + plan.postponed();
    if delayed != expected as i64 {
        verdict.problems.push(format!("{delayed} tasks were delayed, not {expected}"));
    }
    if early > 0 {
        verdict.problems.push(format!("{early} tasks were taken before the end of their delay"));
    }
    Ok(())
}

/// Checks that the queue's count of returned tasks equals the trigger's, and that all planned kills happened.
fn check_kills(
    verdict: &mut Verdict,
    db: &mut Client,
    outcome: &Outcome,
    options: &Options,
) -> Result<()> {
    let again = db.prepare(AGAIN)?;
    for kill in &outcome.kills {
        verdict.taken_again.push(db.query_one(&again, &[&kill.session])?.get(0));
    }
    let again: i64 = verdict.taken_again.iter().sum();
    let counted: i64 = db.query_one(COUNTED, &[])?.get(0);
    if again != counted {
        verdict.problems.push(format!(
            "{again} tasks of dead consumers came back, but xqueue.stats counted {counted}"
        ));
    }
    let (kills, wanted) = (outcome.kills.len(), options.kills);
    if kills < wanted {
        verdict.problems.push(format!(
            "{kills} consumers were killed, not {wanted}: none held a task any more"
        ));
    }
    Ok(())
}
