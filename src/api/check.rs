//! `check`: whether everything that is believed of a queue is true.

use super::argument::Target;
use crate::error::Result;
use crate::model::options::Options;
use crate::model::status::{NAMES, Tasks};
use crate::pg::function::Call;
use crate::pg::relation::{Lock, Relation};
use crate::pg::{jsonb, latch, spi, types};
use crate::registry::{Queue, Statement};
use crate::shmem::sessions;
use crate::upgrade::Blueprint;
use crate::{recount, sql_functions, xact};
use pgrx::pg_sys::Datum;
use serde_json::json;
use std::time::{Duration, Instant};

sql_functions! {
    check, pg_finfo_check => check_impl,
}

/// The worker mends some things within moments: they are no problem unless they stay.
const PATIENCE: Duration = Duration::from_secs(3);

/// check(queue)
fn check_impl(call: &Call) -> Result<Datum> {
    let target = Target::of(call)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let queue = target.open(Lock::AccessShare)?;
        let mut problems = structure(&queue)?;
        problems.extend(orphans(&queue));
        problems.extend(stranded(&queue));
        problems.extend(counters(&queue));
        if problems.is_empty() || Instant::now() > deadline {
            return Ok(jsonb::from_value(&json!({
                "queue": queue.name,
                "ok": problems.is_empty(),
                "problems": problems,
            })));
        }
        latch::wait(Some(Duration::from_millis(20)), true);
    }
}

/// Triggers and indexes that are missing.
fn structure(queue: &Queue) -> Result<Vec<String>> {
    let Some(relation) = Relation::open(queue.table, Lock::AccessShare) else {
        return Ok(vec!["the table is gone".into()]);
    };
    let lacking = Blueprint::draw(&relation, &Options::default())?.ddl;
    Ok(lacking.into_iter().map(|ddl| format!("not as upgrade left it, wanted: {ddl}")).collect())
}

/// Tasks that nobody will ever give back.
fn orphans(queue: &Queue) -> Vec<String> {
    let holders = spi::connect(|spi| {
        let rows = spi.run_plan(&queue.plan(spi, Statement::Holders), &[]);
        (0..rows.len()).map(|row| rows.datum(row, 1).map(types::uuid)).collect::<Vec<_>>()
    });
    let mut problems = Vec::new();
    if holders.contains(&None) {
        problems.push("tasks are taken by no session".to_string());
    }
    let known = holders.into_iter().flatten().collect();
    for uuid in sessions::not_live(known) {
        problems.push(format!(
            "tasks are taken by session {}, which has ended",
            types::uuid_text(uuid)
        ));
    }
    problems
}

/// Waiting tasks that will never be promoted.
fn stranded(queue: &Queue) -> Option<String> {
    let runat = queue.sql.runat.as_deref()?;
    let count = spi::connect(|spi| spi.run(&queue.sql.stranded(runat)).number());
    (count > 0).then(|| format!("{count} waiting tasks have no time to start at"))
}

/// Counters against the table.
fn counters(queue: &Queue) -> Vec<String> {
    let Some((counters, exact, counted)) = compare(queue) else {
        return vec!["the table could not be counted".into()];
    };
    if !exact {
        return vec![
            "the counters are not exact: they are counted anew, or a prepared transaction is open"
                .into(),
        ];
    }
    let differ = |index: &usize| counters[*index] != counted[*index];
    (0..NAMES.len())
        .filter(differ)
        .map(|index| {
            format!(
                "{} {} tasks are counted, {} there",
                counters[index], NAMES[index], counted[index]
            )
        })
        .collect()
}

/// Counters, whether they claim to be exact, and what is there, at the same moment. What the open
/// transaction has done is seen by the count but not yet in the counters.
fn compare(queue: &Queue) -> Option<(Tasks, bool, Tasks)> {
    let pending = xact::pending(queue.slot);
    let (counted, slot) = recount::count(queue, false)?;
    let statistics = slot.statistics();
    let mut expected = if pending.replaces { Tasks::default() } else { statistics.tasks };
    crate::delta::add(&mut expected, &pending.tasks);
    Some((expected, statistics.exact || pending.replaces, counted))
}
