//! Calls that are documented as running without a statement run without one. Their results are equal either way, so
//! other tests would not notice if every call used statements. Only builds for race tests count them; the tests on
//! PostgreSQL 18 with assertions use such a build.

use std::collections::BTreeMap;
use xqueue_tests::*;

type Counts = BTreeMap<String, i64>;

const FUNCTION: &str =
    "CREATE FUNCTION shortcuts() RETURNS text LANGUAGE c AS 'xqueue', 'shortcuts'";
fn counts(client: &mut Client) -> Counts {
    let counts: String = scalar(client, "SELECT public.shortcuts()", &[]);
    serde_json::from_str(&counts).unwrap()
}

/// Makes a queue `q` with more columns.
fn create(client: &mut Client, columns: &str, options: &Value) {
    client.run(&format!("DROP TABLE IF EXISTS q; CREATE TABLE q ({COLUMNS}{columns})"));
    client.run(&format!("SELECT xqueue.upgrade('q', '{options}')"));
}

/// Returns the changes that each shortcut made while the statements ran, without shortcuts that made no change.
fn by(client: &mut Client, statements: &[&str]) -> Counts {
    let before = counts(client);
    statements.iter().for_each(|sql| client.run(sql));
    let mut after = counts(client);
    after.iter_mut().for_each(|(shortcut, count)| *count -= before[shortcut]);
    after.retain(|_, count| *count != 0);
    after
}

fn some(counts: &[(&str, i64)]) -> Counts {
    counts.iter().map(|(shortcut, count)| (shortcut.to_string(), *count)).collect()
}

/// A name, the statements of a lifecycle, and the number of its tasks, which are put, taken and acked.
const LIFECYCLES: [(&str, &[&str], i64); 5] = [
    (
        "rows",
        &[
            "SELECT * FROM xqueue.put(NULL::q, '{\"payload\": 1}')",
            "SELECT * FROM xqueue.take(NULL::q)",
            "SELECT * FROM xqueue.ack(NULL::q, (SELECT id FROM q))",
        ],
        1,
    ),
    ("jsonb", &["SELECT xqueue.put('q', '{}')", TAKE, ACK], 1),
    (
        "several at once",
        &[
            "SELECT xqueue.put('q', '[{}, {}, {}]')",
            "SELECT xqueue.take('q', count => 3)",
            "SELECT xqueue.ack('q', ARRAY(SELECT id FROM q))",
        ],
        3,
    ),
    (
        "ack and take in one",
        &[
            "SELECT xqueue.put('q', '[{}, {}]')",
            TAKE,
            "SELECT xqueue.take('q', done => (SELECT min(id) FROM q))",
            ACK,
        ],
        2,
    ),
    (
        "next",
        &[
            "SELECT xqueue.put('q', '{}')",
            "DO $$ DECLARE held jsonb; BEGIN CALL xqueue.next('q', '0', task => held); \
             CALL xqueue.next('q', '0', task => held); END $$",
        ],
        1,
    ),
];
const TAKE: &str = "SELECT xqueue.take('q')";
const ACK: &str = "SELECT xqueue.ack('q', (SELECT id FROM q))";

#[test]
fn what_is_called_most_makes_no_statement() {
    let cluster = Cluster::new("");
    cluster.wait_running();
    let mut client = cluster.client();
    if scalar::<String>(&mut client, "SHOW debug_assertions", &[]) == "off" {
        return;
    }
    client.batch_execute(FUNCTION).unwrap();
    let tubes = json!({"tube": true, "priority": true, "delayed": true, "ttl": "1 day"});
    let deadlines = json!({"ttr": "1 hour", "retry": {"limit": 3}, "zombie": true});
    for features in [json!({}), tubes.clone(), deadlines] {
        let found = lifecycles(&mut client, "", &json!({ "features": features }));
        for (name, ahead, in_place) in found {
            // Takes read ahead only once the priorities are known, and not in a statement that reads the table itself.
            assert_eq!(ahead.is_some(), features != tubes, "{name} with {features}");
            assert!(in_place, "{name} with {features}");
        }
    }
    let states = json!({"R": 0, "T": 1, "W": 2, "B": 3, "Z": 4, "D": 5});
    for kind in ["smallint", "integer", "bigint"] {
        let options = json!({"fields": {"status": "state"}, "states": states});
        lifecycles(&mut client, &format!(", state {kind} NOT NULL DEFAULT 0"), &options);
    }
    for kind in ["text", "varchar(40)"] {
        let options = json!({"fields": {"owner": "locked_by"}});
        lifecycles(&mut client, &format!(", locked_by {kind}"), &options);
    }
    times(&mut client);
    inserts_tubes_and_priorities(&mut client, &tubes);
    sub_queues(&mut client);
    drop(client);
    cluster.stop("fast");
    cluster.assert_quiet();
}

/// Asserts that no lifecycle of a queue with more columns makes a statement. Returns for each how many takes read
/// ahead, and whether each ack found its task in place.
fn lifecycles(
    client: &mut Client,
    columns: &str,
    options: &Value,
) -> Vec<(&'static str, Option<i64>, bool)> {
    create(client, columns, options);
    let lifecycle = |(name, statements, tasks)| {
        let mut found = by(client, statements);
        let (ahead, in_place) = (found.remove("TakeAhead"), found.remove("AckInPlace"));
        let expected = some(&[("Put", tasks), ("Take", tasks), ("Ack", tasks)]);
        assert_eq!(found, expected, "{name} with {columns} and {options}");
        (name, ahead, in_place == Some(tasks))
    };
    LIFECYCLES.map(lifecycle).to_vec()
}

fn times(client: &mut Client) {
    for kind in [
        "timestamptz NOT NULL DEFAULT now()",
        "timestamp(6) NOT NULL DEFAULT now()",
        "integer NOT NULL",
        "double precision",
    ] {
        let fields = json!({"runat": "run_at", "expires": "ends"});
        let features = json!({"delayed": true, "ttl": "1 day", "ttr": "1 hour"});
        let end = kind.split(" DEFAULT").next().unwrap_or(kind);
        let options = json!({"fields": fields, "features": features});
        lifecycles(client, &format!(", run_at {kind}, ends {end}"), &options);
        promoted(client);
    }
}

fn inserts_tubes_and_priorities(client: &mut Client, features: &Value) {
    create(client, "", &json!({ "features": features }));
    let statements = [
        "SELECT xqueue.put('q', '{}', tube => 'red', priority => -1, ttl => '1 hour')",
        "INSERT INTO q (tube) VALUES ('red')",
        "SELECT xqueue.take('q', tube => 'red', count => 2)",
    ];
    let found = by(client, &statements);
    assert_eq!(found, some(&[("Put", 1), ("Take", 2)]), "an INSERT is a statement");
}

fn sub_queues(client: &mut Client) {
    create(client, "", &json!({"features": {"utube": true}}));
    let put = "SELECT xqueue.put('q', '[{}, {}, {}]', tube => 'one')";
    let ack = "SELECT xqueue.ack('q', (SELECT id FROM q WHERE status = 'T'))";
    let found = by(client, &[put, TAKE, ack, TAKE, ack, TAKE, ack]);
    let expected = [("Put", 3), ("TakeInSubqueue", 3), ("Ack", 3)];
    assert_eq!(found, some(&expected), "three tasks of a sub-queue");
}

/// The worker promotes the tasks.
fn promoted(client: &mut Client) {
    let before = counts(client);
    client.batch_execute("SELECT xqueue.put('q', '[{}, {}]', delay => '1 second')").unwrap();
    let is_ready = "SELECT count(*) = 2 FROM q WHERE status = 'R'";
    wait_until("both have been promoted", || scalar(client, is_ready, &[]));
    assert_eq!(counts(client)["Promote"] - before["Promote"], 2);
}
