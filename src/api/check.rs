//! `check`: whether everything that is believed of a queue is true.

use super::argument::Target;
use crate::delta::add;
use crate::error::Result;
use crate::model::change::Counts;
use crate::model::definition::Field;
use crate::model::options::Options;
use crate::model::position::{FIRST, Group, Kind, Position};
use crate::model::status::{NAMES, Tasks};
use crate::pg::function::Call;
use crate::pg::relation::{Lock, Relation};
use crate::pg::transaction::{self, Verdict};
use crate::pg::value::Value;
use crate::pg::{catalog, jsonb, latch, spi, subscription, types};
use crate::registry::{Arguments, Queue, Statement};
use crate::session::{self, held, store};
use crate::shmem::lanes;
use crate::shmem::queues;
use crate::shmem::sessions::Part;
use crate::statement::Parameter;
use crate::upgrade::Blueprint;
use crate::{marks, recount, sql_functions, subqueue, xact};
use serde_json::json;
use std::time::{Duration, Instant};

sql_functions! {
    check, pg_finfo_check => check_impl,
}

/// The worker mends some things within moments: they are no problem unless they stay.
const PATIENCE: Duration = Duration::from_secs(3);

/// check(queue)
fn check_impl(call: &Call) -> Result<Option<Value<'_>>> {
    let target = Target::of(call)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        // Each look is undone, for its lock on the table: whoever waits for that keeps the worker
        // from mending.
        let mut look = Ok(Look::default());
        transaction::in_subtransaction(|| {
            look = problems(&target);
            Verdict::<()>::Undo
        });
        let Look { name, marks, problems, lacking } = look?;
        if problems.len() == lacking || Instant::now() > deadline {
            let mut report =
                json!({ "queue": name, "ok": problems.is_empty(), "problems": problems });
            if lacking > 0 {
                let literal = catalog::quote_literal(&name);
                report["hint"] =
                    format!("SELECT xqueue.upgrade({literal}); makes what is missing.").into();
            }
            for (name, mark) in marks {
                report[name] = mark.into();
            }
            return Ok(Some(jsonb::from_value(&report)));
        }
        latch::wait(Some(Duration::from_millis(20)), true);
    }
}

/// Low-water marks by the names under which they are reported.
type Marks = Vec<(&'static str, String)>;

/// What a look at a queue has shown.
#[derive(Default)]
struct Look {
    name: String,
    marks: Marks,
    /// All that is not as it should be.
    problems: Vec<String>,
    /// So many of these are about the table itself, which the worker does not mend.
    lacking: usize,
}

fn problems(target: &Target) -> Result<Look> {
    let queue = target.open(Lock::AccessShare)?;
    let mut problems = structure(&queue);
    let lacking = problems.len();
    problems.extend(stranded(&queue));
    // Sessions of another server are not known here, and a standby counts nothing.
    let is_standby = transaction::in_recovery();
    if !is_standby && !subscription::copies(queue.table) {
        problems.extend(orphans(&queue)?);
    }
    if !is_standby {
        problems.extend(counters(&queue));
        problems.extend(hidden(&queue));
        problems.extend(hidden_buried(&queue));
        problems.extend(unnoted(&queue));
        problems.extend(subqueues(&queue));
    }
    let marks = [("mark", Group::ALL), ("buried_mark", Group::Buried)];
    let marks = marks.into_iter().filter_map(|(name, group)| Some((name, mark(&queue, group)?)));
    Ok(Look { name: queue.name.clone(), marks: marks.collect(), problems, lacking })
}

/// A key, triggers and indexes that are missing, or are not as `upgrade` makes them.
fn structure(queue: &Queue) -> Vec<String> {
    let Some(relation) = Relation::open(queue.table, Lock::AccessShare) else {
        return vec!["the table is gone".into()];
    };
    let wanted = match Blueprint::draw(&relation, &Options::default()) {
        Ok(wanted) => wanted,
        Err(error) => return vec![format!("upgrade would fail: {}", error.message())],
    };
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
    other_key.into_iter().chain(lacking).collect()
}

/// Tasks that nobody will ever give back.
fn orphans(queue: &Queue) -> Result<Vec<String>> {
    let holders = spi::connect(|spi| {
        let rows = queue.run(spi, &Statement::Holders, &Arguments::default());
        (0..rows.len()).map(|row| rows.value(row, 1).map(Value::to_uuid)).collect::<Vec<_>>()
    });
    let mut problems = Vec::new();
    if holders.contains(&None) {
        problems.push("tasks are taken by no session".to_string());
    }
    let known = holders.into_iter().flatten().collect();
    for uuid in store::lost(known)? {
        problems.push(format!(
            "tasks are taken by session {}, which has ended",
            types::uuid_text(uuid)
        ));
    }
    Ok(problems)
}

/// Waiting tasks that will never be promoted, zombies that will never be deleted.
fn stranded(queue: &Queue) -> Option<String> {
    queue.sql.fields.get(&Field::Runat)?;
    let count = spi::connect(|spi| spi.run(&queue.sql.stranded()).number());
    (count > 0)
        .then(|| format!("{count} tasks that wait or are zombies have no time at which that ends"))
}

/// The key before which there is no task of a group, as far as that is known.
fn mark(queue: &Queue, group: Group) -> Option<String> {
    let marked = queues::lock(queue.slot)?.marked(group);
    if marked == FIRST { None } else { shown(queue, marked) }
}

/// A ready task before a low-water mark, which no take would find.
fn hidden(queue: &Queue) -> Option<String> {
    let has_marks = queue.order.is_some() && !queue.features().has_subqueues();
    if !has_marks || xact::lowest(queue.slot, Kind::Ready).is_some() {
        return None;
    }
    let first = hidden_in(queue, None).map(|first| (first, ""));
    let first = first.or_else(|| hidden_in_tubes(queue).map(|first| (first, " of its tube")));
    first.map(|(first, of)| format!("{}{of}", stands_before(queue, first, "ready")))
}

/// The same before those of its tube.
fn hidden_in_tubes(queue: &Queue) -> Option<Position> {
    let column = queue.tube()?;
    spi::connect(|spi| {
        let rows = spi.run(&queue.sql.tubes());
        (0..rows.len()).find_map(|row| {
            let value = rows.value(row, 1)?;
            let tube = queue.tube_named(value, column).hash;
            let is_marked = queues::lock(queue.slot)?.marks_tube(tube);
            is_marked.then(|| hidden_in(queue, Some((tube, value)))).flatten()
        })
    })
}

/// The first ready task, of a priority, that stands before the mark, of a tube or of all.
fn hidden_in(queue: &Queue, tube: Option<(u64, Value)>) -> Option<Position> {
    let mut arguments = Arguments::default();
    arguments.set_or_null(Parameter::Tube, tube.map(|(_, value)| value));
    let group = |priority| Group::Ready { tube: tube.map(|(hash, _)| hash), priority };
    let first: Vec<_> = match queue.by_priority {
        true => {
            let found = marks::survey_of(queue, &arguments)?.into_iter();
            found.map(|(priority, first)| (group(Some(priority)), first)).collect()
        }
        false => vec![(group(None), marks::first(queue, group(None), &arguments, FIRST)?)],
    };
    let mut slot = queues::lock(queue.slot)?;
    let is_hidden = |(group, first): &(Group, Position)| *first < slot.marked(*group);
    first.into_iter().find(is_hidden).map(|(_, first)| first)
}

/// A buried task before the mark of those.
fn hidden_buried(queue: &Queue) -> Option<String> {
    if queue.order.is_none() || xact::lowest(queue.slot, Kind::Buried).is_some() {
        return None;
    }
    let first = marks::first(queue, Group::Buried, &Arguments::default(), FIRST)?;
    let marked = queues::lock(queue.slot)?.marked(Group::Buried);
    (first < marked).then(|| stands_before(queue, first, "buried"))
}

/// A task of this connection's own session that would not come back with its end.
fn unnoted(queue: &Queue) -> Option<String> {
    let own = session::joined(Part::Own).filter(|_| queue.order.is_some())?;
    if !xact::pending(queue.slot).held.is_empty() {
        return None;
    }
    let arguments = Arguments::of(Parameter::Session, Value::uuid(own));
    let missing = spi::connect(|spi| {
        let rows = queue.run(spi, &Statement::Held, &arguments);
        let places = (0..rows.len()).filter_map(|row| queue.position(rows.value(row, 1)?));
        places.into_iter().find(|place| !held::may_hold(queue.slot, *place))
    });
    let key = shown(queue, missing?).unwrap_or_default();
    Some(format!("task {key} is taken by this session, which does not know of it"))
}

fn stands_before(queue: &Queue, position: Position, state: &str) -> String {
    let key = shown(queue, position).unwrap_or_default();
    format!("task {key} is {state}, but stands before the low-water mark")
}

/// The key that stands in a place, as text.
fn shown(queue: &Queue, position: Position) -> Option<String> {
    let key = queue.key_at(position)?;
    Some(key.shown())
}

/// Sub-queues of which more than one task is in flight, or whose first task nobody would find.
fn subqueues(queue: &Queue) -> Vec<String> {
    if !queue.features().has_subqueues() {
        return vec![];
    }
    // What the open transaction has done nobody else knows yet.
    let pending = xact::pending_lanes(queue.slot);
    let slot = queue.slot;
    spi::connect(|spi| {
        let crowded = spi.run(&queue.sql.crowded()).text(0, 2);
        let crowded = crowded.map(|count| format!("{count} tasks of one sub-queue are taken"));
        let wrong = subqueue::takeable(spi, queue).find_map(|(lane, first)| {
            let of_lane = |what| format!("in the sub-queue with the hash {} {what}", lane as i64);
            match first {
                _ if pending.contains(lane) => None,
                _ if !lanes::knows(slot, lane) => Some(of_lane("nobody looks for the first task")),
                Some(first) if first < lanes::mark(slot, lane) => {
                    Some(of_lane("the first task stands before the low-water mark"))
                }
                _ => None,
            }
        });
        crowded.into_iter().chain(wrong).collect()
    })
}

/// Counters against the table.
fn counters(queue: &Queue) -> Vec<String> {
    let Some((counters, exact, counted)) = compare(queue) else {
        return vec!["the table could not be counted".into()];
    };
    if !exact {
        return vec![
            "the counters are not exact: they are counted anew, a prepared transaction is open, or triggers are missing"
                .into(),
        ];
    }
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

/// Counters, whether they claim to be exact, and what is there, at the same moment. What the open
/// transaction has done is seen by the count but not yet in the counters.
fn compare(queue: &Queue) -> Option<(Counts, bool, Counts)> {
    let pending = xact::pending(queue.slot);
    let (counted, slot) = recount::count(queue, false)?;
    let statistics = slot.statistics();
    let mut expected = Counts::default();
    if !pending.replaces {
        expected.tasks = statistics.tasks;
        expected.tubes = statistics.tubes.map(|tube| tube.tasks);
    }
    add(&mut expected.tasks, &pending.tasks);
    for (tube, change) in &pending.tubes {
        add(&mut expected.tubes[*tube], &change.tasks);
    }
    Some((expected, statistics.exact || pending.replaces, counted))
}
