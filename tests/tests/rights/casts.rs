//! Casts to json of other roles.

use xqueue_tests::*;

/// Converting a row to jsonb calls users' casts to json. A cast of another role is never called, on any path, for
/// readers and writers of tasks: the value is shown as text.
#[test]
fn a_cast_to_json_runs_with_the_rights_of_no_other_role() {
    const TYPES: &str = "
        CREATE TABLE {q}_log (who text); GRANT ALL ON {q}_log TO PUBLIC;
        CREATE TYPE {q}_e AS ENUM ('a', 'b'); CREATE DOMAIN {q}_d AS {q}_e;
        CREATE TYPE {q}_c AS (n int, e {q}_e); CREATE TYPE {q}_n AS (c {q}_c[], d {q}_d);
        CREATE TYPE {q}_r AS RANGE (SUBTYPE = int, MULTIRANGE_TYPE_NAME = {q}_m);
        CREATE FUNCTION {q}_note() RETURNS json LANGUAGE plpgsql AS $$ BEGIN
          INSERT INTO public.{q}_log VALUES (current_user); RETURN '\"cast\"'::json; END $$;
        CREATE FUNCTION {q}_hook(jsonb, text) RETURNS void LANGUAGE sql AS '';
        CREATE TABLE {q}_other (id int PRIMARY KEY);
        CREATE TABLE {q} (id bigserial PRIMARY KEY, e {q}_e DEFAULT 'a', d {q}_d DEFAULT 'a', c {q}_c DEFAULT '(1,a)',
          a {q}_e[] DEFAULT '{a,b}', ds {q}_d[] DEFAULT '{b}', n {q}_n DEFAULT '(\"{\"\"(1,a)\"\"}\",b)',
          r {q}_r DEFAULT '[1,2)', m {q}_m DEFAULT '{[1,2)}', plain int[] DEFAULT '{1}');
        SELECT xqueue.upgrade('{q}', '{\"features\": {\"delayed\": true, \"buried\": true, \"ttr\": 60}}');
        INSERT INTO {q} DEFAULT VALUES;
        GRANT ALL ON {q}, {q}_id_seq TO {r}";
    const SHAPES: [&str; 3] = [
        "",
        "ALTER TABLE {q} ADD COLUMN other int REFERENCES {q}_other",
        r#"SELECT xqueue.upgrade('{q}', '{"features": {"on_task_change": "{q}_hook"}}')"#,
    ];
    const CALLS: [&str; 19] = [
        "SELECT xqueue.peek('{q}', 1)",
        "SELECT xqueue.tasks_by_state('{q}', 'ready')",
        "SELECT xqueue.put('{q}', '{}')",
        "SELECT xqueue.put('{q}', '[{}, {}]')",
        "SELECT xqueue.put('{q}', '{\"id\": 1}', on_conflict => 'nothing')",
        "SELECT xqueue.take('{q}')",
        "SELECT xqueue.touch('{q}', 1, '1s')",
        "SELECT xqueue.release('{q}', 1)",
        "SELECT xqueue.take('{q}', count => 2)",
        "SELECT xqueue.bury('{q}', 1)",
        "SELECT xqueue.dig('{q}', 1)",
        "SELECT xqueue.switch('{q}', 1, 'buried')",
        "SELECT xqueue.snatch('{q}', 2)",
        "CALL xqueue.next('{q}')",
        "CALL xqueue.put_wait('{q}', '{}', '1 millisecond')",
        "SELECT xqueue.stats('{q}', 1)",
        "SELECT xqueue.check('{q}')",
        "SELECT to_jsonb(queues) FROM xqueue.queues WHERE queue = '{q}'::regclass",
        "SELECT xqueue.delete('{q}', 1)",
    ];
    let text = json!({"e": "a", "d": "a", "c": "(1,a)", "a": "{a,b}", "ds": "{b}", "n": "(\"{\"\"(1,a)\"\"}\",b)",
        "r": "[1,2)", "m": "{[1,2)}", "plain": [1]});
    let cast = json!({"e": "cast", "d": "cast", "c": {"n": 1, "e": "cast"}, "a": ["cast", "cast"], "ds": ["cast"],
        "n": {"c": [{"n": 1, "e": "cast"}], "d": "cast"}, "r": "cast", "m": "cast", "plain": [1]});
    let shown = |task: &Value| {
        let kept = text.as_object().expect("columns").keys();
        kept.map(|name| (name.clone(), task[name].clone())).collect::<serde_json::Map<_, _>>()
    };
    for shape in SHAPES {
        for is_superuser in [true, false] {
            let (owner, viewer, q) = (Role::create(), Role::create(), unique("priv"));
            let named = |sql: &str| sql.replace("{q}", &q).replace("{r}", &viewer.name);
            let (mut hostile, mut admin) = (owner.client(), connect());
            hostile.run(&named(TYPES));
            for oid in ["e", "r", "m"].map(|oid| named(&format!("{{q}}_{oid}"))) {
                hostile.run(&named(&format!(
                    "CREATE FUNCTION {oid}_cast({oid}) RETURNS json LANGUAGE sql AS 'SELECT public.{{q}}_note()';
                     CREATE CAST ({oid} AS json) WITH FUNCTION {oid}_cast"
                )));
            }
            hostile.run(&named(shape));
            let mut c = if is_superuser { connect() } else { viewer.client() };
            let ran = |admin: &mut Client| {
                let sql = "SELECT coalesce(jsonb_agg(DISTINCT who), '[]') FROM {q}_log WHERE who <> '{o}'";
                let ran: Value = scalar(admin, &named(sql).replace("{o}", &owner.name), &[]);
                admin.run(&named("TRUNCATE {q}_log"));
                ran
            };
            c.execute(&named("SELECT to_jsonb(t) FROM {q} AS t"), &[]).unwrap();
            assert_ne!(ran(&mut admin), json!([]), "the trap is set");
            for call in CALLS {
                let call = named(call);
                let rows = c.query(&call, &[]).unwrap_or_else(|error| panic!("{call}: {error:?}"));
                assert_eq!(ran(&mut admin), json!([]), "{call} {shape}");
                let is_of_tasks =
                    !["stats", "check", "queues", "put_wait"].iter().any(|it| call.contains(it));
                assert!(!rows.is_empty(), "{call}");
                for row in rows.iter().filter(|_| is_of_tasks) {
                    let task: Value = row.get(0);
                    assert_eq!(json!(shown(&task)), text, "{call} {shape}");
                }
            }
            // If jsonb cannot hold a column of the task, the other columns are still shown without casts.
            hostile.run(&named("ALTER TABLE {q} ADD COLUMN j json DEFAULT '\"\\u0000\"'"));
            let ready = named("SELECT xqueue.tasks_by_state('{q}', 'ready')");
            let peek = |c: &mut Client| json!(shown(&values(c, &ready, &[])[0]));
            assert_eq!((peek(&mut c), ran(&mut admin)), (text.clone(), json!([])));
            hostile.run(&named("ALTER TABLE {q} DROP COLUMN j"));
            // The owner's own call uses the cast, and so does any call after the cast belongs to a superuser.
            assert_eq!(peek(&mut hostile), cast);
            for oid in ["e", "r", "m"] {
                let give = format!("ALTER FUNCTION {{q}}_{oid}_cast OWNER TO postgres");
                admin.run(&named(&give));
            }
            assert_eq!(peek(&mut c), cast);
            // A user-defined type without a cast is shown as usual.
            for oid in ["e", "r", "m"] {
                hostile.run(&named(&format!("DROP CAST ({{q}}_{oid} AS json)")));
            }
            let plain: Value =
                scalar(&mut c, &named("SELECT to_jsonb(t) FROM {q} AS t LIMIT 1"), &[]);
            assert_eq!(peek(&mut c), json!(shown(&plain)));
            drop(c);
            hostile.run(&named("DROP TABLE {q}"));
        }
    }
}
