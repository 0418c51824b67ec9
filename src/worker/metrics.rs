//! The metrics worker: reads the counters of all databases from shared memory and sends them to Graphite.

use crate::parts::schedule::{requests, status};
use crate::parts::slot;
use crate::server::{latch, time, worker};
use crate::worker::graphite::Sender;
use crate::{background_worker, settings};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use xqueue_core::metrics::{Measured, families, graphite_lines};
use xqueue_core::slot_id::SlotId;

/// Maximum time before a report at which database workers are asked for ages that only their tables show.
const ASK_AHEAD: Duration = Duration::from_secs(1);
/// Minimum interval at which a database without a worker gets one only for the metrics.
const REST_INTERVAL: Duration = Duration::from_secs(10);

background_worker!(xqueue_metrics_main => main);

fn main(_argument: u32) {
    worker::handle_signals();
    worker::connect(None);
    let mut sender: Option<Sender> = None;
    let mut due_at = Instant::now();
    let mut has_asked = false;
    let mut rested = HashMap::new();
    loop {
        worker::reload_settings();
        let target = settings::graphite();
        if sender.as_ref().map(|sender| &sender.target) != target.as_ref() {
            (sender, due_at) = (target.map(Sender::new), Instant::now());
        }
        let Some(sender) = &mut sender else {
            latch::wait(latch::Reason::Work, None, false);
            continue;
        };
        let (now, interval) = (Instant::now(), settings::graphite_interval());
        // The setting can have become shorter.
        due_at = due_at.min(now + interval);
        if due_at <= now {
            if sender.is_free() {
                sender.send(report(), now);
            }
            (due_at, has_asked) = (now + interval, false);
        }
        if due_at - now <= ASK_AHEAD && !std::mem::replace(&mut has_asked, true) {
            ask_workers(&mut rested);
        }
        match sender.work(now) {
            Some(Ok(message)) => pgrx::log!("xqueue: {message}"),
            Some(Err(message)) => pgrx::warning!("xqueue: {message}"),
            None => {}
        }
        let (socket, pause) = sender.awaited(now);
        latch::wait_for_room(latch::Reason::Work, Some(pause.min(due_at - now)), socket);
    }
}

/// Asks database workers to record outdated ages of ready tasks in time for the next report.
fn ask_workers(rested: &mut HashMap<u32, Instant>) {
    rested.retain(|_, asked| asked.elapsed() < REST_INTERVAL);
    for database in slot::databases_with_outdated_ages() {
        // A resting worker has to be started first.
        let rests = status::worker_of(database).is_none_or(|worker| worker.worker.is_none());
        if !rests || !rested.contains_key(&database) {
            requests::request(database, |requests| requests.metrics = true);
        }
        if rests {
            rested.entry(database).or_insert_with(Instant::now);
        }
    }
}

fn report() -> String {
    let now = time::now();
    let measured: Vec<Measured> =
        slot::all(None).into_iter().filter_map(|(slot, _)| measured(slot, now)).collect();
    let timestamp = time::unix_microseconds(now).div_euclid(1_000_000);
    graphite_lines(&settings::graphite_prefix(), timestamp, &families(&measured, &[]))
}

fn measured(slot: SlotId, now: i64) -> Option<Measured> {
    let mut slot = slot::lock(slot)?;
    let (names, tubes) = (slot.shown.names(), slot.tubes().names());
    let statistics = slot.counters().statistics();
    let ready_since = statistics.ready_since;
    if ready_since.is_none() {
        // No task is ready: a task that becomes ready later must not inherit an older time.
        slot.shown.forget_ready_since();
    }
    drop(slot);
    let names = names.map(|name| name.read());
    let tubes = tubes.iter().flatten().map(|tube| tube.read());
    let oldest_ready = ready_since.map(|since| time::seconds_of((now - since).max(0)));
    Some(statistics.measured(names, tubes, oldest_ready)).filter(|queue| !queue.names[2].is_empty())
}
