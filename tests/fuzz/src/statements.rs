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

/// The functions that matter most and are chosen more often.
const OFTEN: [&str; 6] = ["put", "take", "ack", "release", "bury", "touch"];

/// Returns the probability of a call when a function is chosen: some disturb the others, or always refuse to be called.
fn probability(function: &str) -> f64 {
    match function {
        "row_changed" | "row_arrives" | "truncated" | "registry_changed" | "queue_arrives" => 0.05,
        "drop" | "downgrade" | "truncate" => 0.1,
        "pause" => 0.2,
        "release_all" => 0.3,
        "upgrade" => 0.4,
        "create" | "wait" | "put_wait" => 0.5,
        _ => 1.0,
    }
}

// The statements of a step, one step per line or separated by `|`. Those of one step are separated by `;;`.

/// Calls in a position other than their own SELECT.
const PLACED: &str = "
    SELECT * FROM {source} AS t LIMIT {n}
    PREPARE p{n} AS SELECT * FROM {source} ;; EXECUTE p{n} ;; EXECUTE p{n}
    EXECUTE p{n} ;; DEALLOCATE p{n}
    DECLARE c{n} {cursor} FOR SELECT * FROM {source} ;; FETCH 2 FROM c{n}
    {fetch} FROM c{n}
    CLOSE c{n}
    SELECT public.attempt($fuzz$SELECT {source}::text$fuzz$)
    DO $fuzz$DECLARE r record; q {q}; ids text[]; BEGIN {body} END$fuzz$
    EXPLAIN (ANALYZE, VERBOSE) SELECT {source}
    CREATE TEMP TABLE IF NOT EXISTS kept AS SELECT {source} AS x
    SELECT {source}, {other} FROM {q} LIMIT 3
    SELECT xqueue.{verb}(q) FROM {q} q LIMIT {n} + 1
    DELETE FROM {q} WHERE id IN (SELECT id FROM xqueue.take(NULL::{q}, count => {n}))
    UPDATE {q} SET status = status WHERE EXISTS (SELECT {source})
    WITH t AS MATERIALIZED (SELECT * FROM xqueue.take(NULL::{q}, count => 3)) SELECT xqueue.{settle}(t::{q}) FROM t
    SELECT xqueue.ack({literal}, {id}) FROM generate_series(1, 3)
    SELECT g, t FROM generate_series(1, 3) g LEFT JOIN LATERAL {source} AS t ON true LIMIT {n} + 1";

/// PL/pgSQL that calls: loops, exceptions, variables that hold rows and arrays.
const BODIES: &str = "
    FOR r IN SELECT {source} LOOP BEGIN PERFORM {other}; EXCEPTION WHEN OTHERS THEN NULL; END; \
        EXIT WHEN random() < 0.3; END LOOP;
    FOR i IN 1..3 LOOP BEGIN PERFORM {source}; PERFORM {other}; RAISE EXCEPTION 'undone'; \
        EXCEPTION WHEN OTHERS THEN PERFORM {other}; END; END LOOP;
    SELECT * INTO q FROM xqueue.take(NULL::{q}) LIMIT 1; PERFORM xqueue.{settle}(q); PERFORM {source};
    ids := (SELECT array_agg(id::text) FROM xqueue.take(NULL::{q}, count => 5)); \
        PERFORM xqueue.ack({literal}, ids); PERFORM {source};
    PERFORM {source}; {end}; PERFORM {other};
    BEGIN PERFORM {source}; EXCEPTION WHEN OTHERS THEN RAISE NOTICE '%', SQLERRM; RAISE; END;";

/// Changes of rows without xqueue's functions. Waiting tasks need an end time: without one, check reports them.
const BY_HAND: &str = "
    UPDATE {q} SET status = '{state}', owner = NULL {which}
    UPDATE {q} SET status = 'T', owner = gen_random_uuid() {which}
    UPDATE {q} SET status = 'T', owner = xqueue.identify() {which}
    UPDATE {q} SET status = '{timed}', owner = NULL, runat = {instant} {which}
    UPDATE {q} SET expires = {instant} {which}
    UPDATE {q} SET priority = {n} - 1 {which}
    UPDATE {q} SET tube = {tube} {which}
    DELETE FROM {q} {which} RETURNING *
    INSERT INTO {q} DEFAULT VALUES RETURNING *
    {fill}|{fill}
    INSERT INTO {q} SELECT * FROM {q} LIMIT 3 ON CONFLICT DO NOTHING
    INSERT INTO {q} (id, runat) VALUES ({key}, {instant})
    MERGE INTO {q} q USING {q} s ON q.ctid = s.ctid AND s.id = {key} \
        WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN DO NOTHING
    SELECT * FROM {q} {which} LIMIT 5 FOR {lock}
    LOCK TABLE {q} IN {mode} MODE NOWAIT
    UPDATE {q} SET id = {key} {which}
    WITH gone AS (DELETE FROM {q} {which} RETURNING *) INSERT INTO {q} SELECT * FROM gone";

const TRANSACTION: &str = "
    BEGIN|BEGIN|BEGIN|BEGIN|BEGIN|BEGIN|BEGIN READ ONLY
    BEGIN ISOLATION LEVEL SERIALIZABLE|BEGIN ISOLATION LEVEL REPEATABLE READ
    SAVEPOINT s{n}|SAVEPOINT s{n}|SAVEPOINT s{n}|ROLLBACK TO s{n}|ROLLBACK TO s{n}|ROLLBACK TO s{n}|RELEASE s{n}
    COMMIT|COMMIT|COMMIT|COMMIT AND CHAIN|ROLLBACK|ROLLBACK
    PREPARE TRANSACTION 'fuzz {walker}' ;; {end} PREPARED 'fuzz {walker}'
    PREPARE TRANSACTION 'fuzz {walker}' ;; {end} PREPARED 'fuzz {walker}'";

const DDL: &str = "
    VACUUM {q}|VACUUM FULL {q}|ANALYZE {q}|REINDEX TABLE {q}|COMMENT ON TABLE {q} IS 'x'
    ALTER TABLE {q} ADD COLUMN IF NOT EXISTS more text DEFAULT 'x'|ALTER TABLE {q} DROP COLUMN IF EXISTS more
    CREATE INDEX IF NOT EXISTS fuzz_extra ON {q} (status)|DROP INDEX IF EXISTS fuzz_extra
    ALTER TABLE {q} SET (fillfactor = 1{n})|ALTER TABLE {q} SET (fillfactor = 9{n})";

/// Several statements in one message, which are one transaction by default.
const SEVERAL: &str = "{call}; {between}; {another}; {by_hand}";

/// Calls that run while the server discards its caches all the time.
const WITHOUT_CACHES: &str = "SET debug_discard_caches = 1 ;; SET statement_timeout = '2 s' ;; {call} ;; {another} \
    ;; RESET debug_discard_caches ;; RESET statement_timeout";

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

const WHICH: &str =
    "WHERE true|WHERE id = {key}|WHERE status::text IN ('T', 'run')|WHERE ctid = '(0,{row})'";

/// Returns the text for a place in a statement.
type Filling = fn(&Material, &Queue, &mut StdRng) -> String;

/// The places in statements, each with the text that replaces it. The texts of the first ones have places themselves.
const PLACES: [(&str, Filling); 28] = [
    ("{body}", |_, _, random| one_of(BODIES, random)),
    ("{by_hand}", |_, _, random| one_of(BY_HAND, random)),
    ("{which}", |_, _, random| one_of(WHICH, random)),
    ("{q}", |_, queue, _| queue.name.to_owned()),
    ("{literal}", |_, queue, _| queue.literal()),
    ("{key}", |_, queue, random| queue.key.value(random)),
    ("{id}", |_, queue, random| id(queue, random)),
    ("{fill}", |_, queue, _| queue.fill()),
    ("{instant}", |_, _, random| instant(random)),
    ("{row}", |_, _, random| random.random_range(1..20).to_string()),
    ("{n}", |_, _, random| random.random_range(0..3).to_string()),
    ("{state}", |_, _, random| one_of("R|B|D", random)),
    ("{timed}", |_, _, random| one_of("W|Z", random)),
    ("{tube}", |_, _, random| one_of("'a'|'b'|'c'|''", random)),
    ("{verb}", |_, _, random| one_of("{settle}|delete|snatch|take|put|stats", random)),
    ("{settle}", |_, _, random| one_of("ack|release|bury|touch|peek", random)),
    ("{cursor}", |_, _, random| {
        one_of("CURSOR|SCROLL CURSOR|CURSOR WITH HOLD|NO SCROLL CURSOR", random)
    }),
    ("{fetch}", |_, _, random| one_of("FETCH ALL|FETCH BACKWARD 1|MOVE 1|FETCH 0", random)),
    ("{end}", |_, _, random| one_of("COMMIT|ROLLBACK", random)),
    ("{between}", |_, _, random| one_of("SELECT|ROLLBACK|SAVEPOINT x|COMMIT; BEGIN|BEGIN", random)),
    ("{lock}", |_, _, random| one_of("UPDATE|SHARE SKIP LOCKED|NO KEY UPDATE", random)),
    ("{mode}", |_, _, random| one_of("ROW EXCLUSIVE|SHARE|ACCESS EXCLUSIVE", random)),
    ("{setting}", |_, _, random| one_of(SETTINGS, random)),
    ("{role}", |_, _, random| {
        one_of("fuzz_owner|fuzz_other|fuzz_consumer|fuzz_reader|fuzz_smith|fuzz_super", random)
    }),
    ("{source}", Material::source),
    ("{other}", Material::source),
    ("{call}", Material::call),
    ("{another}", Material::call),
];

/// Returns the statements of one step of a session, to be sent one by one.
pub fn step(material: &Material, walker: usize, random: &mut StdRng) -> Vec<String> {
    let queue = QUEUES.choose(random).unwrap_or(&QUEUES[0]);
    let steps = match random.random_range(0..100) {
        0..40 => "{call}",
        40..58 => PLACED,
        58..74 => BY_HAND,
        74..88 => TRANSACTION,
        88..93 => "SET {setting}|SET {setting}|SET LOCAL {setting}",
        93 => "SET ROLE {role}|SET ROLE {role}|SET ROLE NONE",
        94 => "SET SESSION AUTHORIZATION {role} ;; RESET SESSION AUTHORIZATION",
        95 => "DISCARD ALL|DISCARD PLANS|DEALLOCATE ALL|CLOSE ALL|DISCARD TEMP",
        96 => "SELECT * FROM xqueue.queues|SELECT * FROM xqueue.taken|SELECT * FROM xqueue.consumers
            SELECT * FROM xqueue.producers|SELECT * FROM xqueue.sessions|SELECT * FROM xqueue.settings
            SELECT * FROM xqueue.queue|SELECT * FROM xqueue.session",
        97 => SEVERAL,
        98 => WITHOUT_CACHES,
        _ => DDL,
    };
    let mut sql = one_of(steps, random).replace("{walker}", &walker.to_string());
    for (place, value) in PLACES {
        if sql.contains(place) {
            sql = sql.replace(place, &value(material, queue, random));
        }
    }
    sql.split(" ;; ").map(str::to_owned).collect()
}

impl Material {
    fn function(&self, random: &mut StdRng) -> &Function {
        loop {
            let function = self.functions.choose(random).unwrap_or(&self.functions[0]);
            let is_passed_over = random.random_bool(0.4) && !OFTEN.contains(&&*function.name);
            if !is_passed_over && random.random_bool(probability(&function.name)) {
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
}
