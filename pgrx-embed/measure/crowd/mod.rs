//! How a queue's rate scales with the number of its consumers.

mod against;
pub mod cell;
pub mod kind;
mod results;
pub mod round;
pub mod selection;
mod waits;
mod wal;

pub use against::compare;
pub use selection::CASE;

use kind::{Group, Way};
use results::Results;
use round::Round;
use waits::Waits;
use wal::Wal;

use crate::Result;
use crate::effort::Effort;
use crate::peer::{self, DONE, HAND, NEXT, Peers, ROWS, Variant};
use crate::plot::Plot;
use crate::race::COMMITS;
use crate::report::Section;

/// Ways to call xqueue that differ from the measured ones only in what they return.
const LEFT_OUT: [&str; 2] = ["xqueue-jsonb", "xqueue-insert"];
const NOTE: &str = "Medians of {rounds} rounds of {seconds} s, after a second and one more for each 40 clients in which they warm up; in \
    each all numbers of clients and all contenders are measured in turn. \
    Before each the queue is filled anew and vacuumed and a checkpoint is made, so that the WAL has more full pages than \
    in the long run: they are told apart, in bytes a task. A take's latency is that of its statement with its commit, in \
    all rounds; what ours does with done and next is ack and take. Waits: of backends at work, looked at 20 times a second.";

pub fn measure(effort: &Effort, peers: &mut Peers) -> Result<Section> {
    let selection = &effort.crowd;
    let mut all = Vec::new();
    for (group, ways) in kind::groups(&selection.kinds()) {
        let mut own = of_variant(group.variant, peers)?;
        for commit in selection.commits(&COMMITS) {
            let competing = own.as_mut().unwrap_or(&mut *peers);
            all.push(rounds(group, &ways, commit, effort, competing)?);
        }
        if let Some(mut own) = own {
            peers.note(own.left_out());
        }
    }
    let (rounds, seconds) = (effort.rounds.to_string(), effort.seconds.to_string());
    let mut notes = vec![NOTE.replace("{rounds}", &rounds).replace("{seconds}", &seconds)];
    for results in &all {
        let (title, table) = (results.title(), results.table().to_string());
        notes.push(format!("### {title}\n\n{}", table.trim_end()));
    }
    Ok(Section {
        title: "Crowds of consumers",
        header: vec![
            "",
            "by",
            "with the fewest clients",
            "with the most",
            "ratio",
            "p99 of a take with the most",
        ],
        rows: all.iter().flat_map(Results::summary).collect(),
        notes,
        plot: Some(Plot::Panels(all.iter().map(Results::plot).collect())),
    })
}

/// Returns the contenders for a variant, limited to contenders that still compete.
fn of_variant(variant: Variant, peers: &mut Peers) -> Result<Option<Peers>> {
    if variant == Variant::Plain {
        return Ok(None);
    }
    let mut own = Peers::default();
    for name in [HAND, ROWS, DONE, NEXT] {
        if peers.named(name).is_some() {
            own.push(peer::of_variant(name, variant)?);
        }
    }
    Ok(Some(own))
}

fn rounds(
    group: Group,
    ways: &[Way],
    commit: &'static str,
    effort: &Effort,
    peers: &mut Peers,
) -> Result<Results> {
    let clients = effort.crowd.clients();
    let mut results = Results::new(group, commit, group.clients(&clients).to_vec());
    let mut wal = Wal::open()?;
    for _ in 0..effort.rounds {
        for (place, clients) in results.clients.clone().into_iter().enumerate() {
            let round = Round { group, clients, commit };
            peers.each(group.work, |peer| {
                let name = peer.name().to_owned();
                if !is_wanted(&name, ways) {
                    return Ok(());
                }
                round.fill(peer, effort)?;
                let mut waits = Waits::default();
                let (timed, written) = wal.during(|| waits.during(|| round.run(peer, effort)))?;
                if let Some(timed) = timed {
                    results.cell(&name, place).add(timed, waits, written);
                }
                Ok(())
            });
        }
    }
    Ok(results)
}

fn is_wanted(contender: &str, ways: &[Way]) -> bool {
    match Way::of(contender) {
        Some(way) => ways.contains(&way),
        None => !LEFT_OUT.contains(&contender),
    }
}
