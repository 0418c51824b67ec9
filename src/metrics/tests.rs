//! Whatever the names: what is written is read again by a reader of the format.

use crate::metrics::graphite::safe_name;
use crate::metrics::*;
use proptest::prelude::*;

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => "[a-zA-Z0-9_-]{1,9}",
        3 => "[^\\x00]{0,20}",
        2 => "[a. /\\\\\"\n\r\t=,{}é]{0,9}",
    ]
}

fn counters() -> impl Strategy<Value = Counters> {
    let numbers = any::<(i64, i64, i64)>();
    (name(), name(), name(), numbers, any::<bool>()).prop_map(
        |(database, schema, table, numbers, exact)| Counters {
            database,
            schema,
            table,
            tasks: vec![("ready", numbers.0), ("taken", 0)],
            calls: vec![("put", numbers.1)],
            consumers: numbers.2,
            exact,
        },
    )
}

/// A sample: its name, its labels and its value.
type Read = (String, Vec<(String, String)>, i64);

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
    fn open_metrics_are_read_as_they_were_written(queues in prop::collection::vec(counters(), 0..4)) {
        let text = open_metrics(&queues);
        let lines: Vec<&str> = text.split('\n').collect();
        let samples = lines.iter().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let samples: Vec<_> = samples.map(|line| read_sample(line)).collect();
        let mut expected = Vec::new();
        let mut expect = |name: &str, queue: &Counters, label: Option<(&str, &str)>, number| {
            let labels = [("database", &queue.database), ("schema", &queue.schema), ("queue", &queue.table)];
            let labels = labels.map(|(label, value)| (label, value.as_str())).into_iter().chain(label);
            let labels = labels.map(|(label, value)| (label.to_string(), value.to_string())).collect();
            expected.push(Some((format!("xqueue_{name}"), labels, number)));
        };
        for queue in &queues {
            let tasks = queue.tasks.iter();
            tasks.for_each(|(state, number)| expect("tasks", queue, Some(("state", state)), *number));
        }
        for queue in &queues {
            let calls = queue.calls.iter();
            calls.for_each(|(call, number)| expect("calls_total", queue, Some(("call", call)), *number));
        }
        queues.iter().for_each(|queue| expect("consumers", queue, None, queue.consumers));
        queues.iter().for_each(|queue| expect("exact", queue, None, queue.exact.into()));
        prop_assert_eq!(samples, expected);
        prop_assert!(text.ends_with("\n# EOF\n"));
        prop_assert_eq!(lines.iter().filter(|line| line.starts_with('#')).count(), 2 * 4 + 1);
    }

    #[test]
    fn a_line_of_graphite_is_a_path_a_number_and_an_instant(
        prefix in name(), names in [name(), name(), name()], tasks in any::<[i64; 6]>(), now in any::<i64>()
    ) {
        let [database, schema, table] = names.clone();
        let sample = Sample { database, schema, table, tasks };
        let states = ["ready", "taken", "waiting", "buried", "zombie", "done"];
        let text = graphite_lines(&prefix, now, std::slice::from_ref(&sample), &states);
        let lines: Vec<&str> = text.split('\n').collect();
        prop_assert_eq!((lines.len(), lines[6]), (7, ""));
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
