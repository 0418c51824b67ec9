//! Defaults and checks: the table owner's code that a put runs.

use super::*;

/// Creates or replaces a function whose body the server can inline.
fn inlined(q: &mut Queue, function: &str, body: &str) {
    q.sql(&format!(
        "CREATE OR REPLACE FUNCTION {{q}}_{function} LANGUAGE sql IMMUTABLE AS $$ SELECT {body} $$"
    ));
}

#[test]
fn a_default_whose_function_is_replaced() {
    let mut q = queue();
    inlined(&mut q, "note() RETURNS text", "'old'::text");
    q.sql("ALTER TABLE {q} ALTER note SET DEFAULT {q}_note()");
    assert_eq!(put(&mut q, "{}")["note"], "old");
    inlined(&mut q, "note() RETURNS text", "'new'::text");
    assert_eq!(put(&mut q, "{}")["note"], "new");
    q.sql("ALTER TABLE {q} ALTER note SET DEFAULT 'other'");
    assert_eq!(put(&mut q, "{}")["note"], "other");
    q.sql("ALTER TABLE {q} ALTER note DROP DEFAULT; DROP FUNCTION {q}_note()");
    assert_eq!(put(&mut q, "{}")["note"], Value::Null);
}

#[test]
fn a_check_whose_function_is_replaced() {
    let mut q = queue();
    inlined(&mut q, "fits(note text) RETURNS boolean", "true");
    q.sql("ALTER TABLE {q} ADD CHECK ({q}_fits(note))");
    put(&mut q, r#"{"note": "bad"}"#);
    inlined(&mut q, "fits(note text) RETURNS boolean", "note <> 'bad'");
    q.fails(r#"SELECT xqueue.put('{q}', '{"note": "bad"}')"#, "23514", "violates check");
    put(&mut q, r#"{"note": "good"}"#);
    // A statement would also check the changed row. The take skips the task, and fails if it is the only one.
    assert_eq!(q.ask_one("SELECT xqueue.take('{q}')")["note"], "good");
    q.fails("SELECT xqueue.take('{q}')", "23514", "violates check constraint");
    q.sql("DELETE FROM {q} WHERE note = 'bad'");
    assert_eq!(q.ask("SELECT xqueue.take('{q}')"), [] as [Value; 0]);
}

#[test]
fn a_role_that_may_not_call_the_function_of_a_default() {
    let mut q = queue();
    let role = Role::create();
    let as_role = format!("SET ROLE {}", role.name);
    q.sql(&format!(
        "CREATE FUNCTION {{q}}_note() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN 'x'; END $$;
         REVOKE ALL ON FUNCTION {{q}}_note() FROM PUBLIC;
         ALTER TABLE {{q}} ALTER note SET DEFAULT {{q}}_note();
         GRANT ALL ON {{q}} TO {0}; GRANT USAGE ON SCHEMA xqueue TO {0}",
        role.name
    ));
    assert_eq!(put(&mut q, "{}")["note"], "x");
    q.sql(&as_role);
    q.fails("SELECT xqueue.put('{q}', '{}')", "42501", "permission denied for function");
    // Neither a put that gives the value nor a take nor an ack needs the function.
    assert_eq!(put(&mut q, r#"{"note": "y"}"#)["note"], "y");
    assert_eq!(q.takes(1), [1]);
    q.sql("SELECT xqueue.ack('{q}', 1); RESET ROLE");
    q.sql(&format!("GRANT EXECUTE ON FUNCTION {{q}}_note() TO {}; {as_role}", role.name));
    assert_eq!(put(&mut q, "{}")["note"], "x");
    let revoke = format!("REVOKE EXECUTE ON FUNCTION {{q}}_note() FROM {}", role.name);
    q.sql(&format!("RESET ROLE; {revoke}; {as_role}"));
    q.fails("SELECT xqueue.put('{q}', '{}')", "42501", "permission denied for function");
    q.sql("RESET ROLE");
}

/// Triggers count the tasks of a default that puts or inserts.
#[test]
fn a_default_that_adds_tasks_to_the_same_queue() {
    for (adds, tasks) in [
        ("PERFORM xqueue.put('{q}', '{\"note\": \"inner\"}')", 2),
        ("INSERT INTO {q} (note) VALUES ('inner'), ('inner')", 3),
    ] {
        let mut q = queue();
        q.sql(&format!(
            "CREATE FUNCTION {{q}}_note() RETURNS text LANGUAGE plpgsql AS $$ BEGIN {adds}; RETURN 'outer'; END $$;
             ALTER TABLE {{q}} ALTER note SET DEFAULT {{q}}_note()"
        ));
        assert_eq!(put(&mut q, r#"{"payload": [1, 2, 3]}"#)["note"], "outer");
        q.assert_tasks(&[("ready", tasks)]);
        let outer = "SELECT payload FROM {q} WHERE note = 'outer'";
        assert_eq!(q.ask_one(outer), json!([1, 2, 3]));
    }
}

#[test]
fn a_check_that_could_not_be_looked_at() {
    let mut q = queue();
    let role = Role::create();
    q.sql(
        "CREATE FUNCTION {q}_fits(note text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS
             $$ BEGIN RETURN note <> 'bad'; END $$;
         REVOKE ALL ON FUNCTION {q}_fits FROM PUBLIC; ALTER TABLE {q} ADD CHECK ({q}_fits(note))",
    );
    q.sql(&format!("GRANT ALL ON {{q}} TO {0}; SET ROLE {0}", role.name));
    for _ in 0..3 {
        q.fails("SELECT xqueue.put('{q}', '{\"note\": \"bad\"}')", "42501", "permission denied");
    }
    q.sql("RESET ROLE");
    for _ in 0..3 {
        q.fails("SELECT xqueue.put('{q}', '{\"note\": \"bad\"}')", "23514", "check constraint");
    }
    assert_eq!(put(&mut q, r#"{"note": "good"}"#)["note"], "good");
}

/// The default is a read-write expanded array, which a function in a check could modify.
#[test]
fn a_default_that_is_looked_at_by_a_check() {
    let mut q = queue();
    q.sql(
        "ALTER TABLE {q} ADD numbers int[] DEFAULT array_append('{1,2}'::int[], length('abc')), \
           ADD CHECK (array_length(array_append(numbers, 99), 1) < 9)",
    );
    assert_eq!(put(&mut q, "{}")["numbers"], json!([1, 2, 3]));
    assert_eq!(q.ask_one("SELECT to_jsonb(numbers) FROM {q}"), json!([1, 2, 3]));
}
