//! Findings in the server's log, which is JSON.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::Value;

// Words of messages, separated by `|`.

/// Messages of crashed processes and failed assertions.
const CRASHES: &str = "PANIC|TRAP|terminated by signal|was terminated by exception|panicked at";
/// Warnings about a leaked resource, a write past the end of memory, or a lock that is not held.
const LEAKS: &str = "leak|not closed|still active|still referenced|not found in|problem in alloc set|write past|\
    free in wrong|you don't own a lock|already held";
/// Internal errors of the server itself. Arguments of any function cause some, such as NULLs and pseudo-types for
/// polymorphic types. sqlsmith causes others, because it calls internal functions directly. Naming a row type does not
/// lock its table, which can be dropped meanwhile (load_typcache_tupdesc): "could not open relation". This extension
/// checks a table before it opens it, and opens an index only with its table locked.
const OF_THE_SERVER: &str = "could not open relation with OID|cannot display a value of type|-element int8 array|\
    cannot accept a value of type|could not determine polymorphic type|unrecognized interval typmod|\
    aggregate function called in non-aggregate context";

fn is_one_of(list: &str, message: &str) -> bool {
    list.split('|').any(|words| message.contains(words))
}

/// Number of lines of one kind that are kept.
const KEPT: usize = 40;

#[derive(Default)]
pub struct Findings {
    pub crashes: Vec<String>,
    pub leaks: Vec<String>,
    /// Internal errors that involve xqueue.
    pub internal: Vec<String>,
    /// Numbers of errors by application and class of SQLSTATE.
    pub errors: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Reads the JSON log and the other logs.
pub fn read(json: &Path, others: &[String]) -> Findings {
    let mut findings = Findings::default();
    if let Ok(file) = File::open(json) {
        for line in BufReader::new(file).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            match serde_json::from_str(&line) {
                Ok(entry) => findings.entry(&entry),
                Err(_) => findings.line(&line),
            }
        }
    }
    others.iter().flat_map(|text| text.lines()).for_each(|line| findings.line(line));
    findings
}

fn keep(lines: &mut Vec<String>, line: String) {
    if lines.len() < KEPT && !lines.contains(&line) {
        lines.push(line);
    }
}

impl Findings {
    fn line(&mut self, line: &str) {
        if is_one_of(CRASHES, line) {
            keep(&mut self.crashes, line.to_owned());
        }
    }

    fn entry(&mut self, entry: &Value) {
        let text = |key: &str| entry[key].as_str().unwrap_or_default();
        let (severity, state, message) =
            (text("error_severity"), text("state_code"), text("message"));
        let is_ours = text("file_name").ends_with(".rs")
            || text("backend_type").contains("xqueue")
            || [text("statement"), text("context")].iter().any(|text| text.contains("xqueue"));
        let [detail, context, statement] = ["detail", "context", "statement"].map(text);
        let at = format!("{}:{}", text("file_name"), entry["file_line_num"]);
        let long =
            format!("{severity} {state} {message} [{at}] {detail} | {context} | {statement}")
                .replace('\n', " ");
        if severity == "ERROR" || severity == "FATAL" {
            let name = text("application_name");
            let source = if name.is_empty() { text("backend_type") } else { name };
            let class = state.get(..2).unwrap_or_default().to_owned();
            *self.errors.entry(source.to_owned()).or_default().entry(class).or_default() += 1;
        }
        match severity {
            "PANIC" => keep(&mut self.crashes, long),
            "LOG" if is_one_of(CRASHES, message) => keep(&mut self.crashes, long),
            "WARNING" if is_one_of(LEAKS, message) => keep(&mut self.leaks, long),
            "ERROR" | "FATAL"
                if is_ours && state.starts_with("XX") && !is_one_of(OF_THE_SERVER, message) =>
            {
                keep(&mut self.internal, long);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns the numbers of crashes, leaks and internal errors that an entry of the log is.
    fn found(entry: Value) -> [usize; 3] {
        let mut findings = Findings::default();
        findings.entry(&entry);
        [findings.crashes.len(), findings.leaks.len(), findings.internal.len()]
    }

    #[test]
    fn crashes_leaks_and_internal_errors_are_told_from_others() {
        let entry = |severity: &str, message: &str| {
            found(json!({"error_severity": severity, "message": message}))
        };
        assert_eq!(entry("LOG", "client backend (PID 7) was terminated by signal 11"), [1, 0, 0]);
        assert_eq!(entry("WARNING", "resource was not closed: relation \"q\""), [0, 1, 0]);
        assert_eq!(entry("WARNING", "snapshot 0x7f still active"), [0, 1, 0]);
        assert_eq!(entry("WARNING", "there is no transaction in progress"), [0, 0, 0]);
        // Internal errors are ours by place or statement.
        let error = |file: &str, statement: &str| {
            found(
                json!({"error_severity": "ERROR", "state_code": "XX000", "message": "cache lookup failed",
                         "file_name": file, "statement": statement}),
            )
        };
        assert_eq!(error("src/api/named.rs", "EXECUTE p"), [0, 0, 1]);
        assert_eq!(error("lsyscache.c", "SELECT xqueue.take('q')"), [0, 0, 1]);
        assert_eq!(error("lsyscache.c", "SELECT 1"), [0, 0, 0]);
        let mut of_text = Findings::default();
        of_text.line("TRAP: failed Assert(\"x\"), File: \"y.c\"");
        of_text.line("stopping");
        assert_eq!(of_text.crashes.len(), 1);
    }
}
