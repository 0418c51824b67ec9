//! Formats counters in the Graphite plaintext protocol; `worker::graphite` sends the text.

use crate::metrics::family::{Family, FamilyKind, Sample};
use std::fmt::Write;

/// Number of labels that identify the queue: database, schema and table.
const NAMES: usize = 3;

/// Formats one line per value: `<prefix>.<database>.<schema>.<table>.<path> <value> <unix seconds>`.
pub fn graphite_lines(
    prefix: &str,
    timestamp: i64,
    families: &[(&'static Family, Vec<Sample>)],
) -> String {
    let mut lines = String::new();
    let prefix = safe_prefix(prefix);
    for (family, samples) in families {
        let Some(path) = family.graphite else { continue };
        // Graphite creates a file for each path, so a counter is not sent before its first event.
        let is_sent = |sample: &&Sample| family.kind != FamilyKind::Counter || sample.value != 0.0;
        for Sample { labels, value, .. } in samples.iter().filter(is_sent) {
            let mut parts: Vec<String> = labels.iter().map(|(_, name)| safe_name(name)).collect();
            if !path.is_empty() {
                parts.insert(NAMES, path.into());
            }
            // Writing into a String cannot fail.
            let _ = writeln!(lines, "{prefix}{} {value} {timestamp}", parts.join("."));
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
    let safe = if name.is_empty() { "_".into() } else { replaced(name) };
    if safe == name { safe } else { format!("{safe}-{:08x}", fnv1a(name)) }
}

/// Returns the prefix with a closing dot, or an empty text. Dots separate components; empty components are left out.
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

/// Computes FNV-1a. It is implemented here because the standard library's hash can change between versions of Rust.
pub(crate) fn fnv1a(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Counters, Measured, families};
    use std::collections::HashSet;

    fn queue(database: &str, schema: &str, table: &str) -> Measured {
        Measured {
            names: [database, schema, table].map(String::from),
            counters: Counters { tasks: [1, 2, 3, 4, 5, 6], ..Counters::default() },
            ..Measured::default()
        }
    }

    fn lines(prefix: &str, timestamp: i64, queue: Measured) -> String {
        graphite_lines(prefix, timestamp, &families(&[queue], &[]))
    }

    #[test]
    fn a_line_for_each_state_and_for_the_consumers() {
        let lines = lines("xqueue", 1_700_000_000, queue("shop", "public", "jobs"));
        assert_eq!(
            lines,
            "xqueue.shop.public.jobs.ready 1 1700000000\n\
             xqueue.shop.public.jobs.taken 2 1700000000\n\
             xqueue.shop.public.jobs.waiting 3 1700000000\n\
             xqueue.shop.public.jobs.buried 4 1700000000\n\
             xqueue.shop.public.jobs.zombie 5 1700000000\n\
             xqueue.shop.public.jobs.done 6 1700000000\n\
             xqueue.shop.public.jobs.consumers 0 1700000000\n"
        );
    }

    #[test]
    fn a_path_may_go_deeper_and_calls_that_never_were_have_none() {
        let mut queue = queue("shop", "public", "jobs");
        queue.tubes.push(("a.b".into(), [7; 6]));
        queue.counters.calls[1] = 9;
        queue.oldest_ready = Some(1.5);
        let lines = lines("", 1, queue);
        assert!(
            lines.contains(&format!("\nshop.public.jobs.tubes.{}.ready 7 1\n", safe_name("a.b")))
        );
        assert!(lines.contains("\nshop.public.jobs.oldest_ready_seconds 1.5 1\n"));
        let calls: Vec<_> = lines.lines().filter(|line| line.contains("calls")).collect();
        assert_eq!(calls, ["shop.public.jobs.calls.take 9 1"]);
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
        assert_eq!(graphite_lines("xqueue", 1, &families(&[], &[])), "");
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
            let lines = lines("p", -5, queue(name, name, name));
            assert_eq!(lines.lines().count(), 7, "{name}");
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
        assert_eq!(safe_name(""), "_-811c9dc5");
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
        // Pinned, because dashboards use these paths.
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
            let lines = lines(prefix, 7, queue("d", "s", "t"));
            lines.lines().next().unwrap().to_string()
        };
        assert_eq!(first("prod.pg-1.xqueue"), "prod.pg-1.xqueue.d.s.t.ready 1 7");
        assert_eq!(first("..a..b."), "a.b.d.s.t.ready 1 7");
        assert_eq!(first("my servers"), "my_servers.d.s.t.ready 1 7");
        assert_eq!(first(""), "d.s.t.ready 1 7");
        assert_eq!(first("..."), "d.s.t.ready 1 7");
    }
}
