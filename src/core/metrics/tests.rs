//! A reader of the format reads written metrics back unchanged, with arbitrary names.

use crate::change::CallKind;
use crate::metrics::family::{FAMILIES, FamilyKind};
use crate::metrics::graphite::safe_name;
use crate::metrics::*;
use crate::status::NAMES;
use proptest::prelude::*;

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => "[a-zA-Z0-9_-]{1,9}",
        3 => "[^\\x00]{0,20}",
        2 => "[a. /\\\\\"\n\r\t=,{}é]{0,9}",
    ]
}

fn measured() -> impl Strategy<Value = Measured> {
    // A reader represents whole numbers exactly up to this size.
    let number = || -(1i64 << 53)..(1i64 << 53);
    let lengths = prop::collection::vec(any::<i32>(), 0..9);
    let tasks = (prop::array::uniform6(number()), prop::array::uniform6(number()));
    ([name(), name(), name()], tasks, number(), any::<u32>(), any::<bool>(), lengths).prop_map(
        |(names, (tasks, of_tube), put, consumers, exact, lengths)| {
            let mut counters = Counters { tasks, consumers, exact, ..Counters::default() };
            lengths.iter().for_each(|length| counters.waits.add(i64::from(*length) * 1000));
            counters.calls[CallKind::Put as usize] = put;
            counters.calls[CallKind::Ttr as usize] = 4;
            let tubes = vec![(names[0].clone(), of_tube)];
            Measured { names, counters, tubes, ..Measured::default() }
        },
    )
}

/// A sample: its name, its labels and its value.
type Read = (String, Vec<(String, String)>, f64);

/// Reads a sample by the grammar of OpenMetrics.
fn read_sample(line: &str) -> Option<Read> {
    let (name, mut rest) = line.split_once('{')?;
    let mut labels = Vec::new();
    loop {
        let (label, quoted) = rest.split_once("=\"")?;
        let (mut value, mut chars) = (String::new(), quoted.char_indices());
        let end = loop {
            match chars.next()? {
                (end, '"') => break end,
                (_, '\\') => value.push(match chars.next()?.1 {
                    'n' => '\n',
                    escaped @ ('"' | '\\') => escaped,
                    _ => return None,
                }),
                (_, c) => value.push(c),
            }
        };
        labels.push((label.to_string(), value));
        let after = &quoted[end + 1..];
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None => return Some((name.into(), labels, after.strip_prefix("} ")?.parse().ok()?)),
        }
    }
}

proptest! {
    #[test]
    fn open_metrics_are_read_as_they_were_written(queues in prop::collection::vec(measured(), 0..4)) {
        let families = families(&queues, &[]);
        let text = open_metrics(&families);
        let lines: Vec<&str> = text.split('\n').collect();
        let samples = lines.iter().filter(|line| !line.starts_with('#'));
        let samples: Vec<_> = samples.map(|line| read_sample(line)).collect();
        let mut expected = Vec::new();
        for (family, samples) in &families {
            for sample in samples {
                let labels = sample.labels.iter().map(|(label, value)| (label.to_string(), value.clone()));
                let name = format!("{}{}", family.name, sample.suffix);
                expected.push(Some((name, labels.collect::<Vec<_>>(), sample.value)));
            }
        }
        prop_assert_eq!(samples, expected);
        prop_assert!(text.ends_with("# EOF"));
        prop_assert_eq!(lines.iter().filter(|line| line.starts_with('#')).count(), 2 * families.len() + 1);
    }

    #[test]
    fn a_queue_has_a_sample_of_each_thing_measured(queue in measured()) {
        let families = families(std::slice::from_ref(&queue), &[]);
        let of = |name: &str| &families.iter().find(|(family, _)| family.name == name).expect(name).1;
        let Measured { counters, tubes, .. } = &queue;
        prop_assert_eq!(of("xqueue_tasks")[0].value, counters.tasks[0].max(0) as f64);
        prop_assert_eq!(of("xqueue_tube_tasks")[1].value, tubes[0].1[1].max(0) as f64);
        prop_assert_eq!(of("xqueue_calls").len(), CallKind::ALL.len());
        prop_assert_eq!(of("xqueue_calls")[CallKind::Put as usize].value, counters.calls[CallKind::Put as usize] as f64);
        prop_assert_eq!(of("xqueue_failed_attempts").iter().map(|sample| sample.value).sum::<f64>(), 4.0);
        prop_assert_eq!(of("xqueue_consumers")[0].value, f64::from(counters.consumers));
        let waits = of("xqueue_wait_seconds");
        prop_assert!(waits.windows(2).take(16).all(|pair| pair[0].value <= pair[1].value));
        prop_assert_eq!(waits[waits.len() - 2].value, counters.waits.total() as f64);
    }

    #[test]
    fn a_line_of_graphite_is_a_path_a_number_and_an_instant(
        prefix in name(), queue in measured(), now in any::<i64>()
    ) {
        let text = graphite_lines(&prefix, now, &families(std::slice::from_ref(&queue), &[]));
        let lines: Vec<&str> = text.lines().collect();
        prop_assert!(text.ends_with('\n') && lines.len() >= 2 * NAMES.len());
        let own = prefix.split('.').filter(|part| !part.is_empty()).count();
        for line in &lines {
            let [path, value, instant] = line.split(' ').collect::<Vec<_>>()[..] else {
                return Err(TestCaseError::fail(line.to_string()));
            };
            prop_assert!(value.parse::<f64>().is_ok() && instant.parse() == Ok(now));
            let path: Vec<&str> = path.split('.').collect();
            prop_assert_eq!(path[own..own + 3].to_vec(), queue.names.each_ref().map(|name| safe_name(name)));
            let is_safe = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            prop_assert!(path.iter().all(|part| !part.is_empty() && part.chars().all(is_safe)));
        }
        for ((line, state), tasks) in lines.iter().zip(NAMES).zip(queue.counters.tasks) {
            prop_assert!(line.ends_with(&format!(".{state} {} {now}", tasks.max(0))), "{line}");
        }
    }

    #[test]
    fn names_share_no_path(one in name(), other in name()) {
        // Excludes names chosen to look like another name with its hash, and empty names.
        let [one, other] = [one, other].map(|name| format!("{}x", name.replace('-', "+")));
        prop_assert_eq!(safe_name(&one) == safe_name(&other), one == other);
    }
}

/// Compares the rows of the reference with the list.
#[test]
fn every_family_is_in_the_reference() {
    let quoted = |names: &[&str]| {
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    let expected = FAMILIES.iter().map(|family| {
        let name = if family.kind == FamilyKind::Counter {
            format!("{}_total", family.name)
        } else {
            family.name.into()
        };
        let path = family.graphite.map(|path| {
            let labels = family.labels.iter().map(|label| format!("<{label}>"));
            let parts =
                [path.to_string()].into_iter().chain(labels).filter(|part| !part.is_empty());
            parts.collect::<Vec<_>>().join(".")
        });
        let kind = format!("{:?}", family.kind).to_lowercase();
        [
            quoted(&[&name]),
            kind,
            quoted(family.labels),
            path.map_or(String::new(), |path| quoted(&[&path])),
        ]
    });
    let reference = include_str!("../../../docs/reference/metrics.md");
    let rows = reference.lines().filter(|line| line.starts_with("| `xqueue_"));
    let described = rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        // A description can follow a label.
        let labels = cells[3].split(':').next().unwrap_or_default();
        [cells[1], cells[2], labels, cells[4]].map(String::from)
    });
    assert_eq!(described.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}
