//! The queues that the checker works on: together they use every feature.

use rand::rngs::StdRng;
use serde_json::Value;
use xqueue_tests::additions;

/// A queue. Its features decide which calls its clients can make.
pub struct Spec {
    pub name: &'static str,
    /// Number of tubes that puts choose from; 0 for no tubes.
    pub tubes: u32,
    /// The features that `xqueue.create` gets.
    features: &'static str,
}

const fn queue(name: &'static str, tubes: u32, features: &'static str) -> Spec {
    Spec { name, tubes, features }
}

pub const QUEUES: [Spec; 12] = [
    queue("plain", 0, "{}"),
    queue("ordered", 0, "{}"),
    queue(
        "timed",
        0,
        r#"{"delayed": true, "buried": true, "ttl": true, "ttr": "3 seconds",
            "retry": {"limit": 40, "backoff": 0.05, "max": 0.5}}"#,
    ),
    queue("urgent", 4, r#"{"priority": true, "tube": true, "buried": true}"#),
    queue("subqueues", 40, r#"{"utube": true, "delayed": true, "buried": true}"#),
    queue("subqueues_by_priority", 8, r#"{"utube": true, "priority": true, "ttr": "3 seconds"}"#),
    queue("limited", 0, r#"{"capacity": 150, "zombie": "1 second"}"#),
    queue("kept", 0, r#"{"keep": true, "id": "time64"}"#),
    queue("uuids", 0, r#"{"id": "uuid", "buried": true}"#),
    queue("changing", 0, r#"{"delayed": true, "buried": true}"#),
    queue("noted", 0, r#"{"on_task_change": "note_effect", "retry": true}"#),
    queue("picked", 0, r#"{"pick": "pick_last", "buried": true}"#),
];

impl Spec {
    fn feature(&self, name: &str) -> Value {
        let features: Value = serde_json::from_str(self.features).expect("features");
        features[name].clone()
    }

    pub fn has(&self, feature: &str) -> bool {
        !self.feature(feature).is_null()
    }

    /// Returns the maximum number of rows.
    pub fn capacity(&self) -> Option<i64> {
        self.feature("capacity").as_i64()
    }

    /// Returns the type of the key.
    pub fn key(&self) -> &'static str {
        if self.feature("id") == "uuid" { "uuid" } else { "bigint" }
    }

    /// Returns whether only one client consumes at a time, so that the order of takes is known.
    pub fn has_single_consumer(&self) -> bool {
        self.name == "ordered"
    }
}

/// Options between which the queue `changing` is switched.
pub const SWITCHES: [&str; 6] = [
    r#"{"features": {"priority": true}}"#,
    r#"{"features": {"retry": {"limit": 50, "backoff": 0.05}}}"#,
    r#"{"features": {"ttr": "5 seconds", "ttl": true}}"#,
    r#"{"features": {"tube": true}, "tube_stats": ["a"]}"#,
    r#"{"features": {"capacity": 100000}}"#,
    r#"{"features": {"priority": false, "retry": false, "ttr": false, "ttl": false, "capacity": false,
                     "tube": false}, "tube_stats": []}"#,
];

/// Returns SQL that makes the queues and their functions. Prints the additions to their tables.
pub fn definitions(random: &mut StdRng) -> String {
    let mut sql = String::from(
        "CREATE TABLE effects (token bigint NOT NULL);
         CREATE INDEX ON effects (token);
         CREATE FUNCTION note_effect(task jsonb, event text) RETURNS void LANGUAGE sql SET search_path = public
         AS $$ INSERT INTO effects SELECT (task->'payload'->>'t')::bigint WHERE event = 'ack' $$;
         CREATE FUNCTION pick_last(count integer) RETURNS SETOF bigint LANGUAGE plpgsql AS $$ BEGIN
             RETURN QUERY SELECT id FROM public.picked WHERE status = 'R' ORDER BY id DESC LIMIT count
             FOR NO KEY UPDATE SKIP LOCKED; END $$;",
    );
    sql += additions::SHARED;
    for (number, Spec { name, features, .. }) in QUEUES.iter().enumerate() {
        sql += &format!("SELECT xqueue.create('{name}', '{{\"features\": {features}}}');\n");
        let (names, adds) = additions::of(random, name, number);
        if !adds.is_empty() {
            println!("# {name} has {names}");
        }
        sql += &adds;
    }
    sql + r#"SELECT xqueue.upgrade('urgent', '{"tube_stats": ["0", "1"]}')"#
}
