//! Sub-queues are identified by a hash with a secret of the database: a user cannot construct a label that collides
//! with another's.

use xqueue_tests::*;

const COLUMNS: &str = "id bigint PRIMARY KEY, payload jsonb, tenant text";

/// Pairs of labels with equal server hashes; texts collide for seed 0.
const ALIKE: [(&str, &str, &str); 5] = [
    ("text", "tenant-0001-orders-apple", "Tl3CSNJIfovD-pArgR5B8ObB"),
    ("varchar", "tenant-0001-orders-apple", "Tl3CSNJIfovD-pArgR5B8ObB"),
    ("bigint", "1", "4294967296"),
    ("numeric", "5", "-5"),
    ("timestamp", "2000-01-01 00:00:00", "2000-01-01 01:11:34.967297"),
];

#[test]
fn labels_of_one_hash_of_the_server_are_two_sub_queues() {
    for (label, one, other) in ALIKE {
        let sql = format!(
            "SELECT hash_array_extended(ARRAY['{one}'::{label}], 0) = hash_array_extended(ARRAY['{other}'::{label}], 0)"
        );
        assert!(scalar::<bool>(&mut connect(), &sql, &[]), "{label}");
        let options = json!({"fields": {"tube": "label"}, "features": {"utube": true}});
        let columns = format!("{COLUMNS}, label {label}");
        let mut q = Queue::with("utube_secret", &columns, &options);
        q.sql(&format!("INSERT INTO {{q}} (id, label) VALUES (1, '{one}'), (2, '{other}')"));
        assert_eq!(q.takes(9), [1, 2], "{label}");
    }
}

/// In parallel index builds, in parallel query workers, and for owners who are not superusers.
#[test]
fn the_hash_is_the_same_wherever_it_is_computed() {
    let (db, role) = (Database::new("utube_secret"), Role::create());
    let mut c = db.client_as(&role.name);
    c.run(
        r#"CREATE TABLE jobs (id bigint PRIMARY KEY, customer text);
           INSERT INTO jobs SELECT n, 'customer ' || n % 1000 FROM generate_series(1, 50000) n;
           SELECT xqueue.upgrade('jobs', '{"fields": {"tube": "customer"}, "features": {"utube": true}}');
           SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
           ALTER TABLE jobs SET (parallel_workers = 2); REINDEX TABLE jobs; ANALYZE jobs"#,
    );
    c.run("REINDEX TABLE CONCURRENTLY jobs");
    let mut admin = db.client();
    admin.run("CREATE EXTENSION amcheck");
    let check = "SELECT count(bt_index_check(indexrelid, true)::text) FROM pg_index \
                 WHERE indrelid = 'jobs'::regclass";
    assert_eq!(scalar::<i64>(&mut admin, check, &[]), 4);
    let sum = "SELECT sum(xqueue_internal.subqueue(customer))::text FROM jobs";
    let plan = c.simple_query(&format!("EXPLAIN {sum}")).unwrap();
    assert!(format!("{plan:?}").contains("Partial Aggregate"), "{plan:?}");
    let in_parallel: String = scalar(&mut c, sum, &[]);
    c.run("RESET ALL; SET max_parallel_workers_per_gather = 0");
    assert_eq!(scalar::<String>(&mut c, sum, &[]), in_parallel);
    assert_eq!(take(&mut c, "jobs", "0", 2000).len(), 1000);
    let found = "SELECT count(*) FROM jobs \
                 WHERE status = 'T' AND xqueue_internal.subqueue(customer) = xqueue_internal.subqueue('customer 7'::text)";
    assert_eq!(scalar::<i64>(&mut c, found, &[]), 1);
    c.run("DROP TABLE jobs");
    admin.run(&format!("DROP OWNED BY {}", role.name));
}

/// One session reinstalls the extension: its cached secret is not used any more.
#[test]
fn each_installation_has_a_secret_of_its_own() {
    let db = Database::new("utube_secret");
    let mut c = db.client();
    let hash = |c: &mut Client| scalar::<i64>(c, "SELECT xqueue_internal.subqueue('a'::text)", &[]);
    let first = hash(&mut c);
    assert_ne!(first, hash(&mut connect()));
    let plain = "SELECT hash_array_extended(ARRAY['a'], 0)";
    assert_ne!(first, scalar::<i64>(&mut c, plain, &[]));
    c.run("BEGIN; DROP EXTENSION xqueue; CREATE EXTENSION xqueue");
    assert_ne!(first, hash(&mut c), "in the transaction that makes it");
    c.run("ROLLBACK");
    assert_eq!(first, hash(&mut c));
    let take_one = |c: &mut Client, fields: Value| {
        let options = json!({"fields": fields, "features": {"utube": true}});
        c.run(&format!("SELECT xqueue.upgrade('jobs', '{options}')"));
        assert_eq!(ids(&take(c, "jobs", "0", 9)), [1]);
        release(c, "jobs", 1);
    };
    c.run("CREATE TABLE jobs (id bigint PRIMARY KEY, tube text); INSERT INTO jobs VALUES (1, 'a')");
    take_one(&mut c, json!({"tube": "tube"}));
    let error = c.batch_execute("DROP EXTENSION xqueue").expect_err("the queue needs it");
    assert_eq!(code(&error), "2BP01");
    c.run("DROP EXTENSION xqueue CASCADE; CREATE EXTENSION xqueue");
    let second = hash(&mut c);
    assert_ne!(first, second);
    assert_eq!(second, hash(&mut db.client()));
    take_one(&mut c, json!({"tube": "tube", "status": "status", "owner": "owner"}));
    let with_index = "SELECT count(*) FROM jobs WHERE status = 'R' AND xqueue_internal.subqueue(tube) = xqueue_internal.subqueue('a'::text)";
    c.run("SET enable_seqscan = off");
    assert_eq!(scalar::<i64>(&mut c, with_index, &[]), 1);
}

#[test]
fn only_superusers_read_the_secret() {
    let (db, role) = (Database::new("utube_secret"), Role::create());
    let (mut admin, mut c) = (db.client(), role.client_in(&db.name));
    let read = "SELECT count(*) FROM xqueue.secret";
    let grant = "GRANT SELECT ON ALL TABLES IN SCHEMA xqueue TO {}; GRANT pg_read_all_data TO {}";
    admin.run(&grant.replace("{}", &role.name));
    assert_eq!(scalar::<i64>(&mut c, read, &[]), 0);
    assert_eq!(scalar::<i64>(&mut admin, read, &[]), 1);
    c.run("SELECT xqueue_internal.subqueue(NULL::uuid), xqueue_internal.subqueue(ARRAY[1, 2])");
    admin.run(&format!("DROP OWNED BY {}", role.name));
}
