//! The worker that sends metrics: reads the counters from shared memory, and leaves the network to
//! the sender's thread.

use crate::metrics::{Sample, graphite_lines};
use crate::model::status::NAMES;
use crate::parts::slot;
use crate::server::{latch, time, worker};
use crate::worker::graphite::{Event, Protocol, Sender, Target};
use crate::{background_worker, settings};
use std::time::{Duration, Instant};

/// How often the sender is asked what has become of a connection.
const EVENTS_INTERVAL: Duration = Duration::from_secs(1);

background_worker!(xqueue_metrics_main => main);

fn main(_argument: u32) {
    worker::handle_signals();
    worker::connect(None);
    let sender = match Sender::start() {
        Ok(sender) => sender,
        Err(error) => return pgrx::warning!("xqueue: cannot start the sender of metrics: {error}"),
    };
    let mut last_sent: Option<Instant> = None;
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
                }
                let next = if due.is_zero() { settings::graphite_interval() } else { due };
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
        latch::wait(pause, false);
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
    let sample = |slot| {
        let slot = slot::lock(slot)?;
        let (names, tasks) = (slot.names(), slot.statistics().tasks);
        drop(slot);
        let [database, schema, table] = names.map(|name| name.read());
        (!table.is_empty()).then_some(Sample { database, schema, table, tasks })
    };
    let samples: Vec<Sample> =
        slot::all(None).into_iter().filter_map(|(slot, _)| sample(slot)).collect();
    let now = time::unix_microseconds(time::now()).div_euclid(1_000_000);
    graphite_lines(&settings::graphite_prefix(), now, &samples, &NAMES)
}
