//! Compares two builds by the change of their rates as consumers grow.

use super::cell::Cell;
use super::kind::Kind;
use super::round::Round;
use super::selection::Selection;
use crate::against::in_child;
use crate::numbers::Sample;
use crate::options::{Options, Server};
use crate::report::{Section, row};
use crate::{Result, watchdog};

/// The results of one build, one value for each pair.
#[derive(Default)]
struct Side {
    rates: Sample,
    p99: Sample,
}

pub fn compare(options: &Options, other: &Server) -> Result<Section> {
    let selection = &options.effort.crowd;
    let mut rows = Vec::new();
    for kind in selection.kinds() {
        for commit in selection.commits(&["off"]) {
            rows.extend(of_kind(kind, commit, selection, options, other)?);
        }
    }
    Ok(Section {
        title: "Crowds, new against old",
        header: vec![
            "kind",
            "commit",
            "clients",
            "old",
            "new",
            "new to old",
            "quartiles",
            "old to its own with the fewest",
            "new to its own",
            "p99 of a take, old",
            "new",
        ],
        rows,
        notes: vec![format!(
            "Tasks per second. Medians of {} pairs of {} s; old and new are measured one right after the other, each \
             first in every other pair, and the numbers of clients in turn. The ratio is that of a pair: above 1, the \
             new build is faster.",
            options.effort.rounds, options.effort.seconds
        )],
        plot: None,
    })
}

fn of_kind(
    kind: Kind,
    commit: &'static str,
    selection: &Selection,
    options: &Options,
    other: &Server,
) -> Result<Vec<Vec<String>>> {
    let clients = selection.clients();
    let clients = kind.group.clients(&clients);
    let mut pairs: Vec<[Side; 2]> = clients.iter().map(|_| Default::default()).collect();
    let mut ratios: Vec<Sample> = clients.iter().map(|_| Sample::default()).collect();
    for pair in 1..=options.effort.rounds {
        for (clients, (sides, ratios)) in clients.iter().zip(pairs.iter_mut().zip(&mut ratios)) {
            watchdog::enter(format!("{}, {clients} clients, pair {pair}", kind.name()));
            let round = Round { group: kind.group, clients: *clients, commit };
            let cell = Cell { kind, round };
            let mut rates = [0.0; 2];
            for which in if pair % 2 == 0 { [0, 1] } else { [1, 0] } {
                let server = (which == 0).then_some(other);
                let (rate, p99) = measured(&in_child(&cell.arguments(), options, server)?)?;
                rates[which] = rate;
                sides[which].rates.add(rate);
                sides[which].p99.add(p99);
            }
            ratios.add(rates[1] / rates[0]);
        }
    }
    let fewest = pairs[0].each_ref().map(|side| side.rates.median());
    let cells = clients.iter().zip(pairs.iter().zip(&ratios)).map(|(clients, (sides, ratios))| {
        let [old, new] = sides.each_ref().map(|side| side.rates.median());
        let quartiles = [0.25, 0.75].map(|share| format!("{:.3}", ratios.quantile(share)));
        let p99 = sides.each_ref().map(|side| format!("{:.2} ms", side.p99.median() / 1000.0));
        let [old_p99, new_p99] = p99;
        let cells = [
            commit.to_owned(),
            clients.to_string(),
            format!("{old:.0}"),
            format!("{new:.0}"),
            format!("{:.3}", ratios.median()),
            quartiles.join(" … "),
            format!("{:.2}", old / fewest[0]),
            format!("{:.2}", new / fewest[1]),
            old_p99,
            new_p99,
        ];
        row(kind.name(), cells)
    });
    Ok(cells.collect())
}

/// Parses the output of `Cell::measure`.
fn measured(text: &str) -> Result<(f64, f64)> {
    let (rate, p99) = text.split_once(' ').ok_or(format!("a round says {text}"))?;
    Ok((rate.parse()?, p99.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_says_two_numbers() {
        assert_eq!(measured("21034.5 1200").ok(), Some((21034.5, 1200.0)));
        assert!(measured("21034.5").is_err());
    }
}
