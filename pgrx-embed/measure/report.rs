//! Markdown.

use std::fmt::{self, Display, Formatter};

use crate::plot::Plot;

/// A heading, a table, and the notes needed to read it.
pub struct Section {
    pub title: &'static str,
    pub notes: Vec<String>,
    pub header: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
    pub plot: Option<Plot>,
}

/// A table within a section's notes.
pub struct Table {
    pub header: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
}

impl Display for Table {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write_table(out, &self.header, &self.rows)
    }
}

fn write_table(out: &mut Formatter<'_>, header: &[&str], rows: &[Vec<String>]) -> fmt::Result {
    writeln!(out, "| {} |", header.join(" | "))?;
    writeln!(out, "|---|{}", "---:|".repeat(header.len() - 1))?;
    for row in rows {
        writeln!(out, "| {} |", row.join(" | "))?;
    }
    Ok(())
}

impl Display for Section {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        writeln!(out, "## {}\n", self.title)?;
        write_table(out, &self.header, &self.rows)?;
        for note in &self.notes {
            write!(out, "\n{note}\n")?;
        }
        Ok(())
    }
}

/// Returns a row of a table, from its name and its other cells.
pub fn row(name: impl Into<String>, cells: impl IntoIterator<Item = String>) -> Vec<String> {
    [name.into()].into_iter().chain(cells).collect()
}
