//! Option tube_stats: the counters of each listed tube.

use xqueue_tests::*;

/// Returns a tube's task counters by state, without the zeros.
fn counted(q: &mut Queue, tube: &str) -> Value {
    let stats = q.stats();
    let tasks = stats["tubes"][tube]["tasks"].as_object().unwrap_or_else(|| panic!("{stats}"));
    tasks
        .iter()
        .filter(|(_, count)| **count != json!(0))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

/// Asserts that the counters of each listed tube equal the table's contents.
#[track_caller]
pub fn assert_tubes_exact(q: &mut Queue, tubes: &[&str]) {
    q.assert_exact();
    for tube in tubes {
        let sql = format!(
            "SELECT coalesce(jsonb_object_agg(state, count), '{{}}') FROM (SELECT CASE status \
             WHEN 'R' THEN 'ready' WHEN 'T' THEN 'taken' WHEN 'W' THEN 'waiting' WHEN 'B' THEN 'buried' \
             WHEN 'Z' THEN 'zombie' WHEN 'D' THEN 'done' ELSE 'total' END AS state, count(*) \
             FROM {{q}} WHERE tube = '{tube}' GROUP BY ROLLUP (status) HAVING count(*) > 0) c"
        );
        assert_eq!(counted(q, tube), q.ask_one(&sql), "tube {tube} of {}", q.name);
    }
}

/// A label is a value of the column's type: settings for input and output of a session do not affect it.
#[test]
fn a_label_is_the_value_that_it_stands_for() {
    const SETTINGS: &str =
        "SET DateStyle = 'SQL, DMY'; SET TimeZone = 'Asia/Tokyo'; SET IntervalStyle = iso_8601;
        SET bytea_output = escape; SET extra_float_digits = -10; SET search_path = pg_catalog";
    let cases = [
        ("char(5)", "a", "a   ", "b"),
        ("date", "2024-02-01", "Feb 1, 2024", "2024-01-02"),
        ("timestamptz", "2024-02-01 10:00+00", "2024-02-01 19:00+09", "2024-02-01 10:00+09"),
        ("interval", "1 day", "24 hours", "25 hours"),
        ("bytea", r"\x61ff", r"a\377", r"a\376"),
        ("float8", "0.1", "1e-1", "0.1000000000001"),
        ("{q}_enum", "one", "one", "two"),
        ("{q}_domain", "2024-02-01", "Feb 1, 2024", "2024-01-02"),
    ];
    for (number, (kind, label, same, other)) in cases.into_iter().enumerate() {
        for by_statements in [false, true] {
            let feature = if (number % 2 == 0) == by_statements { "tube" } else { "utube" };
            let mut q = with_tubes_of(kind);
            let features = json!({feature: true, "buried": true});
            q.upgrade(
                &json!({"fields": {"tube": "tube"}, "features": features, "tube_stats": [label]}),
            );
            if by_statements {
                q.sql("ALTER TABLE {q} ADD CHECK (id > 0), ADD FOREIGN KEY (id) REFERENCES {q}");
            }
            let mut strange = connect();
            strange.run(SETTINGS);
            for (id, tube) in [(100, same), (101, other), (102, same)] {
                let put = format!("SELECT xqueue.put('public.{{q}}', '{{}}', tube => '{tube}')");
                q.run(&mut strange, &put);
                q.sql(&put);
                let insert = format!("INSERT INTO public.{{q}} (id, tube) VALUES ({id}, '{tube}')");
                q.run(&mut strange, &insert);
            }
            let case = format!("{kind} {feature} {by_statements}");
            q.assert_exact();
            assert_eq!(counted(&mut q, label), json!({"ready": 6, "total": 6}), "{case}");
            let change = format!(
                "DELETE FROM public.{{q}} WHERE id = 100; UPDATE public.{{q}} SET tube = '{other}' WHERE id = 1"
            );
            q.run(&mut strange, &change);
            q.sql("UPDATE {q} SET status = 'B' WHERE id = 102");
            let left = json!({"buried": 1, "ready": 3, "total": 4});
            assert_eq!(counted(&mut q, label), left, "{case}");
            q.verify();
            drop_with_types(q);
        }
    }
}

/// Makes a table whose tube column has this type.
fn with_tubes_of(kind: &str) -> Queue {
    Queue::table(
        "tube",
        &format!(
            "CREATE TYPE {{q}}_enum AS ENUM ('one', 'two'); CREATE DOMAIN {{q}}_domain AS date;
             CREATE TABLE {{q}} (id bigserial PRIMARY KEY, tube {kind})"
        ),
    )
}

fn drop_with_types(mut q: Queue) {
    q.sql("DROP TABLE {q}; DROP TYPE {q}_enum; DROP DOMAIN {q}_domain");
    q.abandon();
}

#[test]
fn a_label_has_to_be_a_value_that_can_be_told_from_others() {
    for (kind, labels, sqlstate, words) in [
        ("regclass", vec!["pg_class"], "42804", "cannot be counted"),
        ("jsonb", vec!["1"], "42804", "cannot be counted"),
        ("date", vec!["never"], "22007", "never"),
        ("date", vec!["Today"], "22023", "not always"),
        ("numeric", vec!["1", "1.0"], "22023", "twice"),
        ("{q}_enum", vec!["three"], "22P02", "three"),
    ] {
        let mut q = with_tubes_of(kind);
        let options = json!({"fields": {"tube": "tube"}, "tube_stats": labels});
        let upgrade = format!("SELECT xqueue.upgrade('{{q}}', '{options}')");
        let refused = q.fails(&upgrade, sqlstate, words);
        assert!(refused.hint().is_some_and(|hint| hint.contains("tube_stats")), "{refused:?}");
        drop_with_types(q);
    }
}
