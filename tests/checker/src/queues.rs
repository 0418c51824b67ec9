//! The queues that the checker works on: together they use every feature.

use rand::rngs::StdRng;
use xqueue_tests::additions;

/// A queue, and the calls that its clients can make.
pub struct Spec {
    pub name: &'static str,
    /// Passed to `xqueue.create`.
    pub options: &'static str,
    /// The type of the key.
    pub key: &'static str,
    pub delays: bool,
    pub buries: bool,
    pub priorities: bool,
    /// Number of tubes that puts choose from; 0 for no tubes.
    pub tubes: u32,
    /// The tubes are sub-queues: each has at most one task in flight.
    pub subqueues: bool,
    /// Tasks can get an end of life.
    pub mortal: bool,
    /// Maximum number of rows.
    pub capacity: Option<i64>,
    /// Only one client consumes at a time, so that the order of takes is known.
    pub single_consumer: bool,
    /// `on_task_change` writes each ack into the table `effects`.
    pub effects: bool,
    /// A function picks the greatest key first.
    pub picks: bool,
}

const PLAIN: Spec = Spec {
    name: "",
    options: "{}",
    key: "bigint",
    delays: false,
    buries: false,
    priorities: false,
    tubes: 0,
    subqueues: false,
    mortal: false,
    capacity: None,
    single_consumer: false,
    effects: false,
    picks: false,
};

pub const QUEUES: [Spec; 12] = [
    Spec { name: "plain", ..PLAIN },
    Spec { name: "ordered", single_consumer: true, ..PLAIN },
    Spec {
        name: "timed",
        options: r#"{"features": {"delayed": true, "buried": true, "ttl": true, "ttr": "3 seconds",
                     "retry": {"limit": 40, "backoff": 0.05, "max": 0.5}}}"#,
        delays: true,
        buries: true,
        mortal: true,
        ..PLAIN
    },
    Spec {
        name: "urgent",
        options: r#"{"features": {"priority": true, "tube": true, "buried": true}, "tube_stats": ["0", "1"]}"#,
        buries: true,
        priorities: true,
        tubes: 4,
        ..PLAIN
    },
    Spec {
        name: "subqueues",
        options: r#"{"features": {"utube": true, "delayed": true, "buried": true}}"#,
        delays: true,
        buries: true,
        tubes: 40,
        subqueues: true,
        ..PLAIN
    },
    Spec {
        name: "subqueues_by_priority",
        options: r#"{"features": {"utube": true, "priority": true, "ttr": "3 seconds"}}"#,
        priorities: true,
        tubes: 8,
        subqueues: true,
        ..PLAIN
    },
    Spec {
        name: "limited",
        options: r#"{"features": {"capacity": 150, "zombie": "1 second"}}"#,
        capacity: Some(150),
        ..PLAIN
    },
    Spec { name: "kept", options: r#"{"features": {"keep": true, "id": "time64"}}"#, ..PLAIN },
    Spec {
        name: "uuids",
        options: r#"{"features": {"id": "uuid", "buried": true}}"#,
        key: "uuid",
        buries: true,
        ..PLAIN
    },
    Spec {
        name: "changing",
        options: r#"{"features": {"delayed": true, "buried": true}}"#,
        delays: true,
        buries: true,
        ..PLAIN
    },
    Spec {
        name: "noted",
        options: r#"{"features": {"on_task_change": "note_effect", "retry": true}}"#,
        effects: true,
        ..PLAIN
    },
    Spec {
        name: "picked",
        options: r#"{"features": {"pick": "pick_last", "buried": true}}"#,
        buries: true,
        picks: true,
        ..PLAIN
    },
];

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
    for (number, Spec { name, options, .. }) in QUEUES.iter().enumerate() {
        sql += &format!("SELECT xqueue.create('{name}', '{options}');\n");
        let (names, adds) = additions::of(random, name, number);
        if !adds.is_empty() {
            println!("# {name} has {names}");
        }
        sql += &adds;
    }
    sql
}
