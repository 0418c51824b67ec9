//! Formats counters in the Graphite plaintext protocol; `worker::graphite` sends the text.

use std::fmt::Write;

/// The counters of one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    pub database: String,
    pub schema: String,
    pub table: String,
    /// Each with the components of its path behind the table's.
    pub values: Vec<(Vec<String>, i64)>,
}

/// Formats one line per queue and value: `<prefix>.<database>.<schema>.<table>.<path> <value> <unix seconds>`.
pub fn graphite_lines(prefix: &str, timestamp: i64, samples: &[Sample]) -> String {
    let mut lines = String::new();
    let prefix = safe_prefix(prefix);
    for sample in samples {
        let path: String = [&sample.database, &sample.schema, &sample.table]
            .iter()
            .flat_map(|name| [safe_name(name), ".".to_string()])
            .collect();
        for (name, value) in &sample.values {
            let name: Vec<String> = name.iter().map(|part| safe_name(part)).collect();
            // Writing into a String cannot fail.
            let _ = writeln!(lines, "{prefix}{path}{} {value} {timestamp}", name.join("."));
        }
    }
    lines
}

/// Returns the lines that fit a datagram of `limit` bytes. A single line above the limit goes alone.
pub fn first_datagram(text: &[u8], limit: usize) -> &[u8] {
    let mut end = 0;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if end > 0 && end + line.len() > limit {
            break;
        }
        end += line.len();
    }
    &text[..end]
}

/// Converts a name to one component of a metric path: letters, digits, `_` and `-` stay, other characters become `_`.
///
/// Graphite treats dots and slashes as separators and white space as the end of the path; the rest appears in file
/// names and patterns. A changed name gets a short hash of the original, so that `заказы` and `клиенты`, or `a b` and
/// `a.b`, have different paths. The hash depends on the name alone, so paths are stable.
pub fn safe_name(name: &str) -> String {
    if name.is_empty() {
        return "_".to_string();
    }
    let safe = replaced(name);
    if safe == name { safe } else { format!("{safe}-{:08x}", fnv1a(name)) }
}

/// Returns the prefix with its closing dot, or nothing. Its dots separate components; empty ones are left out.
fn safe_prefix(prefix: &str) -> String {
    prefix
        .split('.')
        .filter(|part| !part.is_empty())
        .flat_map(|part| [replaced(part), ".".to_string()])
        .collect()
}

fn replaced(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' })
        .collect()
}

/// Computes FNV-1a. Written out, as the standard library's hash may change between versions of Rust.
fn fnv1a(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use xqueue_core::status::NAMES;

    fn path(parts: &[&str]) -> Vec<String> {
        parts.iter().map(|part| part.to_string()).collect()
    }

    fn sample(database: &str, schema: &str, table: &str) -> Sample {
        Sample {
            database: database.into(),
            schema: schema.into(),
            table: table.into(),
            values: NAMES.iter().zip(1..).map(|(name, value)| (path(&[name]), value)).collect(),
        }
    }

    #[test]
    fn a_line_for_each_state() {
        let lines = graphite_lines("xqueue", 1_700_000_000, &[sample("shop", "public", "jobs")]);
        assert_eq!(
            lines,
            "xqueue.shop.public.jobs.ready 1 1700000000\n\
             xqueue.shop.public.jobs.taken 2 1700000000\n\
             xqueue.shop.public.jobs.waiting 3 1700000000\n\
             xqueue.shop.public.jobs.buried 4 1700000000\n\
             xqueue.shop.public.jobs.zombie 5 1700000000\n\
             xqueue.shop.public.jobs.done 6 1700000000\n"
        );
    }

    #[test]
    fn a_path_may_go_deeper() {
        let values = vec![(path(&["tubes", "a.b", "ready"]), 7)];
        let sample = Sample { values, ..sample("shop", "public", "jobs") };
        let lines = graphite_lines("", 1, &[sample]);
        assert_eq!(lines, format!("shop.public.jobs.tubes.{}.ready 7 1\n", safe_name("a.b")));
    }

    #[test]
    fn datagrams_end_with_a_line() {
        assert_eq!(first_datagram(b"", 6), b"");
        assert_eq!(first_datagram(b"aa\nbb\ncc\n", 6), b"aa\nbb\n");
        assert_eq!(first_datagram(b"aa\nbb\n", 100), b"aa\nbb\n");
        assert_eq!(first_datagram(b"longer\nb\n", 6), b"longer\n");
        assert_eq!(first_datagram(b"no end", 4), b"no end");
    }

    #[test]
    fn no_queue_no_line() {
        assert_eq!(graphite_lines("xqueue", 1, &[]), "");
    }

    #[test]
    fn every_line_has_three_words_whatever_the_names() {
        let odd = [
            "a b",
            "a.b",
            "a/b",
            "..",
            "line\nbreak",
            "quo\"te",
            "tab\t",
            "Заказы",
            "100%",
            "a;b=c",
            "{a,b}*?[]",
        ];
        for name in odd {
            let lines = graphite_lines("p", -5, &[sample(name, name, name)]);
            assert_eq!(lines.lines().count(), 6, "{name}");
            for line in lines.lines() {
                assert_eq!(line.split(' ').count(), 3, "{line}");
                assert_eq!(line.split(' ').next().unwrap().split('.').count(), 5, "{line}");
            }
        }
    }

    #[test]
    fn ordinary_names_stay() {
        for name in ["jobs", "Jobs", "job_2", "a-b", "_", "0"] {
            assert_eq!(safe_name(name), name);
        }
        assert_eq!(safe_name(""), "_");
    }

    #[test]
    fn changed_names_stay_apart_and_stay_the_same() {
        let names = [
            "a b",
            "a.b",
            "a/b",
            "a_b",
            "a\u{a0}b",
            "Заказы",
            "Клиент",
            "заказы",
            "______",
            ".",
            "..",
            "",
        ];
        let safe: HashSet<String> = names.iter().map(|name| safe_name(name)).collect();
        assert_eq!(safe.len(), names.len(), "{safe:?}");
        for name in &safe {
            assert!(
                name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'),
                "{name}"
            );
        }
        // Pinned, as dashboards use these paths.
        assert_eq!(safe_name("a b"), "a_b-10a3f9f2");
        assert_eq!(safe_name("Заказы"), "______-c083b6c3");
    }

    #[test]
    fn the_longest_name_fits_a_file_name() {
        assert!(safe_name(&"é".repeat(31)).len() < 200);
        assert!(safe_name(&"x y".repeat(21)).len() < 200);
    }

    #[test]
    fn prefix_keeps_its_dots_but_no_empty_component() {
        let first = |prefix| {
            let lines = graphite_lines(prefix, 7, &[sample("d", "s", "t")]);
            lines.lines().next().unwrap().to_string()
        };
        assert_eq!(first("prod.pg-1.xqueue"), "prod.pg-1.xqueue.d.s.t.ready 1 7");
        assert_eq!(first("..a..b."), "a.b.d.s.t.ready 1 7");
        assert_eq!(first("my servers"), "my_servers.d.s.t.ready 1 7");
        assert_eq!(first(""), "d.s.t.ready 1 7");
        assert_eq!(first("..."), "d.s.t.ready 1 7");
    }
}
