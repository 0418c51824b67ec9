//! Runs the blocks of a page in psql.

use std::process::Command;

use super::compare::is_shown;
use super::page::{Block, Kind, Page};
use crate::Database;

/// A statement of a block ends after 30 s at the latest.
const OPTIONS: &str = "-c statement_timeout=30s -c DateStyle=ISO -c TimeZone=UTC";

/// Returns the blocks that do not run to their end, fail, or print something other than the page shows.
pub fn failures(page: &Page) -> Vec<String> {
    let is_run = |block: &&Block| matches!(block.kind, Kind::Sql { .. });
    let blocks: Vec<&Block> = page.blocks.iter().filter(is_run).collect();
    if blocks.is_empty() {
        return Vec::new();
    }
    let printed = psql(&script(&blocks));
    let lines: Vec<String> = printed.lines().map(str::to_owned).collect();
    let judged = blocks.iter().enumerate().filter_map(|(n, block)| {
        let problem = judge(block, printed_by(&lines, n)?).err()?;
        Some((block.line, problem))
    });
    let unrun = (0..blocks.len())
        .filter(|n| printed_by(&lines, *n).is_none())
        .map(|n| (blocks[n].line, format!("did not run to its end; psql printed:\n{printed}")))
        .take(1);
    judged
        .chain(unrun)
        .map(|(line, problem)| format!("{}:{line}: {problem}", page.path.display()))
        .collect()
}

fn begin(number: usize) -> String {
    format!("=== block {number} begins ===")
}

fn end(number: usize) -> String {
    format!("=== block {number} ends ===")
}

fn script(blocks: &[&Block]) -> String {
    let mut script = String::new();
    for (n, block) in blocks.iter().enumerate() {
        let text = block.text.join("\n");
        script.push_str(&format!("\\echo {}\n{text}\n\\echo {}\n", begin(n), end(n)));
    }
    script
}

/// Returns the lines between the marks of a block; None unless both marks exist.
fn printed_by(lines: &[String], number: usize) -> Option<&[String]> {
    let first = lines.iter().position(|line| *line == begin(number))? + 1;
    let length = lines[first..].iter().position(|line| *line == end(number))?;
    Some(&lines[first..first + length])
}

fn judge(block: &Block, printed: &[String]) -> Result<(), String> {
    let is_right = match &block.kind {
        Kind::Sql { output: Some(output) } => is_shown(output, printed),
        _ => !printed.iter().any(|line| is_error(line)),
    };
    if is_right { Ok(()) } else { Err(format!("psql prints\n{}", printed.join("\n"))) }
}

fn is_error(line: &str) -> bool {
    ["ERROR:", "FATAL:", "PANIC:", "WARNING:", "invalid command", "psql:", "error:"]
        .iter()
        .any(|start| line.starts_with(start))
}

/// Returns the output of psql, errors included, in a fresh database that has the extension.
fn psql(script: &str) -> String {
    printed_in(&Database::new("docs"), script)
}

/// Returns the output of psql, errors included, in a database.
pub fn printed_in(database: &Database, script: &str) -> String {
    let mut shell = Command::new("bash");
    shell.args(["-c", r#"psql -Xqd "$1" <<<"$2" 2>&1"#, "psql", &database.name, script]);
    let output = shell.env("PGOPTIONS", OPTIONS).output().expect("bash runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
