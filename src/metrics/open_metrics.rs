//! Formats counters in the text format of OpenMetrics 1.0, which Prometheus reads.

use std::fmt::Write;

/// The counters of one queue, each with its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub database: String,
    pub schema: String,
    pub table: String,
    pub tasks: Vec<(&'static str, i64)>,
    pub calls: Vec<(&'static str, i64)>,
    pub consumers: i64,
    pub exact: bool,
}

/// Formats all queues as metric families `xqueue_tasks`, `xqueue_calls`, `xqueue_consumers` and `xqueue_exact`.
pub fn open_metrics(queues: &[Counters]) -> String {
    let mut text = String::new();
    family(&mut text, "tasks", "gauge", "Number of tasks by state.");
    for queue in queues {
        for (state, number) in &queue.tasks {
            sample(&mut text, "tasks", queue, Some(("state", state)), *number);
        }
    }
    family(&mut text, "calls", "counter", "Number of tasks that went through each kind of call.");
    for queue in queues {
        for (call, number) in &queue.calls {
            sample(&mut text, "calls_total", queue, Some(("call", call)), *number);
        }
    }
    family(&mut text, "consumers", "gauge", "Number of consumers that wait for a task.");
    queues.iter().for_each(|queue| sample(&mut text, "consumers", queue, None, queue.consumers));
    family(&mut text, "exact", "gauge", "1 if the numbers of tasks are those of the table.");
    queues.iter().for_each(|queue| sample(&mut text, "exact", queue, None, queue.exact.into()));
    text += "# EOF\n";
    text
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing into a String cannot fail.
    let _ = writeln!(text, "# TYPE xqueue_{name} {kind}\n# HELP xqueue_{name} {help}");
}

fn sample(
    text: &mut String,
    name: &str,
    queue: &Counters,
    label: Option<(&str, &str)>,
    number: i64,
) {
    let Counters { database, schema, table, .. } = queue;
    let labels = [("database", database.as_str()), ("schema", schema), ("queue", table)];
    let labels = labels.into_iter().chain(label);
    let labels: Vec<String> =
        labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    let _ = writeln!(text, "xqueue_{name}{{{}}} {number}", labels.join(","));
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(table: &str) -> Counters {
        Counters {
            database: "shop".into(),
            schema: "public".into(),
            table: table.into(),
            tasks: vec![("ready", 5), ("taken", 0)],
            calls: vec![("put", 7)],
            consumers: 2,
            exact: true,
        }
    }

    #[test]
    fn each_family_has_its_samples_together() {
        let text = open_metrics(&[queue("jobs"), queue("mail")]);
        let tasks: Vec<&str> = text.lines().take(6).collect();
        assert_eq!(
            tasks,
            [
                "# TYPE xqueue_tasks gauge",
                "# HELP xqueue_tasks Number of tasks by state.",
                r#"xqueue_tasks{database="shop",schema="public",queue="jobs",state="ready"} 5"#,
                r#"xqueue_tasks{database="shop",schema="public",queue="jobs",state="taken"} 0"#,
                r#"xqueue_tasks{database="shop",schema="public",queue="mail",state="ready"} 5"#,
                r#"xqueue_tasks{database="shop",schema="public",queue="mail",state="taken"} 0"#,
            ]
        );
        assert!(text.contains(
            "xqueue_calls_total{database=\"shop\",schema=\"public\",queue=\"mail\",call=\"put\"} 7\n"
        ));
        assert!(text.ends_with("queue=\"mail\"} 1\n# EOF\n"), "{text}");
    }

    #[test]
    fn names_are_escaped() {
        let text = open_metrics(&[queue("a\"b\\c\nd")]);
        assert!(text.contains(r#"queue="a\"b\\c\nd","#), "{text}");
        assert_eq!(text.lines().count(), 2 * 4 + 5 + 1);
    }

    #[test]
    fn no_queue_no_sample() {
        assert_eq!(open_metrics(&[]).lines().filter(|line| !line.starts_with('#')).count(), 0);
    }
}
