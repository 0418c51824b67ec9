//! Every function with every set of privileges on the table, compared with the table in docs/security.md.

use std::collections::{BTreeMap, BTreeSet};

use xqueue_tests::*;

const COLUMNS: &str = "id bigint PRIMARY KEY, payload jsonb";
const RIGHTS: [&str; 5] = ["SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE"];
const REFUSED: &str = "42501";

/// A call of each function in the documented table. Task 1 is ready, 2 taken by the caller's session, 3 buried, 4
/// waiting.
const CALLS: [(&str, &str); 27] = [
    ("put", "SELECT xqueue.put('{q}', '{\"id\": 9}')"),
    ("put_wait", "CALL xqueue.put_wait('{q}', '{\"id\": 9}', '0')"),
    ("INSERT", "INSERT INTO {q} (id) VALUES (9)"),
    ("take", "SELECT xqueue.take('{q}')"),
    ("next", "CALL xqueue.next('{q}', '0')"),
    ("release", "SELECT xqueue.release('{q}', 2)"),
    ("give_back", "SELECT xqueue.give_back('{q}')"),
    ("bury", "SELECT xqueue.bury('{q}', 2)"),
    ("touch", "SELECT xqueue.touch('{q}', 2, '1s')"),
    ("ack", "SELECT xqueue.ack('{q}', 2)"),
    ("dig", "SELECT xqueue.dig('{q}', 3)"),
    ("plow", "SELECT xqueue.plow('{q}')"),
    ("kick", "SELECT xqueue.kick('{q}', 1)"),
    ("switch", "SELECT xqueue.switch('{q}', 1, 'B')"),
    ("snatch", "SELECT xqueue.snatch('{q}', 2)"),
    ("release_all", "SELECT xqueue.release_all('{q}')"),
    ("restart", "SELECT xqueue.restart('{q}', 4)"),
    ("delete", "SELECT xqueue.delete('{q}', 1)"),
    ("truncate", "SELECT xqueue.truncate('{q}')"),
    ("peek", "SELECT xqueue.peek('{q}', 1)"),
    ("tasks_by_state", "SELECT xqueue.tasks_by_state('{q}', 'ready')"),
    ("wait", "SELECT xqueue.wait('{q}', 1, '0')"),
    ("stats", "SELECT xqueue.stats('{q}')"),
    ("check", "SELECT xqueue.check('{q}')"),
    ("pause", "SELECT xqueue.pause('{q}')"),
    ("resume", "SELECT xqueue.resume('{q}')"),
    ("stats_reset", "SELECT xqueue.stats_reset('{q}')"),
];
/// Functions in the documented table that other tests cover: they alter the queue's table, or name no queue.
const ELSEWHERE: [&str; 7] = ["COPY", "metrics", "be", "and", "upgrade", "downgrade", "create"];
const DROPS: &str = "drop";

fn page() -> String {
    std::fs::read_to_string(root().join("docs/security.md")).expect("the page")
}

/// Returns the documented privileges of each function, with an empty list if only the owner can call it.
fn documented() -> BTreeMap<String, Vec<&'static str>> {
    let text = page();
    let rows = text.lines().skip_while(|line| !line.starts_with('|')).skip(2);
    let mut needs = BTreeMap::new();
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [functions, right] = cells[..] else { panic!("not two cells: {row}") };
        let first = right.split(';').next().unwrap_or_default();
        let is_needed = |name: &&str| first.split(&[' ', ','][..]).any(|word| word == *name);
        let rights: Vec<_> = RIGHTS.into_iter().filter(is_needed).collect();
        for function in functions.split(',') {
            let name = function.split_whitespace().next().expect("a name");
            needs.insert(name.trim_matches('`').to_owned(), rights.clone());
        }
    }
    needs
}

fn queue() -> Queue {
    let features = json!({"delayed": true, "buried": true, "ttr": "1 hour"});
    Queue::with("matrix", COLUMNS, &json!({ "features": features }))
}

/// Prepares the tasks for the calls of a connection.
fn prepare(q: &mut Queue, c: &mut Client) {
    // A role that cannot have a session gets tasks of another session.
    let identify = "SELECT xqueue.identify()";
    let own = c.query_one(identify, &[]).or_else(|_| q.admin.query_one(identify, &[]));
    let session: uuid::Uuid = own.expect("a session").get(0);
    q.sql(&format!(
        "TRUNCATE {{q}} CASCADE; INSERT INTO {{q}} (id, status, runat, owner) VALUES (1, 'R', NULL, NULL),
         (2, 'T', now() + interval '1 hour', '{session}'), (3, 'B', NULL, NULL),
         (4, 'W', now() + interval '1 hour', NULL)"
    ));
}

/// Returns whether a call succeeds. Only an error about privileges is allowed.
#[track_caller]
fn is_allowed(q: &mut Queue, c: &mut Client, call: &str) -> bool {
    prepare(q, c);
    let refusal = c.batch_execute(&call.replace("{q}", &q.name)).err();
    assert!(refusal.iter().all(|e| code(e) == REFUSED), "{call}: {refusal:?}");
    refusal.is_none()
}

#[test]
fn the_table_names_every_function() {
    let documented = documented();
    let tried: BTreeSet<&str> =
        CALLS.iter().map(|(name, _)| *name).chain(ELSEWHERE).chain([DROPS]).collect();
    let named: BTreeSet<&str> = documented.keys().map(String::as_str).collect();
    assert_eq!(named, tried, "in the table (left) and tried (right)");
    // All functions that a role can call: a new function of the schema must be added to the documented table.
    let all = "SELECT array_agg(DISTINCT proname::text) FROM pg_proc
               WHERE pronamespace IN ('xqueue'::regnamespace, 'xqueue_internal'::regnamespace)
               AND prorettype <> 'trigger'::regtype";
    let mut all: Vec<String> = scalar(&mut connect(), all, &[]);
    // Helpers of the views, and functions that name no queue or serve column defaults.
    let others = "buried call_counts condition database_workers holders identify in_flight is_shown measures \
                  metric_rows session_connections state subqueue time64 uuidv7 waiting_consumers waiting_producers";
    all.retain(|name| !named.contains(&name[..]) && !others.split(' ').any(|other| other == name));
    assert!(all.is_empty(), "not in the table: {all:?}");
}

/// Each of the 32 sets of privileges allows exactly the documented calls.
#[test]
fn every_set_of_privileges() {
    let (documented, mut q, role) = (documented(), queue(), Role::create());
    let mut c = role.client();
    for set in 0..1 << RIGHTS.len() {
        let granted: Vec<&str> =
            (0..RIGHTS.len()).filter(|bit| set & 1 << bit != 0).map(|bit| RIGHTS[bit]).collect();
        q.sql(&format!("REVOKE ALL ON {{q}} FROM {}", role.name));
        if !granted.is_empty() {
            q.sql(&format!("GRANT {} ON {{q}} TO {}", granted.join(", "), role.name));
        }
        for (function, call) in CALLS {
            let needs = &documented[function];
            let expected = !needs.is_empty() && needs.iter().all(|right| granted.contains(right));
            let allowed = is_allowed(&mut q, &mut c, call);
            assert_eq!(allowed, expected, "{function} with {granted:?}, needs {needs:?}");
        }
    }
    // All privileges do not make a role the owner, and a role without privileges cannot even lock a table.
    let owners = [
        "xqueue.upgrade('{q}')",
        "xqueue.upgrade('{q}', '{\"features\": {\"delayed\": false}}')",
        "xqueue.upgrade(NULL::{q})",
        "xqueue.downgrade('{q}')",
        "xqueue.drop('{q}')",
    ];
    let lookers = [
        "xqueue.peek('{q}', '{}'::bigint[])",
        "xqueue.stats('{q}', '{}'::bigint[])",
        "xqueue.peek(NULL::{q}, '{}'::bigint[])",
    ];
    let mut refused = |q: &Queue, call: &str, words: &str| {
        expect_error(&mut c, &format!("SELECT {}", call.replace("{q}", &q.name)), REFUSED, words);
    };
    owners.iter().for_each(|call| refused(&q, call, "owner"));
    q.sql(&format!("REVOKE ALL ON {{q}} FROM {}", role.name));
    lookers.iter().for_each(|call| refused(&q, call, "permission denied"));
}

/// Column privileges on the key and the payload only allow reading these columns.
#[test]
fn privileges_on_columns() {
    let (mut q, role) = (queue(), Role::create());
    let mut c = role.client();
    q.sql(&format!(
        "GRANT SELECT (id, payload), INSERT (id, payload), UPDATE (payload) ON {{q}} TO {}",
        role.name
    ));
    for (_, call) in CALLS.into_iter().filter(|(function, _)| *function != "INSERT") {
        assert!(!is_allowed(&mut q, &mut c, call), "{call}");
    }
}

/// The owner, a member of its role, and a superuser can call everything.
#[test]
fn owners_members_and_superusers() {
    let mut q = queue();
    let (owner, member) = (Role::create(), Role::create());
    let give = format!("ALTER TABLE {{q}} OWNER TO {0}; GRANT {0} TO {1}", owner.name, member.name);
    q.sql(&give);
    let mut admin = q.client();
    for c in [&mut owner.client(), &mut member.client(), &mut admin] {
        CALLS.iter().for_each(|(_, call)| assert!(is_allowed(&mut q, c, call), "{call}"));
    }
    q.sql("ALTER TABLE {q} OWNER TO CURRENT_USER");
}

/// With row security and without a policy, a role with all privileges sees no task, puts no task, and learns no
/// numbers.
#[test]
fn row_security_without_a_policy() {
    const NOT_ALLOWED: [&str; 8] =
        ["stats", "check", "pause", "resume", "stats_reset", "put", "put_wait", "INSERT"];
    let (mut q, role) = (queue(), Role::create());
    let mut c = role.client();
    q.sql(&format!(
        "ALTER TABLE {{q}} ENABLE ROW LEVEL SECURITY; GRANT ALL ON {{q}} TO {}",
        role.name
    ));
    for (function, call) in CALLS {
        prepare(&mut q, &mut c);
        let sql = call.replace("{q}", &q.name);
        let is_refused = NOT_ALLOWED.contains(&function);
        match c.simple_query(&sql) {
            Err(e) if is_refused => assert_eq!(code(&e), REFUSED, "{function}: {e:?}"),
            // An invisible task counts as not found.
            Err(e) => assert_eq!(code(&e), "P0002", "{function}: {e:?}"),
            Ok(_) => {
                assert!(!is_refused, "{function} was let through");
                let left = q.ask_one(
                    "SELECT to_jsonb(count(*)) FROM {q} WHERE (id, status::text) IN ((1, 'R'), (2, 'T'), (3, 'B'), (4, 'W'))",
                );
                let expected = if function == "truncate" { 0 } else { 4 };
                assert_eq!(left, expected, "{function} has changed what it does not see");
            }
        }
    }
    q.sql("ALTER TABLE {q} DISABLE ROW LEVEL SECURITY");
}

/// The block for hardened default privileges grants EXECUTE to each kind of role. These grants suffice on the direct
/// path and on the statement path, in both forms, and for the views.
#[test]
fn execute_is_needed_on_what_a_role_calls_and_nothing_else() {
    let text = page();
    let begin = text.find("ALTER DEFAULT PRIVILEGES").expect("the block");
    let mut block = text[begin..].split("```").next().expect("its end").to_owned();
    let lists =
        block.split("('CURRENT_USER', '{").skip(1).filter_map(|rest| rest.split('}').next());
    let lists: Vec<String> = lists.map(str::to_owned).collect();
    let roles: Vec<Role> = lists.iter().map(|_| Role::create()).collect();
    for role in &roles {
        block = block.replacen("CURRENT_USER", &role.name, 1);
    }
    let (db, owner, monitor) = (Database::empty("execute"), Role::create(), Role::create());
    let mut admin = db.client();
    admin.run(&format!(
        "ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON ROUTINES FROM PUBLIC; CREATE EXTENSION xqueue;
         GRANT ALL ON SCHEMA public TO PUBLIC; GRANT pg_monitor TO {}; {block}",
        monitor.name
    ));
    for role in roles.iter().chain([&monitor]) {
        admin.run(&format!("GRANT {} TO {}", owner.name, role.name));
    }
    for (table, reference) in [
        ("bare", ""),
        ("subqueues", ""),
        (
            "refers",
            "CREATE TABLE other (id bigint PRIMARY KEY); ALTER TABLE {q} ADD other bigint REFERENCES other;",
        ),
        ("referred", "CREATE TABLE referring (id bigint REFERENCES {q});"),
    ] {
        let make = format!(
            "SET ROLE {}; CREATE TABLE {{q}} ({COLUMNS}); {reference} RESET ROLE;
             SELECT xqueue.upgrade('{{q}}', '{{\"features\": {{\"delayed\": true, \"buried\": true, \"ttr\": \"1 hour\", \"utube\": {}}}}}')",
            owner.name,
            table == "subqueues"
        );
        let upgrader = lists.iter().position(|list| list.starts_with("upgrade")).expect("owners");
        admin.run(&format!("GRANT {} TO {} WITH ADMIN OPTION", owner.name, roles[upgrader].name));
        let mut q = Queue::adopt(&db.name, table);
        q.run(&mut roles[upgrader].client_in(&db.name), &make);
        let monitors = [(&monitor, "stats,check")].into_iter();
        for (role, list) in roles.iter().zip(lists.iter().map(String::as_str)).chain(monitors) {
            let mut c = role.client_in(&db.name);
            for (function, call) in CALLS {
                let may = |wanted| list.split(',').any(|name| name == wanted);
                let inserts = table != "subqueues" || may("subqueue");
                let expected = function == "INSERT" && inserts || may(function);
                for call in [call.to_owned(), call.replace("'{q}'", "NULL::{q}")] {
                    if function == "truncate" && table == "referred" {
                        continue;
                    }
                    let allowed = is_allowed(&mut q, &mut c, &call);
                    assert_eq!(allowed, expected, "{table}: {call} by one who may {list}");
                }
            }
        }
    }
    let mut c = monitor.client_in(&db.name);
    every_function::views(&mut admin).iter().for_each(|view| c.run(view));
    for role in [&owner].into_iter().chain(&roles) {
        admin.run(&format!("DROP OWNED BY {} CASCADE", role.name));
    }
}

#[test]
fn a_waiter_that_loses_its_privilege() {
    let mut q = Queue::new("priv");
    let role = Role::create();
    let (name, r) = (q.name.clone(), role.name.clone());
    q.sql(&format!("GRANT SELECT, UPDATE ON {{q}} TO {r}"));
    let waiter = Waiter::start(role.client(), &format!("SELECT xqueue.take('{name}', '30s')"));
    q.wait_for_consumers(1);
    q.sql(&format!("REVOKE UPDATE ON {{q}} FROM {r}"));
    let next = Waiter::take(&mut q);
    let id = put(&mut q.admin, &name, 1);
    assert_eq!(waiter.error().1.code().code(), "42501");
    assert_eq!(xqueue_tests::id(&next.task().1), id, "the wake-up went to the next");
}
