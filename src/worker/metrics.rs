//! The worker that sends metrics: reads the counters from shared memory, and leaves the network to
//! the sender's thread.

use crate::metrics::{Sample, graphite_lines};
use crate::model::change::Call;
use crate::model::status::{NAMES, Tasks};
use crate::parts::schedule::databases;
use crate::parts::slot;
use crate::parts::slot_id::SlotId;
use crate::server::{latch, time, worker};
use crate::worker::graphite::{Event, Protocol, Sender, Target};
use crate::{background_worker, settings};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How often the sender is asked what has become of a connection.
const EVENTS_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which a database without a worker gets one for the sake of the metrics alone, at most.
const REST_INTERVAL: Duration = Duration::from_secs(10);

background_worker!(xqueue_metrics_main => main);

fn main(_argument: u32) {
    worker::handle_signals();
    worker::connect(None);
    let sender = match Sender::start() {
        Ok(sender) => sender,
        Err(error) => return pgrx::warning!("xqueue: cannot start the sender of metrics: {error}"),
    };
    let mut last_sent: Option<Instant> = None;
    let mut has_asked = false;
    let mut rested = HashMap::new();
    loop {
        worker::reload_settings();
        let mut pause = None;
        match target() {
            Some(target) => {
                let due = last_sent.map_or(Duration::ZERO, |sent| {
                    settings::graphite_interval().saturating_sub(sent.elapsed())
                });
                if due.is_zero() {
                    last_sent = Some(Instant::now());
                    sender.send(&target, report());
                    has_asked = false;
                }
                let next = if due.is_zero() { settings::graphite_interval() } else { due };
                if next <= EVENTS_INTERVAL && !std::mem::replace(&mut has_asked, true) {
                    ask_workers(&mut rested);
                }
                pause = Some(next.min(EVENTS_INTERVAL));
            }
            None => {
                last_sent = None;
                sender.disconnect();
            }
        }
        for event in sender.events() {
            match event {
                Event::Connected { .. } => pgrx::log!("xqueue: {event}"),
                Event::Failed { .. } => pgrx::warning!("xqueue: {event}"),
            }
        }
        latch::wait(latch::Reason::Work, pause, false);
    }
}

/// Has the workers note what only the tables say, and has changed, in time for the next report.
fn ask_workers(rested: &mut HashMap<u32, Instant>) {
    rested.retain(|_, asked| asked.elapsed() < REST_INTERVAL);
    for database in slot::databases_with_outdated_ages() {
        // One that rests has to be started.
        let rests = databases::worker_of(database).is_none_or(|worker| worker.worker.is_none());
        if !rests || !rested.contains_key(&database) {
            databases::request(database, |requests| requests.metrics = true);
        }
        if rests {
            rested.entry(database).or_insert_with(Instant::now);
        }
    }
}

fn target() -> Option<Target> {
    let (host, port, protocol) = settings::graphite()?;
    let protocol = match protocol {
        settings::Protocol::Tcp => Protocol::Tcp,
        settings::Protocol::Udp => Protocol::Udp,
    };
    Some(Target { host, port, protocol })
}

fn report() -> String {
    let now = time::now();
    let samples: Vec<Sample> =
        slot::all(None).into_iter().filter_map(|(slot, _)| sample(slot, now)).collect();
    let timestamp = time::unix_microseconds(now).div_euclid(1_000_000);
    graphite_lines(&settings::graphite_prefix(), timestamp, &samples)
}

fn sample(slot: SlotId, now: i64) -> Option<Sample> {
    let mut slot = slot::lock(slot)?;
    let (names, tubes) = (slot.names(), slot.tube_names());
    let (statistics, ready_since) = (slot.statistics(), slot.ready_since());
    if ready_since.is_none() {
        // A task that becomes ready later has not been since then.
        slot.forget_ready_since();
    }
    drop(slot);
    let [database, schema, table] = names.map(|name| name.read());
    if table.is_empty() {
        return None;
    }
    let by_state = |tasks: Tasks, path: &[&str]| {
        let value = |(state, number): (&&str, i64)| (of(path, state), number);
        NAMES.iter().zip(tasks).map(value).collect::<Vec<_>>()
    };
    let mut values = by_state(statistics.tasks, &[]);
    let call = |call: &Call| (of(&["calls"], call.name()), statistics.calls[*call as usize]);
    // Each value is a file for Graphite: what has never happened gets none.
    values.extend(Call::ALL.iter().map(call).filter(|(_, tasks)| *tasks != 0));
    values.push((of(&[], "consumers"), statistics.consumers.into()));
    let age = ready_since.map(|since| (now - since).max(0) / 1_000_000);
    values.extend(age.map(|seconds| (of(&[], "oldest_ready_seconds"), seconds)));
    for (tube, counters) in tubes.iter().zip(&statistics.tubes) {
        let name = tube.read();
        if !name.is_empty() {
            values.extend(by_state(counters.tasks, &["tubes", &name]));
        }
    }
    Some(Sample { database, schema, table, values })
}

/// The path of a value behind that of the table.
fn of(path: &[&str], name: &str) -> Vec<String> {
    path.iter().chain([&name]).map(|part| part.to_string()).collect()
}
