//! The cost of each call of a lifecycle for a single client.

use crate::effort::Effort;
use crate::numbers::microseconds;
use crate::peer::{Load, Peers, Work};
use crate::pgbench::Length;
use crate::race::COMMITS;
use crate::report::Section;
use crate::{Result, watchdog};

const BACKLOG: u32 = 1000;

pub fn measure(effort: &Effort, peers: &mut Peers) -> Result<Section> {
    let mut rows = Vec::new();
    for commit in COMMITS {
        peers.each(Work::Lifecycle, |peer| {
            let name = peer.name().to_owned();
            watchdog::enter(format!("the calls of {name}"));
            peer.fill(BACKLOG, commit)?;
            let load = Load { clients: 1, commit, length: Length::Seconds(effort.seconds) };
            if let Some(latencies) = peer.calls(&load)? {
                let cells = latencies.map(microseconds);
                rows.push([name, commit.into()].into_iter().chain(cells).collect());
            }
            Ok(())
        });
    }
    Ok(Section {
        title: "Call by call",
        header: vec!["by", "synchronous_commit", "put", "take", "ack"],
        rows,
        notes: vec![format!(
            "Mean latencies of one client's statements, round trip and commit included, in {} s of lifecycles.",
            effort.seconds
        )],
        plot: None,
    })
}
