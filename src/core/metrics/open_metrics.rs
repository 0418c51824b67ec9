//! Formats metrics in the text format of OpenMetrics 1.0, which Prometheus reads.

use crate::metrics::family::{Family, FamilyKind, Sample};
use std::fmt::Write;

/// Formats metric families. The last line does not end with a newline, because a client that prints the text adds it. A
/// second newline would be an empty line, which the format forbids.
pub fn open_metrics(families: &[(&'static Family, Vec<Sample>)]) -> String {
    let mut text = String::new();
    for (Family { name, kind, help, .. }, samples) in families {
        let kind = match kind {
            FamilyKind::Gauge => "gauge",
            FamilyKind::Counter => "counter",
            FamilyKind::Histogram => "histogram",
        };
        // Writing into a String cannot fail.
        let _ = writeln!(text, "# TYPE {name} {kind}\n# HELP {name} {help}");
        samples.iter().for_each(|sample| line(&mut text, name, sample));
    }
    text + "# EOF"
}

fn line(text: &mut String, name: &str, sample: &Sample) {
    let Sample { suffix, labels, value } = sample;
    let labels: Vec<String> =
        labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
    let _ = writeln!(text, "{name}{suffix}{{{}}} {value}", labels.join(","));
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::CallKind;
    use crate::metrics::{Counters, Measured, MeasuredWorker, families};

    fn queue(table: &str) -> Measured {
        let mut counters = Counters { consumers: 2, exact: true, ..Counters::default() };
        counters.tasks[0] = 5;
        counters.calls[CallKind::Put as usize] = 7;
        counters.calls[CallKind::Ttr as usize] = 3;
        counters.waits.add(2_500);
        let names = ["shop", "public", table].map(String::from);
        Measured { names, counters, ..Measured::default() }
    }

    #[test]
    fn each_family_has_its_samples_together() {
        let text = open_metrics(&families(&[queue("jobs"), queue("mail")], &[]));
        let tasks = text.lines().take_while(|line| !line.contains("xqueue_calls"));
        let is_shown =
            |line: &&str| ["# ", "ready", "taken"].iter().any(|part| line.contains(part));
        let tasks: Vec<&str> = tasks.filter(is_shown).collect();
        assert_eq!(
            tasks,
            [
                "# TYPE xqueue_tasks gauge",
                "# HELP xqueue_tasks Tasks by state.",
                r#"xqueue_tasks{database="shop",schema="public",queue="jobs",state="ready"} 5"#,
                r#"xqueue_tasks{database="shop",schema="public",queue="jobs",state="taken"} 0"#,
                r#"xqueue_tasks{database="shop",schema="public",queue="mail",state="ready"} 5"#,
                r#"xqueue_tasks{database="shop",schema="public",queue="mail",state="taken"} 0"#,
            ]
        );
        let mail = r#"{database="shop",schema="public",queue="mail","#;
        assert!(text.contains(&format!("xqueue_calls_total{mail}call=\"put\"}} 7\n")), "{text}");
        let failed = format!("xqueue_failed_attempts_total{mail}cause=\"ttr\"}} 3\n");
        assert!(text.contains(&failed), "{text}");
        assert!(text.ends_with("queue=\"mail\"} 0\n# EOF"), "{text}");
    }

    #[test]
    fn a_histogram_has_cumulative_buckets() {
        let text = open_metrics(&families(&[queue("jobs")], &[]));
        let sample = |suffix: &str, le: &str| {
            let labels = r#"database="shop",schema="public",queue="jobs""#;
            let line = format!("xqueue_wait_seconds{suffix}{{{labels}{le}}} ");
            let found = text.lines().find_map(|known| known.strip_prefix(&line));
            found.unwrap_or_else(|| panic!("no {line} in {text}")).to_string()
        };
        assert_eq!(sample("_bucket", r#",le="0.001""#), "0");
        assert_eq!(sample("_bucket", r#",le="0.003""#), "1");
        assert_eq!(sample("_bucket", r#",le="30000.0""#), "1");
        assert_eq!(sample("_bucket", r#",le="+Inf""#), "1");
        assert_eq!(sample("_count", ""), "1");
        assert_eq!(sample("_sum", ""), "0.0025");
    }

    #[test]
    fn a_worker_that_is_not_there_has_no_lag() {
        let worker = MeasuredWorker { database: "shop".into(), is_up: false, lag: None };
        let text = open_metrics(&families(&[], &[worker]));
        assert!(text.contains("xqueue_worker_up{database=\"shop\"} 0\n"), "{text}");
        assert!(!text.contains("xqueue_worker_lag_seconds"), "{text}");
    }

    #[test]
    fn a_worker_is_up_or_not() {
        let worker = MeasuredWorker { database: "shop".into(), is_up: false, lag: Some(1.5) };
        let text = open_metrics(&families(&[], &[worker]));
        assert!(text.contains("xqueue_worker_up{database=\"shop\"} 0\n"), "{text}");
        assert!(text.contains("xqueue_worker_lag_seconds{database=\"shop\"} 1.5\n"), "{text}");
    }

    #[test]
    fn names_are_escaped() {
        let text = open_metrics(&families(&[queue("a\"b\\c\nd")], &[]));
        assert!(text.contains(r#"queue="a\"b\\c\nd","#), "{text}");
    }

    #[test]
    fn no_queue_no_family() {
        assert_eq!(open_metrics(&families(&[], &[])), "# EOF");
    }
}
