//! Whatever the names: what is written is read again by a reader of the format.

use crate::metrics::family::Kind;
use crate::metrics::graphite::safe_name;
use crate::metrics::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use xqueue_core::histogram::Histogram;
use xqueue_core::status::{NAMES, Tasks};

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => "[a-zA-Z0-9_-]{1,9}",
        3 => "[^\\x00]{0,20}",
        2 => "[a. /\\\\\"\n\r\t=,{}é]{0,9}",
    ]
}

fn measured() -> impl Strategy<Value = Measured> {
    // A reader knows whole numbers up to this size.
    let number = || -(1i64 << 53)..(1i64 << 53);
    let lengths = prop::collection::vec(any::<i32>(), 0..9);
    (name(), name(), name(), (number(), number(), number()), any::<bool>(), lengths).prop_map(
        |(database, schema, table, numbers, exact, lengths)| {
            let mut waits = Histogram::default();
            lengths.iter().for_each(|length| waits.add(i64::from(*length) * 1000));
            Measured {
                database,
                schema,
                tubes: vec![(table.clone(), vec![("ready", numbers.2)])],
                table,
                tasks: vec![("ready", numbers.0), ("taken", 0)],
                calls: vec![("put", numbers.1), ("ttr", 4)],
                waits,
                consumers: numbers.2,
                exact,
                ..Measured::default()
            }
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
        for family in &families {
            for sample in &family.samples {
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
        let of = |name: &str| families.iter().find(|family| family.name == name).expect(name);
        prop_assert_eq!(of("xqueue_tasks").samples[0].value, queue.tasks[0].1 as f64);
        prop_assert_eq!(of("xqueue_tube_tasks").samples[0].value, queue.tubes[0].1[0].1 as f64);
        prop_assert_eq!(of("xqueue_calls").samples[0].value, queue.calls[0].1 as f64);
        prop_assert_eq!(of("xqueue_failed_attempts").samples.len(), 1);
        prop_assert_eq!(of("xqueue_consumers").samples[0].value, queue.consumers as f64);
        let waits = &of("xqueue_wait_seconds").samples;
        prop_assert!(waits.windows(2).take(16).all(|pair| pair[0].value <= pair[1].value));
        prop_assert_eq!(waits[waits.len() - 2].value, queue.waits.total() as f64);
    }

    #[test]
    fn a_line_of_graphite_is_a_path_a_number_and_an_instant(
        prefix in name(), names in [name(), name(), name()], tasks in any::<Tasks>(), now in any::<i64>()
    ) {
        let [database, schema, table] = names.clone();
        let states = NAMES;
        let values = states.iter().zip(tasks).map(|(state, number)| (vec![state.to_string()], number));
        let sample = Sample { database, schema, table, values: values.collect() };
        let text = graphite_lines(&prefix, now, std::slice::from_ref(&sample));
        let lines: Vec<&str> = text.split('\n').collect();
        prop_assert_eq!((lines.len(), lines.last()), (states.len() + 1, Some(&"")));
        for ((line, state), number) in lines.iter().zip(states).zip(tasks) {
            let [path, value, instant] = line.split(' ').collect::<Vec<_>>()[..] else {
                return Err(TestCaseError::fail(line.to_string()));
            };
            prop_assert_eq!((value.parse(), instant.parse()), (Ok(number), Ok(now)));
            let path: Vec<&str> = path.split('.').collect();
            let own = path.len() - 4;
            prop_assert_eq!(own, prefix.split('.').filter(|part| !part.is_empty()).count());
            let expected = names.iter().map(|name| safe_name(name)).chain([state.to_string()]);
            prop_assert_eq!(path[own..].to_vec(), expected.collect::<Vec<_>>());
            let is_safe = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            prop_assert!(path.iter().all(|part| !part.is_empty() && part.chars().all(is_safe)));
        }
    }

    #[test]
    fn names_share_no_path(one in name(), other in name()) {
        // But for those that were chosen to look like another one with its hash, and those of no length.
        let [one, other] = [one, other].map(|name| format!("{}x", name.replace('-', "+")));
        prop_assert_eq!(safe_name(&one) == safe_name(&other), one == other);
    }
}

#[test]
fn every_family_is_in_the_reference() {
    let queue = Measured {
        tasks: vec![("ready", 0)],
        tubes: vec![("urgent".into(), vec![("ready", 0)])],
        calls: vec![("put", 0), ("release", 0)],
        oldest_ready: Some(0.0),
        capacity: Some((1, 0)),
        ..Measured::default()
    };
    let worker = MeasuredWorker { lag: Some(0.0), ..MeasuredWorker::default() };
    let families = families(&[queue], &[worker]);
    let names: BTreeSet<String> = families
        .iter()
        .map(|family| match family.kind {
            Kind::Counter => format!("{}_total", family.name),
            Kind::Gauge | Kind::Histogram => family.name.to_string(),
        })
        .collect();
    let reference = include_str!("../../docs/reference/metrics.md");
    let rows = reference.lines().filter(|line| line.starts_with("| `xqueue_"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let described = cells.flat_map(|cell| cell.split(", "));
    let described: BTreeSet<String> =
        described.map(|name| name.trim().trim_matches('`').to_string()).collect();
    assert_eq!(names, described);
}
