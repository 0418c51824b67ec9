//! Random statements: calls in every syntactic position, and other events of queues and sessions.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use xqueue_tests::every_function::Function;

use crate::arguments::{argument, id, instant, one_of};
use crate::queues::{QUEUES, Queue};

/// The material for statements.
pub struct Material {
    pub functions: Vec<Function>,
    /// Values of every type.
    pub odd: Vec<String>,
}

/// Functions that disturb the others, or that always refuse to be called, with the probability of a call when they are
/// chosen.
const RARE: [(&str, f64); 14] = [
    ("row_changed", 0.05),
    ("row_arrives", 0.05),
    ("truncated", 0.05),
    ("registry_changed", 0.05),
    ("queue_arrives", 0.05),
    ("drop", 0.1),
    ("downgrade", 0.1),
    ("truncate", 0.1),
    ("pause", 0.2),
    ("release_all", 0.3),
    ("upgrade", 0.4),
    ("create", 0.5),
    ("wait", 0.5),
    ("put_wait", 0.5),
];
/// The functions that matter most and are chosen more often.
const OFTEN: [&str; 6] = ["put", "take", "ack", "release", "bury", "touch"];

const SETTINGS: &str = r#"statement_timeout = '1 ms'|statement_timeout = '3 ms'|statement_timeout = '20 ms'
    lock_timeout = '1 ms'|lock_timeout = '20 ms'
    search_path = ''|search_path = pg_catalog|search_path = "Odd schema", public|search_path = xqueue, public
    TimeZone = 'Asia/Kathmandu'|DateStyle = 'SQL, DMY'|extra_float_digits = -15|bytea_output = escape
    IntervalStyle = 'sql_standard'|IntervalStyle = 'iso_8601'|IntervalStyle = 'postgres_verbose'
    enable_indexscan = off|enable_seqscan = off|enable_bitmapscan = off|enable_tidscan = off
    plan_cache_mode = force_generic_plan|plan_cache_mode = force_custom_plan|jit = on|jit_above_cost = 0
    default_transaction_isolation = serializable|default_transaction_isolation = 'repeatable read'
    default_transaction_read_only = on|transaction_read_only = on|row_security = off|synchronous_commit = off
    standard_conforming_strings = off|array_nulls = off|transform_null_equals = on
    debug_parallel_query = regress|max_parallel_workers_per_gather = 4
    work_mem = '64kB'|temp_buffers = 100|max_stack_depth = '100kB'
    xqueue.session_grace = '1 s'|xqueue.batch_size = 1"#;
const ROLES: &str = "fuzz_owner|fuzz_other|fuzz_consumer|fuzz_reader|fuzz_smith|fuzz_super";

/// Returns the statements of one step of a session, to be sent one by one.
pub fn step(material: &Material, walker: usize, random: &mut StdRng) -> Vec<String> {
    let queue = QUEUES.choose(random).unwrap_or(&QUEUES[0]);
    match random.random_range(0..100) {
        0..40 => vec![material.call(queue, random)],
        40..58 => material.placed(queue, random),
        58..74 => vec![by_hand(queue, random)],
        74..88 => transaction(walker, random),
        88..93 => vec![setting(random)],
        93 => vec![format!("SET ROLE {}", one_of(&format!("{ROLES}|NONE"), random))],
        94 => vec![
            format!("SET SESSION AUTHORIZATION {}", one_of(ROLES, random)),
            "RESET SESSION AUTHORIZATION".into(),
        ],
        95 => {
            vec![one_of("DISCARD ALL|DISCARD PLANS|DEALLOCATE ALL|CLOSE ALL|DISCARD TEMP", random)]
        }
        96 => vec![view(random)],
        97 => vec![material.several(queue, random)],
        98 => material.without_caches(queue, random),
        _ => vec![ddl(queue, random)],
    }
}

fn setting(random: &mut StdRng) -> String {
    let scope = one_of("SET|SET|SET LOCAL", random);
    format!("{scope} {}", one_of(SETTINGS, random))
}

fn transaction(walker: usize, random: &mut StdRng) -> Vec<String> {
    let name = format!("fuzz {walker}");
    match random.random_range(0..24) {
        0..6 => vec!["BEGIN".into()],
        6 => vec!["BEGIN ISOLATION LEVEL SERIALIZABLE".into()],
        7 => vec!["BEGIN ISOLATION LEVEL REPEATABLE READ".into()],
        8 => vec!["BEGIN READ ONLY".into()],
        9..12 => vec![format!("SAVEPOINT s{}", random.random_range(0..3))],
        12..15 => vec![format!("ROLLBACK TO s{}", random.random_range(0..3))],
        15 => vec![format!("RELEASE s{}", random.random_range(0..3))],
        16..19 => vec!["COMMIT".into()],
        19 => vec!["COMMIT AND CHAIN".into()],
        20 | 21 => vec!["ROLLBACK".into()],
        _ => {
            let end = one_of("COMMIT|ROLLBACK", random);
            vec![format!("PREPARE TRANSACTION '{name}'"), format!("{end} PREPARED '{name}'")]
        }
    }
}

/// Returns a statement that changes rows without xqueue's functions.
fn by_hand(queue: &Queue, random: &mut StdRng) -> String {
    let (name, key) = (queue.name, queue.key.value(random));
    let which = match random.random_range(0..4) {
        0 => "".into(),
        1 => " WHERE status::text IN ('T', 'run')".into(),
        2 => format!(" WHERE ctid = '(0,{})'", random.random_range(1..20)),
        _ => format!(" WHERE id = {key}"),
    };
    // Waiting tasks need an end time; without one, check reports a problem rightly.
    let (state, timed) = (one_of("R|B|D", random), one_of("W|Z", random));
    match random.random_range(0..18) {
        0 => format!("UPDATE {name} SET status = '{state}', owner = NULL{which}"),
        1 => format!("UPDATE {name} SET status = 'T', owner = gen_random_uuid(){which}"),
        2 => format!("UPDATE {name} SET status = 'T', owner = xqueue.identify(){which}"),
        3 => format!(
            "UPDATE {name} SET status = '{timed}', owner = NULL, runat = {}{which}",
            instant(random)
        ),
        4 => format!("UPDATE {name} SET expires = {}{which}", instant(random)),
        5 => format!("UPDATE {name} SET priority = {}{which}", random.random_range(-3..4)),
        6 => format!("UPDATE {name} SET tube = {}{which}", one_of("'a'|'b'|'c'|''", random)),
        7 => format!("DELETE FROM {name}{which} RETURNING *"),
        8 => format!("INSERT INTO {name} DEFAULT VALUES RETURNING *"),
        9 | 10 => queue.fill(),
        11 => format!("INSERT INTO {name} SELECT * FROM {name} LIMIT 3 ON CONFLICT DO NOTHING"),
        12 => format!("INSERT INTO {name} (id, runat) VALUES ({key}, {})", instant(random)),
        13 => format!(
            "MERGE INTO {name} q USING {name} s ON q.ctid = s.ctid AND s.id = {key} WHEN MATCHED THEN DELETE \
             WHEN NOT MATCHED THEN DO NOTHING"
        ),
        14 => format!(
            "SELECT * FROM {name}{which} LIMIT 5 FOR {}",
            one_of("UPDATE|SHARE SKIP LOCKED|NO KEY UPDATE", random)
        ),
        15 => format!(
            "LOCK TABLE {name} IN {} MODE NOWAIT",
            one_of("ROW EXCLUSIVE|SHARE|ACCESS EXCLUSIVE", random)
        ),
        16 => format!("UPDATE {name} SET id = {key}{which}"),
        _ => format!(
            "WITH gone AS (DELETE FROM {name}{which} RETURNING *) INSERT INTO {name} SELECT * FROM gone"
        ),
    }
}

fn ddl(queue: &Queue, random: &mut StdRng) -> String {
    let name = queue.name;
    match random.random_range(0..10) {
        0 => format!("VACUUM {name}"),
        1 => format!("VACUUM FULL {name}"),
        2 => format!("ANALYZE {name}"),
        3 => format!("REINDEX TABLE {name}"),
        4 => format!("ALTER TABLE {name} ADD COLUMN IF NOT EXISTS more text DEFAULT 'x'"),
        5 => format!("ALTER TABLE {name} DROP COLUMN IF EXISTS more"),
        6 => format!("CREATE INDEX IF NOT EXISTS fuzz_extra ON {name} (status)"),
        8 => format!("ALTER TABLE {name} SET (fillfactor = {})", random.random_range(10..100)),
        7 => "DROP INDEX IF EXISTS fuzz_extra".into(),
        _ => format!("COMMENT ON TABLE {name} IS 'x'"),
    }
}

fn view(random: &mut StdRng) -> String {
    let views = "queues|taken|consumers|producers|sessions|settings|queue|session";
    format!("SELECT * FROM xqueue.{}", one_of(views, random))
}

impl Material {
    fn function(&self, random: &mut StdRng) -> &Function {
        loop {
            let function = self.functions.choose(random).unwrap_or(&self.functions[0]);
            let name = function.name.as_str();
            if random.random_bool(0.4) && !OFTEN.contains(&name) {
                continue;
            }
            let often =
                RARE.iter().find(|(rare, _)| *rare == name).map_or(1.0, |(_, often)| *often);
            if random.random_bool(often) {
                return function;
            }
        }
    }

    fn call(&self, queue: &Queue, random: &mut StdRng) -> String {
        let function = self.function(random);
        function.call(|a| argument(a, queue, &self.odd, random))
    }

    /// Returns a call for a FROM clause.
    fn source(&self, queue: &Queue, random: &mut StdRng) -> String {
        loop {
            let function = self.function(random);
            if !function.is_procedure {
                let given = function.given(|a| argument(a, queue, &self.odd, random));
                return format!("{}.{}({given})", function.schema, function.name);
            }
        }
    }

    /// Returns statements with a call in a position other than its own SELECT.
    fn placed(&self, queue: &Queue, random: &mut StdRng) -> Vec<String> {
        let (name, call) = (queue.name, self.source(queue, random));
        let n = random.random_range(0..3);
        match random.random_range(0..17) {
            0 => vec![format!("SELECT * FROM {call} AS t LIMIT {n}")],
            1 => vec![
                format!("PREPARE p{n} AS SELECT * FROM {call}"),
                format!("EXECUTE p{n}"),
                format!("EXECUTE p{n}"),
            ],
            2 => vec![format!("EXECUTE p{n}"), format!("DEALLOCATE p{n}")],
            3 => {
                let kinds = "CURSOR|SCROLL CURSOR|CURSOR WITH HOLD|NO SCROLL CURSOR";
                let kind = one_of(kinds, random);
                vec![
                    format!("DECLARE c{n} {kind} FOR SELECT * FROM {call}"),
                    format!("FETCH 2 FROM c{n}"),
                ]
            }
            4 => vec![format!(
                "{} FROM c{n}",
                one_of("FETCH ALL|FETCH BACKWARD 1|MOVE 1|FETCH 0", random)
            )],
            5 => vec![format!("CLOSE c{n}")],
            6 => {
                vec![format!("SELECT public.attempt({})", quoted(&format!("SELECT {call}::text")))]
            }
            7 => vec![self.block(&call, queue, random)],
            8 => vec![format!("EXPLAIN (ANALYZE, VERBOSE) SELECT {call}")],
            9 => vec![format!("CREATE TEMP TABLE IF NOT EXISTS kept AS SELECT {call} AS x")],
            10 => {
                vec![format!("SELECT {call}, {} FROM {name} LIMIT 3", self.source(queue, random))]
            }
            11 => {
                let verbs = "ack|release|bury|touch|peek|delete|snatch|take|put|stats";
                let verb = one_of(verbs, random);
                vec![format!("SELECT xqueue.{verb}(q) FROM {name} q LIMIT {}", n + 1)]
            }
            12 => vec![format!(
                "DELETE FROM {name} WHERE id IN (SELECT id FROM xqueue.take(NULL::{name}, count => {n}))"
            )],
            13 => vec![format!("UPDATE {name} SET status = status WHERE EXISTS (SELECT {call})")],
            14 => vec![format!(
                "WITH t AS MATERIALIZED (SELECT * FROM xqueue.take(NULL::{name}, count => 3)) \
                 SELECT xqueue.{}(t::{name}) FROM t",
                one_of("ack|release|bury|touch", random)
            )],
            15 => vec![format!(
                "SELECT xqueue.ack({}, {}) FROM generate_series(1, 3)",
                queue.literal(),
                id(queue, random)
            )],
            _ => vec![format!(
                "SELECT g, t FROM generate_series(1, 3) g LEFT JOIN LATERAL {call} AS t ON true LIMIT {}",
                n + 1
            )],
        }
    }

    /// Returns a PL/pgSQL block that calls: loops, exceptions, variables that hold rows and arrays.
    fn block(&self, call: &str, queue: &Queue, random: &mut StdRng) -> String {
        let (name, other) = (queue.name, self.source(queue, random));
        let body = match random.random_range(0..6) {
            0 => format!(
                "FOR r IN SELECT {call} LOOP BEGIN PERFORM {other}; EXCEPTION WHEN OTHERS THEN NULL; END; \
                 EXIT WHEN random() < 0.3; END LOOP;"
            ),
            1 => format!(
                "FOR i IN 1..3 LOOP BEGIN PERFORM {call}; PERFORM {other}; RAISE EXCEPTION 'undone'; \
                 EXCEPTION WHEN OTHERS THEN PERFORM {other}; END; END LOOP;"
            ),
            2 => format!(
                "SELECT * INTO q FROM xqueue.take(NULL::{name}) LIMIT 1; PERFORM xqueue.{}(q); PERFORM {call};",
                one_of("ack|release|bury|touch|peek", random)
            ),
            3 => format!(
                "ids := (SELECT array_agg(id::text) FROM xqueue.take(NULL::{name}, count => 5)); \
                 PERFORM xqueue.ack({}, ids); PERFORM {call};",
                queue.literal()
            ),
            4 => format!("PERFORM {call}; {}; PERFORM {other};", one_of("COMMIT|ROLLBACK", random)),
            _ => format!(
                "BEGIN PERFORM {call}; EXCEPTION WHEN OTHERS THEN RAISE NOTICE '%', SQLERRM; RAISE; END;"
            ),
        };
        format!(
            "DO {}",
            quoted(&format!("DECLARE r record; q {name}; ids text[]; BEGIN {body} END"))
        )
    }

    /// Returns several statements in one message, which are one transaction by default.
    fn several(&self, queue: &Queue, random: &mut StdRng) -> String {
        let between = one_of("SELECT|ROLLBACK|SAVEPOINT x|COMMIT; BEGIN|BEGIN", random);
        let (first, second) = (self.call(queue, random), self.call(queue, random));
        format!("{first}; {between}; {second}; {}", by_hand(queue, random))
    }

    /// Returns calls that run while the server discards its caches all the time.
    fn without_caches(&self, queue: &Queue, random: &mut StdRng) -> Vec<String> {
        let mut all = vec![
            "SET debug_discard_caches = 1".to_string(),
            "SET statement_timeout = '2 s'".into(),
        ];
        all.extend((0..3).map(|_| self.call(queue, random)));
        all.extend(["RESET debug_discard_caches".into(), "RESET statement_timeout".into()]);
        all
    }
}

fn quoted(text: &str) -> String {
    format!("$fuzz${text}$fuzz$")
}
