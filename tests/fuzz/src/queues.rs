//! The queues of the fuzzed database: together they use every feature, every kind of key and every kind of name.

use rand::Rng;
use rand::rngs::StdRng;

/// A queue.
pub struct Queue {
    /// The name in SQL.
    pub name: &'static str,
    pub key: Key,
    /// The role that makes the queue and owns it.
    pub owner: &'static str,
    /// Makes the table, if necessary, and the queue.
    pub make: Make,
}

#[derive(Clone, Copy)]
pub enum Make {
    /// `xqueue.create` with these options.
    Create(&'static str),
    /// `xqueue.create` with these options, UNLOGGED.
    Unlogged(&'static str),
    /// A table with these columns, and an upgrade with the options in `EVERYTHING`.
    Table(&'static str),
    /// Statements that end with an upgrade.
    Sql(&'static str),
}

/// The kind of key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Number,
    Uuid,
    Text,
    Array,
    Bytes,
    Enum,
    /// One column of a composite type.
    Record,
    /// An integer and a text.
    Columns,
}

const EVERYTHING: &str = r#"{"features": {"delayed": true, "buried": true, "zombie": "200 ms", "ttl": true,
    "ttr": "500 ms", "priority": true, "tube": true, "retry": {"limit": 5, "backoff": 0.05}}}"#;

const fn created(name: &'static str, options: &'static str) -> Queue {
    Queue { name, key: Key::Number, owner: "postgres", make: Make::Create(options) }
}

const fn keyed(name: &'static str, key: Key, columns: &'static str) -> Queue {
    Queue { name, key, owner: "postgres", make: Make::Table(columns) }
}

const fn built(name: &'static str, sql: &'static str) -> Queue {
    Queue { name, key: Key::Number, owner: "postgres", make: Make::Sql(sql) }
}

/// `all` at the end of a statement stands for an upgrade with the options in `EVERYTHING`.
pub const QUEUES: [Queue; 31] = [
    created("plain", "{}"),
    created("everything", EVERYTHING),
    created("subqueues", r#"{"features": {"utube": true, "delayed": true, "buried": true, "capacity": 300}}"#),
    created(
        "strict",
        r#"{"features": {"utube": {"strict": true}, "delayed": true, "priority": true, "ttl": "1 min", "ttr": 1}}"#,
    ),
    created("limited", r#"{"features": {"capacity": 60, "zombie": "100 ms"}}"#),
    created("kept", r#"{"features": {"keep": true, "id": "time64", "delayed": true}}"#),
    created("noted", r#"{"features": {"on_task_change": "note", "retry": true, "buried": true}}"#),
    created("picked", r#"{"features": {"pick": "pick_last", "buried": true, "ttr": "1 s"}}"#),
    Queue { make: Make::Unlogged(r#"{"features": {"priority": true, "delayed": true}}"#), ..created("unlogged", "") },
    created("counted", r#"{"features": {"tube": true, "buried": true}, "tube_stats": ["a", "b"]}"#),
    Queue { key: Key::Uuid, ..created("uuids", r#"{"features": {"id": "uuid", "buried": true, "ttr": "1 s"}}"#) },
    keyed("q_bigint", Key::Number, "id bigint PRIMARY KEY"),
    keyed("q_small", Key::Number, "id small PRIMARY KEY"),
    keyed("q_text", Key::Text, "id text PRIMARY KEY"),
    keyed("q_uuid", Key::Uuid, "id uuid PRIMARY KEY DEFAULT gen_random_uuid()"),
    keyed("q_array", Key::Array, "id integer[] PRIMARY KEY"),
    keyed("q_bytea", Key::Bytes, "id bytea PRIMARY KEY"),
    keyed("q_enum", Key::Enum, "id mood PRIMARY KEY"),
    keyed("q_pair", Key::Record, "id pair PRIMARY KEY"),
    keyed("q_two", Key::Columns, "id integer, b text, PRIMARY KEY (id, b)"),
    keyed("q_numeric", Key::Number, "id numeric NOT NULL UNIQUE, payload jsonb"),
    built(
        "q_labels",
        r#"CREATE TABLE IF NOT EXISTS q_labels (id serial PRIMARY KEY, label label);
           SELECT xqueue.upgrade('q_labels', '{"fields": {"status": "label"}, "features": {"delayed": true,
             "buried": true}, "states": {"R": "new", "T": "run", "W": "later", "B": "bad", "Z": "gone", "D": "done"}}')"#,
    ),
    built(
        "q_part",
        r#"CREATE TABLE IF NOT EXISTS whole (id bigint PRIMARY KEY, status "char" NOT NULL DEFAULT 'R', owner uuid)
           PARTITION BY RANGE (id);
           CREATE TABLE IF NOT EXISTS q_part PARTITION OF whole DEFAULT;
           SELECT xqueue.upgrade('q_part', '{"fields": {"status": "status", "owner": "owner"}, "features": {"buried": true}}')"#,
    ),
    built(
        "q_heir",
        "CREATE TABLE IF NOT EXISTS parent (id bigint, t text);
         CREATE TABLE IF NOT EXISTS q_heir (PRIMARY KEY (id)) INHERITS (parent); all",
    ),
    built(
        "q_generated",
        "CREATE TABLE IF NOT EXISTS q_generated (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a integer CHECK (a < 9),
           dropped text, twice integer GENERATED ALWAYS AS (a * 2) STORED, t text COLLATE \"C\" UNIQUE);
         ALTER TABLE q_generated DROP COLUMN IF EXISTS dropped; all",
    ),
    Queue {
        owner: "fuzz_owner",
        ..built(
            "tenants",
            "CREATE TABLE IF NOT EXISTS tenants (id bigint PRIMARY KEY, tenant name DEFAULT current_user, t text);
             ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
             DROP POLICY IF EXISTS own ON tenants;
             CREATE POLICY own ON tenants USING (tenant = current_user OR id % 3 = 0); all",
        )
    },
    Queue {
        owner: "fuzz_owner",
        ..built(
            "triggered",
            "CREATE TABLE IF NOT EXISTS triggered (id bigint PRIMARY KEY, t text);
             CREATE OR REPLACE TRIGGER zz BEFORE UPDATE ON triggered FOR EACH ROW EXECUTE FUNCTION sometimes(); all",
        )
    },
    Queue { owner: "fuzz_other", ..created("theirs", EVERYTHING) },
    created(r#""we""ird.Q'ue ☃""#, EVERYTHING),
    created(r#""Odd schema"."queue, name""#, r#"{"features": {"utube": true, "priority": true}}"#),
    created(
        "a_name_of_sixty_three_bytes_which_is_as_long_as_names_can_be_xx",
        r#"{"features": {"tube": true, "ttl": true}}"#,
    ),
];

impl Queue {
    /// Returns whether the name needs quotes.
    pub fn is_oddly_named(&self) -> bool {
        self.name.contains('"')
    }

    /// Returns the name as a text literal.
    pub fn literal(&self) -> String {
        format!("'{}'", self.name.replace('\'', "''"))
    }

    /// Returns SQL that makes the queue unless it exists.
    pub fn make(&self) -> String {
        let name = self.literal();
        let create = |options, is_unlogged: bool| {
            format!(
                "SELECT xqueue.create({name}, '{options}', {is_unlogged}, if_not_exists => true)"
            )
        };
        let upgrade = format!("SELECT xqueue.upgrade({name}, '{EVERYTHING}')");
        let make = match self.make {
            Make::Create(options) => create(options, false),
            Make::Unlogged(options) => create(options, true),
            Make::Table(columns) => {
                format!("CREATE TABLE IF NOT EXISTS {} ({columns}); {upgrade}", self.name)
            }
            Make::Sql(sql) => sql.replace("; all", &format!("; {upgrade}")),
        };
        format!("SET ROLE {}; {make}; RESET ROLE;", self.owner)
    }

    /// Returns SQL that inserts tasks; `spread` takes, buries or finishes some of them later.
    pub fn fill(&self) -> String {
        let (name, members) = (self.name, self.key.members());
        let ids = format!(
            "INSERT INTO {name} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM generate_series(1, 60) n",
            members.0, members.1
        );
        match self.make {
            Make::Sql(_) | Make::Table(_) => format!("{ids} ON CONFLICT DO NOTHING"),
            _ => format!(
                "SELECT count(*) FROM xqueue.put({}, (SELECT jsonb_agg(jsonb_build_object('payload', n)) \
                          FROM generate_series(1, 50) n))",
                self.literal()
            ),
        }
    }
}

impl Key {
    /// Returns the columns, and SQL values for them from `n`.
    fn members(self) -> (&'static str, &'static str) {
        match self {
            Key::Number => ("id", "n"),
            Key::Uuid => ("id", "md5(n::text)::uuid"),
            Key::Text => ("id", "n::text"),
            Key::Array => ("id", "ARRAY[n, 1]"),
            Key::Bytes => ("id", "n::text::bytea"),
            Key::Enum => ("id", "(ARRAY['a', 'b', '1'])[1 + n % 3]::mood"),
            Key::Record => ("id", "ROW(n, 'a')::pair"),
            Key::Columns => ("id, b", "n, 'a'"),
        }
    }

    /// Returns a value of the key as SQL; its task can exist.
    pub fn value(self, random: &mut StdRng) -> String {
        let n = random.random_range(0..80);
        match self {
            Key::Number => n.to_string(),
            Key::Columns => format!("ROW({n}, 'a')"),
            _ => format!("(SELECT {} FROM (SELECT {n}) AS v(n))", self.members().1),
        }
    }
}
