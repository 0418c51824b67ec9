//! `check`: compares a queue's definition, counters, marks and sub-queues with the table.

mod rows;

use crate::api::argument::{Target, require_monitor};
use crate::error::{Error, Result};
use crate::parts::leases::sessions::Part;
use crate::parts::leases::{held, session, store};
use crate::parts::slot;
use crate::queue::owner::NOBODY;
use crate::queue::recount::{self, Counted, RecountPurpose};
use crate::queue::{self, Queue, census};
use crate::server::function::Call;
use crate::server::relation::{self, LockMode, Relation};
use crate::server::trigger::{self, Event, Present, Timing};
use crate::server::types::{self, Uuid};
use crate::server::value::Value;
use crate::server::xact::{self, Verdict};
use crate::server::{catalog, jsonb, latch, subscription};
use crate::upgrade::UpgradePlan;
use crate::{sql_functions, transaction};
use rows::Findings;
use serde_json::json;
use std::time::{Duration, Instant};
use xqueue_core::change::Counts;
use xqueue_core::field::Field;
use xqueue_core::options::Options;
use xqueue_core::position::{FIRST, Group, Position};
use xqueue_core::statement::ARRIVAL;
use xqueue_core::status::{NAMES, Tasks};
use xqueue_core::transaction::counters::add;

sql_functions! {
    "check" as check, pg_finfo_check(queue: queue) -> jsonb => check_impl;
}

/// Time during which problems can still disappear, because the worker repairs some of them within moments. Remaining
/// problems are reported.
const PATIENCE: Duration = Duration::from_secs(3);

fn check_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let target = Target::of(call, arg::check::queue)?;
    require_monitor(target.table)?;
    let deadline = Instant::now() + PATIENCE;
    let mut lacked_before = vec![];
    loop {
        // Each pass is rolled back to give up its lock on the table: a process queued behind that lock would block the
        // worker's repairs.
        let mut look = Ok(CheckPass::default());
        xact::in_subtransaction(|| {
            look = CheckPass::at(&target);
            Verdict::<()>::Undo
        });
        let CheckPass { name, busy, marks, advice, mut lacking, mut problems } = look?;
        problems.extend(busy.then(|| census::BUSY.to_string()));
        // An upgrade that commits during a pass makes table and definition seem to differ. So a structural problem
        // counts only if two passes in a row agree on it.
        let is_settled = problems.is_empty() && lacking == lacked_before;
        if is_settled || busy || Instant::now() > deadline {
            let lacked = lacking.iter().map(|lack| lack.problem.clone());
            let problems: Vec<String> = lacked.chain(problems).collect();
            let mut report =
                json!({ "queue": name, "ok": problems.is_empty(), "problems": problems });
            if let Some(advice) = &advice {
                report["advice"] = advice.problem.clone().into();
            }
            lacking.dedup_by(|one, other| one.hint == other.hint);
            let hints: Vec<String> =
                lacking.into_iter().chain(advice).map(|lack| lack.hint).collect();
            if !hints.is_empty() {
                report["hint"] = hints.join(" ").into();
            }
            for (name, mark) in marks {
                report[name] = mark.into();
            }
            return Ok(Some(jsonb::from_value(&report)));
        }
        lacked_before = lacking;
        latch::wait(latch::Reason::Other, Some(Duration::from_millis(20)), true);
    }
}

/// Low-water marks by reported name.
type Marks = Vec<(&'static str, String)>;

/// Findings of one pass.
#[derive(Default)]
struct CheckPass {
    name: String,
    /// The table could not be read, because another session has it locked.
    busy: bool,
    marks: Marks,
    /// The reason why takes are slow during long transactions.
    advice: Option<Lack>,
    lacking: Vec<Lack>,
    problems: Vec<String>,
}

/// A defect of the table itself, which the worker does not repair.
#[derive(PartialEq)]
struct Lack {
    problem: String,
    hint: String,
}

impl Lack {
    /// Returns the defect that makes a call end with this error.
    fn from(error: &Error, call: &str) -> Lack {
        Lack { problem: format!("{call}{}", error.told()), hint: error.next_step().into() }
    }
}

impl CheckPass {
    fn at(target: &Target) -> Result<CheckPass> {
        if !relation::try_lock_whole(target.table, LockMode::AccessShare) {
            let name = queue::display_name(target.table);
            return Ok(CheckPass { name, busy: true, ..CheckPass::default() });
        }
        let opened = target.open(LockMode::AccessShare);
        // Row security can have been enabled during the wait for the lock.
        require_monitor(target.table)?;
        match opened {
            Ok(queue) => CheckPass::at_queue(&queue),
            // The table no longer matches its definition.
            Err(error) if queue::read(target.table)?.is_some() => Ok(CheckPass {
                name: queue::display_name(target.table),
                lacking: vec![Lack::from(&error, "")],
                ..CheckPass::default()
            }),
            Err(error) => Err(error),
        }
    }

    fn at_queue(queue: &Queue) -> Result<CheckPass> {
        let (lacking, advice) = structure(queue);
        let found = rows::look(queue)?;
        let of_rows = [stateless(queue, &found), stranded(&found), disowned(queue, &found)];
        let mut problems: Vec<String> = of_rows.into_iter().flatten().collect();
        // Sessions of a replicated queue belong to another server, and a standby counts nothing.
        let is_standby = xact::in_recovery();
        if !is_standby && !subscription::copies(queue.table) {
            problems.extend(orphans(found.holders.keys().copied().collect())?);
        }
        if !is_standby {
            problems.extend(counters(queue));
            problems.extend(hidden(queue, &found));
            problems.extend(unnoted(queue, &found));
            problems.extend(subqueues(queue, &found)?);
        }
        let marks = [("mark", Group::ALL), ("buried_mark", Group::Buried)];
        let marks = marks.into_iter().filter_map(|(name, group)| Some((name, mark(queue, group)?)));
        let (name, marks) = (queue.name.clone(), marks.collect());
        Ok(CheckPass { name, busy: false, marks, advice, lacking, problems })
    }
}

/// Lists the key, triggers and indexes that are missing or that `upgrade` would make differently, and user triggers
/// that fire too late. Also returns advice.
fn structure(queue: &Queue) -> (Vec<Lack>, Option<Lack>) {
    let Some(relation) = Relation::open(queue.table, LockMode::AccessShare) else {
        return (vec![Lack::from(&queue::not_a_queue(queue.table), "")], None);
    };
    let wanted = match UpgradePlan::draw(&relation, &Options::default()) {
        Ok(wanted) => wanted,
        Err(error) => return (vec![Lack::from(&error, "upgrade would fail: ")], None),
    };
    let advice = wanted.advice.filter(|advice| advice.is_slow);
    let advice = advice.map(|advice| Lack { problem: advice.told, hint: advice.hint });
    let key: Vec<&str> = queue.key.iter().map(|key| key.name.as_str()).collect();
    let unique: Vec<&str> = wanted.definition.key.iter().map(|key| key.name.as_str()).collect();
    let other_key = (key != unique).then(|| {
        format!("the key ({}) is no more unique, ({}) is", key.join(", "), unique.join(", "))
    });
    let lacking = wanted.ddl.into_iter().map(|ddl| {
        let is_index = ["CREATE INDEX", "CREATE UNIQUE INDEX"].iter().any(|x| ddl.starts_with(x));
        match is_index {
            true => format!("an index is missing or not valid, wanted: {ddl}"),
            false => format!("not as upgrade left it, wanted: {ddl}"),
        }
    });
    let literal = catalog::quote_literal(&queue.name);
    let hint = format!("SELECT xqueue.upgrade({literal}); makes what is missing.");
    let lack = |problem| Lack { problem, hint: hint.clone() };
    let lacking = other_key.into_iter().chain(lacking).map(lack);
    (lacking.chain(last_words(queue, &relation)).collect(), advice)
}

/// Lists user triggers that fire after the trigger that sets the status of new rows.
fn last_words(queue: &Queue, relation: &Relation) -> Vec<Lack> {
    let before_insert = trigger::kind(Timing::BeforeInsertRow, Event::Insert);
    let triggers = relation.triggers();
    // Triggers are listed in the order in which they fire.
    let last = triggers.iter().skip_while(|trigger| trigger.name != ARRIVAL).skip(1);
    let last = last.filter(|known| known.fires && known.kind & before_insert == before_insert);
    let lack = |trigger: &Present| Lack {
        problem: format!(
            "trigger \"{}\" fires after \"{ARRIVAL}\", which does not see what it sets",
            trigger.name
        ),
        hint: format!(
            "ALTER TRIGGER {} ON {} RENAME TO a name that sorts before it.",
            catalog::quote(&trigger.name),
            queue.name
        ),
    };
    last.map(lack).collect()
}

/// Reports rows that no take and no counter sees. They were written while the queue's triggers were disabled.
fn stateless(queue: &Queue, found: &Findings) -> Option<String> {
    let (count, status) = (found.stateless, queue.sql.fields.get(&Field::Status)?);
    (count > 0).then(|| {
        format!("{count} rows have a {status} that stands for no state: UPDATE or DELETE them")
    })
}

/// Reports waiting tasks that will never be promoted and zombies that will never be deleted.
fn stranded(found: &Findings) -> Option<String> {
    let count = found.stranded;
    (count > 0)
        .then(|| format!("{count} tasks that wait or are zombies have no time at which that ends"))
}

/// Reports owners of tasks that are not taken. Only a manual change leaves an owner there.
fn disowned(queue: &Queue, found: &Findings) -> Option<String> {
    let (count, owner) = (found.disowned, queue.sql.fields.get(&Field::Owner)?);
    let what = "tasks that are not taken have an owner";
    (count > 0)
        .then(|| format!("{count} {what}: UPDATE {} SET {owner} = NULL for them", queue.name))
}

/// Reports taken tasks that will never be given back.
fn orphans(holders: Vec<Option<Uuid>>) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    if holders.contains(&None) {
        problems.push("tasks are taken by no session".to_string());
    }
    let known = holders.into_iter().flatten().collect();
    for uuid in store::lost(known)? {
        problems.push(match uuid {
            NOBODY => "tasks have an owner that is no session".to_string(),
            uuid => {
                format!("tasks are taken by session {}, which has ended", types::uuid_text(uuid))
            }
        });
    }
    Ok(problems)
}

/// Returns the low-water mark of a group: the key before which it has no task, for buried tasks with the priority. None
/// if no mark is known.
fn mark(queue: &Queue, group: Group) -> Option<String> {
    let marked = slot::lock(queue.slot)?.marks().marked(group);
    if marked == FIRST { None } else { shown(queue, group, marked) }
}

/// Reports ready and buried tasks before a low-water mark, which no call would find.
fn hidden(queue: &Queue, found: &Findings) -> Vec<String> {
    let stands_before = |group, position, state, of| {
        let key = shown(queue, group, position).unwrap_or_default();
        format!("task {key} is {state}, but stands before the low-water mark{of}")
    };
    let ready = found.hidden.map(|first| stands_before(Group::ALL, first, "ready", ""));
    let of_tube =
        || Some(stands_before(Group::ALL, found.hidden_in_tube?, "ready", " of its tube"));
    let buried = found.hidden_buried.map(|first| stands_before(Group::Buried, first, "buried", ""));
    ready.or_else(of_tube).into_iter().chain(buried).collect()
}

/// Reports tasks of this connection's own session that would not come back when the session ends.
fn unnoted(queue: &Queue, found: &Findings) -> Option<String> {
    let own = session::joined(Part::Own)?;
    let taken = *found.holders.get(&Some(own))? as u64;
    let known =
        transaction::pending(queue.slot).leases.held.applied_to(held::known_in(queue.slot)?);
    let message = format!("{taken} tasks are taken by this session, which knows of {known}");
    (taken > known).then_some(message)
}

/// Formats the key at a position; with its priority if positions of the group include it.
fn shown(queue: &Queue, group: Group, position: Position) -> Option<String> {
    let (priority, start) = match group {
        Group::Buried => queue.buried_at(position)?,
        Group::Ready { .. } => (None, queue.start_at(position)?),
    };
    let start = start.shown();
    Some(priority.map_or_else(|| start.clone(), |priority| format!("({priority}, {start})")))
}

/// Reports sub-queues with more than one task in flight, or with a first task that no take would find.
fn subqueues(queue: &Queue, found: &Findings) -> Result<Vec<String>> {
    if !queue.features().has_subqueues() {
        return Ok(vec![]);
    }
    let count = found.most_in_flight;
    let crowded = (count > 1).then(|| format!("{count} tasks of one sub-queue are taken"));
    let lost = rows::lost_subqueue(queue)?;
    Ok(crowded.into_iter().chain(lost).collect())
}

/// Compares the counters with the table.
fn counters(queue: &Queue) -> Vec<String> {
    let Some((counters, counted)) = compare(queue) else {
        return vec![
            "the counters are not exact: they are counted again, a prepared transaction is or was open, or triggers are missing"
                .into(),
        ];
    };
    let mut problems = differences(&counters.tasks, &counted.tasks, "");
    let tubes = queue.definition.options.tubes_counted().iter().enumerate();
    for (index, tube) in tubes {
        let of_tube = format!(" in tube \"{tube}\"");
        problems.extend(differences(&counters.tubes[index], &counted.tubes[index], &of_tube));
    }
    problems
}

fn differences(counters: &Tasks, counted: &Tasks, of: &str) -> Vec<String> {
    let differ = |index: &usize| counters[*index] != counted[*index];
    (0..NAMES.len())
        .filter(differ)
        .map(|index| {
            format!(
                "{} {} tasks{of} are counted, {} there",
                counters[index], NAMES[index], counted[index]
            )
        })
        .collect()
}

/// Returns the counters and the counted tasks, both from one moment; None if the counters are not exact. The counters
/// include the changes of the open transaction, because the count sees them.
fn compare(queue: &Queue) -> Option<(Counts, Counts)> {
    let pending = transaction::pending(queue.slot);
    let Counted { counts, mut slot } = recount::count(queue, RecountPurpose::Check).ok()?;
    let statistics = slot.counters().statistics();
    let mut expected = Counts::default();
    if !pending.counters.replaces {
        expected.tasks = statistics.counters.tasks;
        expected.tubes = statistics.tubes.map(|tube| tube.tasks);
    }
    add(&mut expected.tasks, &pending.counters.tasks);
    for (tube, change) in &pending.counters.tubes {
        add(&mut expected.tubes[*tube], &change.tasks);
    }
    (statistics.counters.exact || pending.counters.replaces).then_some((expected, counts))
}
