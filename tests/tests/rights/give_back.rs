//! `give_back()` of all queues touches no queue of a stranger, and passes over a queue that fails.

use std::sync::{Arc, Mutex};
use xqueue_tests::*;

/// Makes a stranger's queue that every role can change and that has a taken task. A function in the predicate of an index
/// advances the sequence named after the current role.
fn stranger(role: &Role, victim: &Role) -> (Client, String) {
    let (mut c, name) = (role.client(), unique("stranger"));
    for user in [&victim.name, "postgres"] {
        let sequence = format!("{name}_as_{user}");
        c.batch_execute(&format!(
            "CREATE SEQUENCE {sequence}; GRANT USAGE ON SEQUENCE {sequence} TO PUBLIC"
        ))
        .unwrap();
    }
    c.batch_execute(&format!(
        "CREATE TABLE {name} (id bigint PRIMARY KEY, a int NOT NULL DEFAULT 0); SELECT xqueue.upgrade('{name}');
         INSERT INTO {name} VALUES (1); SELECT xqueue.take('{name}');
         CREATE FUNCTION {name}_note(int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
           PERFORM nextval(format('public.%I', '{name}_as_' || current_user)::regclass); RETURN true;
         EXCEPTION WHEN OTHERS THEN RETURN true; END $$;
         CREATE INDEX ON {name} (a) WHERE {name}_note(1);
         GRANT SELECT, UPDATE ON {name} TO PUBLIC"
    ))
    .unwrap();
    (c, name)
}

/// A statement that a connection runs before it takes tasks.
const IDENTITIES: [&str; 2] = ["", "SELECT xqueue.identify(grace => '1 hour')"];

fn give_back(c: &mut Client) -> i32 {
    scalar(c, "SELECT xqueue.give_back()", &[])
}

fn queue_of(c: &mut Client) -> String {
    let name = unique("given_back");
    c.batch_execute(&format!(
        "CREATE TABLE {name} (id bigint PRIMARY KEY); SELECT xqueue.upgrade('{name}');
         INSERT INTO {name} SELECT generate_series(1, 5)"
    ))
    .unwrap();
    name
}

#[test]
fn a_strangers_queue_is_not_visited() {
    let (hostile, victim) = (Role::create(), Role::create());
    let (mut owner, stranger) = stranger(&hostile, &victim);
    for name in [&victim.name[..], "postgres"] {
        for identify in IDENTITIES {
            let mut c = connect_as(name);
            c.batch_execute(&format!("SET statement_timeout = '20s'; {identify}")).unwrap();
            let own = queue_of(&mut c);
            let take = format!("SELECT count(*) FROM xqueue.take('{own}', count => 2)");
            let assert_harmless = |owner: &mut Client, when: &str| {
                let sql = format!("SELECT is_called FROM {stranger}_as_{name}");
                assert!(!scalar::<bool>(owner, &sql, &[]), "{name}, {identify}, {when}");
            };
            assert_eq!(scalar::<i64>(&mut c, &take, &[]), 2);
            assert_eq!(give_back(&mut c), 2);
            assert_harmless(&mut owner, "with a function in an index");
            assert_eq!(scalar::<i64>(&mut c, &take, &[]), 2);
            owner.batch_execute(&format!("BEGIN; LOCK TABLE {stranger}")).unwrap();
            assert_eq!(give_back(&mut c), 2, "beside a lock");
            owner.batch_execute("ROLLBACK").unwrap();
            c.batch_execute(&format!("DROP TABLE {own}")).unwrap();
        }
    }
    owner.batch_execute(&format!("ALTER TABLE {stranger} DROP owner CASCADE")).unwrap();
    for identify in IDENTITIES {
        let mut c = victim.client();
        c.batch_execute(identify).unwrap();
        let own = queue_of(&mut c);
        let take = format!("SELECT count(*) FROM xqueue.take('{own}', count => 2)");
        assert_eq!(scalar::<i64>(&mut c, &take, &[]), 2);
        assert_eq!(give_back(&mut c), 2, "beside a broken queue");
        c.batch_execute(&format!("DROP TABLE {own}")).unwrap();
    }
    owner.batch_execute(&format!("DROP TABLE {stranger}; DROP FUNCTION {stranger}_note")).unwrap();
}

/// A connection gives back the tasks that another connection of its session has taken, also under row security.
#[test]
fn tasks_of_an_identified_session_are_found() {
    let (owner, user) = (Role::create(), Role::create());
    let mut admin = owner.client();
    let q = queue_of(&mut admin);
    admin
        .batch_execute(&format!(
            "ALTER TABLE {q} ENABLE ROW LEVEL SECURITY; CREATE POLICY all_rows ON {q} USING (true);
             GRANT SELECT, UPDATE ON {q} TO PUBLIC"
        ))
        .unwrap();
    let (mut first, mut second) = (user.client(), user.client());
    let session: String =
        scalar(&mut first, "SELECT xqueue.identify(grace => '1 hour')::text", &[]);
    second.batch_execute(&format!("SELECT xqueue.identify('{session}')")).unwrap();
    let take = format!("SELECT count(*) FROM xqueue.take('{q}', count => 2)");
    assert_eq!(scalar::<i64>(&mut first, &take, &[]), 2);
    assert_eq!(scalar::<i64>(&mut second, &take, &[]), 2);
    assert_eq!(give_back(&mut second), 4);
    second.batch_execute("BEGIN").unwrap();
    assert_eq!(scalar::<i64>(&mut second, &take, &[]), 2);
    assert_eq!(give_back(&mut second), 2, "within the transaction");
    second.batch_execute("COMMIT").unwrap();
    admin.batch_execute(&format!("DROP TABLE {q}")).unwrap();
}

#[test]
fn a_queue_that_fails_is_named_in_a_warning() {
    let (mut broken, mut whole) = (Queue::new("broken"), Queue::new("whole"));
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let (heard, mut config) = (warnings.clone(), whole.config());
    config.notice_callback(move |notice| heard.lock().unwrap().push(notice.to_string()));
    let mut c = open(&config);
    for q in [&mut broken, &mut whole] {
        q.sql("INSERT INTO {q} DEFAULT VALUES");
        assert_eq!(take_all(&mut c, &q.name).len(), 1);
    }
    broken.sql("ALTER TABLE {q} DROP owner CASCADE");
    assert_eq!(give_back(&mut c), 1);
    let warnings = warnings.lock().unwrap().join("\n");
    assert!(
        warnings.contains(&format!("passed over queue \"public.{}\"", broken.name)),
        "{warnings}"
    );
    assert!(!warnings.contains(&whole.name), "{warnings}");
    broken.abandon();
}
