//! `give_back()` of all queues touches no queue of a stranger, and passes over a queue that fails.

use xqueue_tests::*;

/// Makes a stranger's queue that every role can change and that has a taken task. A function in the predicate of an index
/// advances the sequence named after the current role.
fn stranger(role: &Role, victim: &Role) -> (Client, String) {
    let (mut c, name) = (role.client(), unique("stranger"));
    for user in [&victim.name, "postgres"] {
        let sequence = format!("{name}_as_{user}");
        c.run(&format!("CREATE SEQUENCE {sequence}; GRANT USAGE ON SEQUENCE {sequence} TO PUBLIC"));
    }
    c.run(&format!(
        "CREATE TABLE {name} (id bigint PRIMARY KEY, a int NOT NULL DEFAULT 0); SELECT xqueue.upgrade('{name}');
         INSERT INTO {name} VALUES (1); SELECT xqueue.take('{name}');
         CREATE FUNCTION {name}_note(int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
           PERFORM nextval(format('public.%I', '{name}_as_' || current_user)::regclass); RETURN true;
         EXCEPTION WHEN OTHERS THEN RETURN true; END $$;
         CREATE INDEX ON {name} (a) WHERE {name}_note(1);
         GRANT SELECT, UPDATE ON {name} TO PUBLIC"
    ));
    (c, name)
}

/// A statement that a connection runs before it takes tasks.
const IDENTITIES: [&str; 2] = ["", "SELECT xqueue.identify(grace => '1 hour')"];

#[track_caller]
fn take_two(c: &mut Client, queue: &str) {
    assert_eq!(take(c, queue, "0", 2).len(), 2);
}

fn give_back(c: &mut Client) -> i32 {
    scalar(c, "SELECT xqueue.give_back()", &[])
}

fn queue_of(c: &mut Client) -> String {
    let name = unique("given_back");
    c.run(&format!(
        "CREATE TABLE {name} (id bigint PRIMARY KEY); SELECT xqueue.upgrade('{name}');
         INSERT INTO {name} SELECT generate_series(1, 5)"
    ));
    name
}

#[test]
fn a_strangers_queue_is_not_visited() {
    let (hostile, victim) = (Role::create(), Role::create());
    let (mut owner, stranger) = stranger(&hostile, &victim);
    for name in [&victim.name[..], "postgres"] {
        for identify in IDENTITIES {
            let mut c = connect_as(name);
            c.run(&format!("SET statement_timeout = '20s'; {identify}"));
            let own = queue_of(&mut c);
            take_two(&mut c, &own);
            assert_eq!(give_back(&mut c), 2);
            let sql = format!("SELECT is_called FROM {stranger}_as_{name}");
            assert!(!scalar::<bool>(&mut owner, &sql, &[]), "{name}, {identify}");
            take_two(&mut c, &own);
            owner.run(&format!("BEGIN; LOCK TABLE {stranger}"));
            assert_eq!(give_back(&mut c), 2, "beside a lock");
            owner.run("ROLLBACK");
            c.run(&format!("DROP TABLE {own}"));
        }
    }
    owner.run(&format!("ALTER TABLE {stranger} DROP owner CASCADE"));
    for identify in IDENTITIES {
        let mut c = victim.client();
        c.run(identify);
        let own = queue_of(&mut c);
        take_two(&mut c, &own);
        assert_eq!(give_back(&mut c), 2, "beside a broken queue");
        c.run(&format!("DROP TABLE {own}"));
    }
    owner.run(&format!("DROP TABLE {stranger}; DROP FUNCTION {stranger}_note"));
}

/// A connection gives back the tasks that another connection of its session has taken, also under row security.
#[test]
fn tasks_of_an_identified_session_are_found() {
    let (owner, user) = (Role::create(), Role::create());
    let mut admin = owner.client();
    let q = queue_of(&mut admin);
    admin.run(&format!(
        "ALTER TABLE {q} ENABLE ROW LEVEL SECURITY; CREATE POLICY all_rows ON {q} USING (true);
         GRANT SELECT, UPDATE ON {q} TO PUBLIC"
    ));
    let (mut first, mut second) = (user.client(), user.client());
    let session: String =
        scalar(&mut first, "SELECT xqueue.identify(grace => '1 hour')::text", &[]);
    second.run(&format!("SELECT xqueue.identify('{session}')"));
    take_two(&mut first, &q);
    take_two(&mut second, &q);
    assert_eq!(give_back(&mut second), 4);
    second.run("BEGIN");
    take_two(&mut second, &q);
    assert_eq!(give_back(&mut second), 2, "within the transaction");
    second.run("COMMIT");
    admin.run(&format!("DROP TABLE {q}"));
}

#[test]
fn a_queue_that_fails_is_named_in_a_warning() {
    let (mut broken, mut whole) = (Queue::new("broken"), Queue::new("whole"));
    let (mut c, heard) = Heard::open(whole.config());
    for q in [&mut broken, &mut whole] {
        q.sql("INSERT INTO {q} DEFAULT VALUES");
        assert_eq!(take_all(&mut c, &q.name).len(), 1);
    }
    broken.sql("ALTER TABLE {q} DROP owner CASCADE");
    assert_eq!(give_back(&mut c), 1);
    let warnings: Vec<String> = heard.take().iter().map(ToString::to_string).collect();
    let warnings = warnings.join("\n");
    let words = format!("passed over queue \"public.{}\"", broken.name);
    assert!(warnings.contains(&words), "{warnings}");
    assert!(!warnings.contains(&whole.name), "{warnings}");
    broken.abandon();
}
