//! The kinds of definitions whose queues are left to a job worker.

use super::*;
use std::time::{Duration, Instant};

/// Starts a server without a free worker slot for a job worker.
fn without_places() -> Cluster {
    let server = Cluster::new("max_worker_processes = 4\n");
    server.wait_running();
    server
}

/// Inserts tasks that are due. Returns true if the queue is left to a job worker, on a server without a free worker
/// slot, and false if it is served.
fn is_left(q: &mut Queue, tasks: &str) -> bool {
    const DUE: &str = "SELECT to_jsonb(count(*) > 0) FROM {q} t WHERE status IN ('W', 'T', 'Z')
        OR (to_jsonb(t)->>'expires')::timestamptz <= now()";
    q.sql(&format!("INSERT INTO {{q}} {tasks}"));
    let mut is_due = true;
    wait_until("it is served, or left to a job worker", || {
        is_due = q.ask_one(DUE) == json!(true);
        !is_due || q.error().contains("raise max_worker_processes")
    });
    is_due
}

#[test]
fn what_users_define_and_what_may_be_costly_is_left_to_a_job_worker() {
    let server = without_places();
    let mut c = server.client();
    c.run(
        "CREATE FUNCTION compare(a bigint, b bigint) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
             $$ BEGIN RETURN pg_catalog.btint8cmp(a, b); END $$;
         CREATE FUNCTION hashed(a bigint) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
             $$ BEGIN RETURN pg_catalog.hashint8(a); END $$;
         CREATE FUNCTION apart(a bigint, b bigint) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS
             $$ BEGIN RETURN a - b; END $$;
         CREATE FUNCTION is_fine(a bigint) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS
             $$ BEGIN RETURN true; END $$;
         CREATE FUNCTION five() RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS
             $$ BEGIN RETURN 5; END $$;
         CREATE OPERATOR CLASS own_btree FOR TYPE bigint USING btree AS OPERATOR 1 <, OPERATOR 2 <=,
             OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 compare(bigint, bigint);
         CREATE OPERATOR CLASS own_hash FOR TYPE bigint USING hash AS OPERATOR 1 =, FUNCTION 1 hashed(bigint);
         CREATE OPERATOR CLASS own_brin FOR TYPE bigint USING brin AS OPERATOR 1 <, OPERATOR 2 <=,
             OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 brin_minmax_opcinfo(internal),
             FUNCTION 2 brin_minmax_add_value(internal, internal, internal, internal),
             FUNCTION 3 brin_minmax_consistent(internal, internal, internal),
             FUNCTION 4 brin_minmax_union(internal, internal, internal);
         CREATE OPERATOR CLASS own_gin FOR TYPE bigint[] USING gin AS FUNCTION 1 compare(bigint, bigint), FUNCTION 2 ginarrayextract(anyarray, internal, internal),
             FUNCTION 3 ginqueryarrayextract(anyarray, internal, int2, internal, internal, internal, internal),
             FUNCTION 4 ginarrayconsistent(internal, int2, anyarray, int4, internal, internal, internal, internal),
             STORAGE bigint;
         CREATE TYPE own_range AS RANGE (subtype = bigint, subtype_diff = apart);
         CREATE DOMAIN checked AS bigint CHECK (is_fine(VALUE));
         CREATE DOMAIN unchecked AS bigint;
         CREATE TYPE pair AS (a bigint, b checked);
         CREATE TYPE letters AS ENUM ('a', 'b');
         CREATE FUNCTION hook(task jsonb, event text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN END $$;
         CREATE TABLE log (fine bool)",
    );
    // A collation with ICU rules has only data. Servers without ICU have libc collations only.
    let rules =
        "CREATE COLLATION own (provider = icu, locale = 'und-u-ks-level2', deterministic = false)";
    if c.batch_execute(rules).is_err() {
        c.run("CREATE COLLATION own (provider = libc, locale = 'C')");
    }
    let column = |definition: &str| format!("ALTER TABLE {{q}} ADD COLUMN x {definition}");
    let indexed = |definition: &str, index: &str| {
        format!("{}; CREATE INDEX ON {{q}} USING {index}", column(definition))
    };
    let users = [
        "CREATE INDEX ON {q} USING btree (id own_btree)".to_string(),
        "CREATE INDEX ON {q} USING hash (id own_hash)".to_string(),
        "CREATE INDEX ON {q} USING brin (id own_brin)".to_string(),
        indexed("bigint[]", "gin (x own_gin)"),
        indexed("own_range", "gist (x)"),
        indexed("own_range", "spgist (x)"),
        indexed("own_range", "brin (x range_inclusion_ops)"),
        indexed("own_range[]", "gin (x)"),
        "CREATE INDEX ON {q} USING gist (own_range(id, id + 1))".to_string(),
        "ALTER TABLE {q} ADD CHECK (id::text IS NOT NULL OR NULL::own_range IS NULL)".to_string(),
        "ALTER TABLE {q} ADD EXCLUDE USING hash (id WITH =)".to_string(),
        column("own_range"),
        column("checked"),
        column("unchecked"),
        column("checked[]"),
        column("pair"),
        column("pair[]"),
        column("bigint GENERATED ALWAYS AS (id + 1) STORED"),
        column("bool GENERATED ALWAYS AS (is_fine(id) AND status = 'R') STORED"),
        "ALTER TABLE {q} ADD CHECK (is_fine(id))".to_string(),
        "CREATE INDEX ON {q} ((is_fine(id) OR status = 'R'))".to_string(),
        "CREATE INDEX ON {q} (status) WHERE is_fine(id)".to_string(),
        "CREATE RULE own AS ON UPDATE TO {q} DO ALSO INSERT INTO log VALUES (is_fine(NEW.id))".to_string(),
        r#"SELECT xqueue.upgrade('{q}', '{"features": {"on_task_change": "hook"}}')"#.to_string(),
        // A built-in function that runs a statement.
        "ALTER TABLE {q} ADD CHECK (ts_rewrite('a'::tsquery, 'SELECT ''a''::tsquery, ''b''::tsquery WHERE public.is_fine(1)') \
         IS NOT NULL)".to_string(),
    ];
    let check = |condition: &str| format!("ALTER TABLE {{q}} ADD CHECK ({condition})");
    // Expressions without users' code that can take hours, or that only a statement evaluates.
    let costly = [
        check("status::text !~ '(a*)*b'"),
        check("octet_length(repeat(status::text, 3)) > 0"),
        check("status::text LIKE '%'"),
        check(&vec!["id > 0"; 300].join(" AND ")),
        check(&format!("status::text <> '{}'", "x".repeat(10_000))),
        "CREATE INDEX ON {q} (lower(status::text))".to_string(),
        "CREATE INDEX ON {q} (id) WHERE status::text ~ 'x'".to_string(),
        (0..65).map(|_| "CREATE INDEX ON {q} (id);").collect(),
        (0..65).map(|_| "ALTER TABLE {q} ADD CHECK (id > 0);").collect(),
        indexed("letters[]", "gin (x)"),
        indexed("int8range", "gist (x)"),
        indexed("jsonb", "gin (x jsonb_path_ops)"),
        "CREATE INDEX ON {q} USING brin (id int8_minmax_multi_ops)".to_string(),
    ];
    let servers = [
        indexed("letters", "btree (x)"),
        indexed("text COLLATE own", "btree (x)"),
        "CREATE INDEX ON {q} USING hash (id)".to_string(),
        "CREATE INDEX ON {q} (id) INCLUDE (status) WHERE id > 5".to_string(),
        column("bigint DEFAULT five()"),
        // The planner would evaluate this expression.
        "CREATE STATISTICS own ON (five() + id), status FROM {q}".to_string(),
        column("letters CHECK (x IN ('a', 'b'))"),
        column("varchar(9) CHECK (length(x) > 0 AND x IN ('a', 'b') OR x IS NULL)"),
        column("int CHECK (x BETWEEN 1 AND 5::smallint) CHECK (x = ANY (ARRAY[1, 2]))"),
    ];
    // Coercions that are looked up while an expression runs.
    let json = [
        "ALTER TABLE {q} ADD CHECK (JSON_VALUE(to_jsonb(id), '$' RETURNING checked) IS DISTINCT FROM 0)".to_string(),
        "ALTER TABLE {q} ADD CHECK (JSON_ARRAY(status) IS NOT NULL)".to_string(),
    ];
    let version: i32 = scalar(&mut c, "SELECT current_setting('server_version_num')::int", &[]);
    let json = json.iter().filter(|_| version >= 170_000);
    let users = users.iter().chain(json).chain(&costly);
    let kinds = users.map(|ddl| (ddl, true)).chain(servers.iter().map(|ddl| (ddl, false)));
    for (number, (ddl, is_users)) in kinds.enumerate() {
        let mut q = queue_at(&server, &format!("kind{number}"));
        q.sql(ddl);
        assert_eq!(is_left(&mut q, "(status, runat) VALUES ('W', now())"), is_users, "{ddl}");
        q.sql("DROP TABLE {q}");
        q.abandon();
    }
}

/// Features, additions to the table, tasks that are due at once, and whether changes of them fire something of a user's.
const FIRES: [(&str, &str, &str, bool); 5] = [
    (
        r#"{"delayed": true, "ttl": true, "zombie": true, "ttr": true}"#,
        "ALTER TABLE {q} ADD customer int DEFAULT 1 REFERENCES customers ON DELETE CASCADE ON UPDATE CASCADE;
         CREATE TRIGGER own AFTER INSERT OR UPDATE OF customer ON {q} FOR EACH ROW EXECUTE FUNCTION nothing()",
        "(status, runat, expires, owner) VALUES ('W', now(), NULL, NULL), ('R', NULL, now(), NULL), ('Z', now(), NULL, NULL),
         ('T', now(), NULL, NULL), ('T', NULL, NULL, gen_random_uuid())",
        false,
    ),
    (
        r#"{"delayed": true, "ttr": true}"#,
        "CREATE TABLE parts (task bigint REFERENCES {q});
         CREATE TRIGGER own AFTER DELETE ON {q} FOR EACH ROW EXECUTE FUNCTION nothing()",
        "(status, runat, owner) VALUES ('W', now(), NULL), ('T', now(), NULL), ('T', NULL, gen_random_uuid())",
        false,
    ),
    (r#"{"ttl": true}"#, "CREATE TABLE parts (task bigint REFERENCES {q})", "(expires) VALUES (now())", true),
    (
        r#"{"zombie": true}"#,
        "CREATE TRIGGER own AFTER DELETE ON {q} FOR EACH ROW EXECUTE FUNCTION nothing()",
        "(status, runat) VALUES ('Z', now())",
        true,
    ),
    (
        r#"{"delayed": true}"#,
        "CREATE TRIGGER own AFTER UPDATE OF status ON {q} FOR EACH ROW EXECUTE FUNCTION nothing()",
        "(status, runat) VALUES ('W', now())",
        true,
    ),
];

/// The database worker serves a queue if none of its changes can fire something of a user's.
#[test]
fn the_database_worker_fires_nothing() {
    let server = without_places();
    server.client().run(
        "CREATE TABLE customers (id int PRIMARY KEY); INSERT INTO customers VALUES (1);
         CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
    );
    for (number, (features, additions, tasks, is_users)) in FIRES.into_iter().enumerate() {
        let options = json!({"features": features.parse::<Value>().expect("features")});
        let name = format!("fires{number}");
        let mut q = Queue::make_at(server.config(), &name, COLUMNS, &options);
        q.sql(additions);
        assert_eq!(is_left(&mut q, tasks), is_users, "{features} {additions}");
        q.sql("DROP TABLE {q} CASCADE; DROP TABLE IF EXISTS parts");
        q.abandon();
    }
}

/// Waits until nothing has been committed in the database for two seconds. The worker looks at such a queue every five.
fn wait_until_still(database: &Database) {
    let mut watcher = connect();
    let commits = "SELECT xact_commit FROM pg_stat_database WHERE datname = $1";
    let (mut last, mut since) = (0i64, Instant::now());
    wait_until("the database is still", || {
        let now: i64 = scalar(&mut watcher, commits, &[&database.name]);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        since.elapsed() >= Duration::from_secs(2)
    });
}

#[test]
fn a_queue_that_needs_statements_stays_with_the_job_worker() {
    let database = Database::new("stays");
    let mut c = database.client();
    let options = json!({"fields": {"ttr": "ttr"}, "features": {"delayed": true, "ttr": true}});
    let columns = format!("{COLUMNS}, ttr interval(0)");
    let mut q = Queue::make(&database.name, "stays", &columns, &options);
    for mend in ["ALTER TABLE {q} ALTER ttr TYPE interval", "SELECT xqueue.upgrade('{q}')"] {
        wait_until("a job worker serves it", || {
            q.is_served(1);
            !job_workers(&mut c).is_empty()
        });
        wait_until_still(&database);
        q.sql(mend);
        wait_until("the database worker serves it", || {
            q.is_served(1);
            job_workers(&mut c).is_empty()
        });
        if mend.starts_with("ALTER") {
            q.lose_index("due");
        }
    }
}
