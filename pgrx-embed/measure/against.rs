//! Compares two builds in two servers. A child process measures each figure, alternating between the servers, so that
//! other load on the machine affects both.

use std::process::Command;

use crate::figures::{FIGURES, Figure, Unit};
use crate::numbers::Sample;
use crate::options::{Options, Server};
use crate::report::Section;
use crate::{Result, watchdog};

pub fn compare(options: &Options, other: &Server) -> Result<Section> {
    let mut rows = Vec::new();
    for figure in &FIGURES {
        if options.cases.is_empty() || options.cases.iter().any(|name| name == figure.name) {
            rows.push(row(figure, options, other)?);
        }
    }
    Ok(Section {
        title: "New against old",
        header: vec!["figure", "old", "new", "new to old", "quartiles", "worst … best"],
        rows,
        notes: vec![format!(
            "Medians of {} pairs; old and new are measured one right after the other, each first in every other pair. \
             The ratio is that of a pair: above 1, the new build is faster. Tasks per second by 4 clients, killed and wake \
             in microseconds; synchronous_commit is off.",
            options.effort.rounds
        )],
        plot: None,
    })
}

fn row(figure: &Figure, options: &Options, other: &Server) -> Result<Vec<String>> {
    let (mut olds, mut news, mut ratios) =
        (Sample::default(), Sample::default(), Sample::default());
    for round in 1..=options.effort.rounds {
        watchdog::enter(format!("{}, pair {round}", figure.name));
        let measure = |other| -> Result<f64> {
            let arguments = ["figure", figure.name].map(str::to_owned);
            Ok(in_child(&arguments, options, other)?.parse()?)
        };
        let (old, new) = if round % 2 == 0 {
            let old = measure(Some(other))?;
            (old, measure(None)?)
        } else {
            let new = measure(None)?;
            (measure(Some(other))?, new)
        };
        olds.add(old);
        news.add(new);
        ratios.add(figure.ratio(new, old));
    }
    let unit = match figure.unit {
        Unit::TasksPerSecond => "/s",
        Unit::Microseconds => "µs",
    };
    let range = |low, high| format!("{:.3} … {:.3}", ratios.quantile(low), ratios.quantile(high));
    Ok(vec![
        figure.name.into(),
        format!("{:.0} {unit}", olds.median()),
        format!("{:.0} {unit}", news.median()),
        format!("{:.3}", ratios.median()),
        range(0.25, 0.75),
        range(0.0, 1.0),
    ])
}

/// Measures in a child process, in the server that the environment names or in the other one.
pub fn in_child(arguments: &[String], options: &Options, other: Option<&Server>) -> Result<String> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).args(&options.effort_arguments);
    if let Some(other) = other {
        command.env("PGHOST", &other.sockets).env("PGPORT", other.port.to_string());
    }
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let build = if other.is_some() { "old" } else { "new" };
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(
            format!("{} of the {build} build: {}", arguments.join(" "), errors.trim()).into()
        );
    }
    Ok(text.trim().to_owned())
}
