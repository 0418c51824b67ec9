//! Tables and plots of a crowd's results.

use super::kind::Group;
use super::waits::Waits;
use super::wal::Written;
use crate::numbers::Sample;
use crate::peer::{HAND, Timed};
use crate::plot::Lines;
use crate::report::Table;

const WAITS: usize = 5;

/// The results of a contender with one number of clients.
#[derive(Default)]
pub struct Cell {
    pub rates: Sample,
    /// Over all rounds.
    pub takes: Sample,
    /// Bytes of WAL for each task: without full page images, and of full page images.
    pub wal: Sample,
    pub full_pages: Sample,
    pub waits: Waits,
}

impl Cell {
    pub fn add(&mut self, timed: Timed, waits: Waits, written: Written) {
        self.rates.add(timed.per_second);
        // A contender without backends is no queue in this server.
        if !waits.is_empty() {
            let full_pages = written.full_pages.unwrap_or(0.0);
            let tasks = timed.tasks;
            self.wal.add((written.all - full_pages) / tasks);
            self.full_pages.add(written.full_pages.unwrap_or(f64::NAN) / tasks);
        }
        self.takes.append(timed.takes);
        self.waits.append(waits);
    }
}

/// The results of a group with one synchronous_commit setting.
pub struct Results {
    pub group: Group,
    pub commit: &'static str,
    pub clients: Vec<u32>,
    /// Contenders, with one cell for each number of clients.
    contenders: Vec<(String, Vec<Cell>)>,
}

impl Results {
    pub fn new(group: Group, commit: &'static str, clients: Vec<u32>) -> Results {
        Results { group, commit, clients, contenders: Vec::new() }
    }

    /// Returns the cell of a contender and of the number of clients at this index.
    pub fn cell(&mut self, contender: &str, place: usize) -> &mut Cell {
        let known = self.contenders.iter().position(|(name, _)| name == contender);
        let row = known.unwrap_or_else(|| {
            let cells = self.clients.iter().map(|_| Cell::default()).collect();
            self.contenders.push((contender.to_owned(), cells));
            self.contenders.len() - 1
        });
        &mut self.contenders[row].1[place]
    }

    pub fn title(&self) -> String {
        format!("{}, synchronous_commit {}", self.group.title(), self.commit)
    }

    /// Returns one line for each contender, from the fewest clients to the most.
    pub fn summary(&self) -> Vec<Vec<String>> {
        let line = |(name, cells): &(String, Vec<Cell>)| {
            let (fewest, most) = (cells.first()?, cells.last()?);
            let [slow, fast] = [fewest, most].map(|cell| cell.rates.median());
            Some(vec![
                self.title(),
                name.clone(),
                format!("{slow:.0}"),
                format!("{fast:.0}"),
                format!("{:.2}", fast / slow),
                milliseconds(most.takes.percentile(0.99)),
            ])
        };
        self.contenders.iter().filter_map(line).collect()
    }

    pub fn table(&self) -> Table {
        let by_hand = self.contenders.iter().find(|(name, _)| name == HAND);
        let mut rows = Vec::new();
        for (name, cells) in &self.contenders {
            for (place, (cell, clients)) in cells.iter().zip(&self.clients).enumerate() {
                let rate = cell.rates.median();
                let to_hand = by_hand.map(|(_, cells)| ratio(rate, cells[place].rates.median()));
                let takes =
                    [0.5, 0.99, 1.0].map(|share| milliseconds(cell.takes.percentile(share)));
                let [median, p99, max] = takes;
                rows.push(vec![
                    name.clone(),
                    clients.to_string(),
                    format!("{rate:.0}"),
                    ratio(rate, cells[0].rates.median()),
                    to_hand.unwrap_or_default(),
                    median,
                    p99,
                    max,
                    bytes(cell.wal.median()),
                    bytes(cell.full_pages.median()),
                    cell.waits.most_frequent(WAITS),
                ]);
            }
        }
        let header = vec![
            "by",
            "clients",
            "tasks per second",
            "to its own with the fewest",
            "to hand-written",
            "take: median",
            "p99",
            "max",
            "WAL per task",
            "full pages",
            "waits",
        ];
        Table { header, rows }
    }

    pub fn plot(&self) -> (String, Lines) {
        let rates = |cells: &[Cell]| cells.iter().map(|cell| cell.rates.median()).collect();
        let lines = Lines {
            unit: "tasks per second, by the number of clients",
            labels: self.clients.iter().map(u32::to_string).collect(),
            lines: self
                .contenders
                .iter()
                .map(|(name, cells)| (name.clone(), rates(cells)))
                .collect(),
        };
        (self.title(), lines)
    }
}

fn ratio(rate: f64, other: f64) -> String {
    format!("{:.2}", rate / other)
}

fn milliseconds(microseconds: f64) -> String {
    format!("{:.2} ms", microseconds / 1000.0)
}

/// Formats bytes. Returns an empty string if they were not measured.
fn bytes(bytes: f64) -> String {
    if bytes.is_nan() { String::new() } else { format!("{bytes:.0}") }
}

#[cfg(test)]
mod tests {
    use super::super::kind::Kind;
    use super::Results;

    #[test]
    fn a_ratio_is_to_the_contenders_own_rate_with_the_fewest_clients() {
        let group = Kind::named("done")[0].group;
        let mut results = Results::new(group, "off", vec![4, 200]);
        for (place, rate) in [(0, 1000.0), (1, 900.0), (0, 1000.0), (1, 900.0)] {
            results.cell("hand-written", place).rates.add(2.0 * rate);
            results.cell("ours", place).rates.add(rate * (1.0 - 0.5 * place as f64));
        }
        let rows = results.table().rows;
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[3][..5], ["ours", "200", "450", "0.45", "0.25"].map(str::to_owned));
        assert_eq!(results.summary()[1][2..5], ["1000", "450", "0.45"].map(str::to_owned));
    }
}
