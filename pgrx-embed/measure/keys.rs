//! Keys as people have them, with an order before them where they are random. Each table exists twice, as a queue and
//! for SQL written by hand in the same order, and the two are measured in pairs.

use crate::crowd::kind::Group;
use crate::crowd::round::Round;
use crate::effort::Effort;
use crate::peer::{self, HAND, Peer, Peers, ROWS, Variant, Work};
use crate::report::{Section, row};
use crate::{Result, course, database, tables};

pub const CASE: &str = "keys";

pub const ROUND: Round = Round {
    group: Group { variant: Variant::Plain, work: Work::Lifecycle },
    clients: 4,
    commit: "off",
};

struct Key {
    title: &'static str,
    columns: &'static str,
    /// The columns that come before the key in the order.
    order: &'static [&'static str],
    /// The columns of the key with their types.
    key: &'static [(&'static str, &'static str)],
}

const KEYS: [Key; 10] = [
    Key {
        title: "bigint, identity",
        columns: "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        order: &[],
        key: &[("id", "bigint")],
    },
    Key {
        title: "uuid of version 7",
        columns: "id uuid PRIMARY KEY DEFAULT xqueue.uuidv7()",
        order: &[],
        key: &[("id", "uuid")],
    },
    Key {
        title: "uuid from gen_random_uuid()",
        columns: "id uuid PRIMARY KEY DEFAULT gen_random_uuid()",
        order: &[],
        key: &[("id", "uuid")],
    },
    Key {
        title: "text, random",
        columns: "id text PRIMARY KEY DEFAULT gen_random_uuid()",
        order: &[],
        key: &[("id", "text")],
    },
    Key {
        title: "created_at before a random uuid",
        columns: "id uuid PRIMARY KEY DEFAULT gen_random_uuid(), {created_at}",
        order: &["created_at"],
        key: &[("id", "uuid")],
    },
    Key {
        title: "created_at before text",
        columns: "id text PRIMARY KEY DEFAULT gen_random_uuid(), {created_at}",
        order: &["created_at"],
        key: &[("id", "text")],
    },
    Key {
        title: "(tenant, n), one tenant",
        columns: "tenant int DEFAULT 1, n bigint GENERATED ALWAYS AS IDENTITY, PRIMARY KEY (tenant, n)",
        order: &[],
        key: &[("tenant", "int"), ("n", "bigint")],
    },
    Key {
        title: "(timestamptz, bigint)",
        columns: "{created_at}, n bigint GENERATED ALWAYS AS IDENTITY, PRIMARY KEY (created_at, n)",
        order: &[],
        key: &[("created_at", "timestamptz"), ("n", "bigint")],
    },
    Key {
        title: "numeric that rises",
        columns: "id numeric PRIMARY KEY DEFAULT nextval('measure.numbers')",
        order: &[],
        key: &[("id", "numeric")],
    },
    Key {
        title: "text COLLATE \"C\" that rises",
        columns: "id text COLLATE \"C\" PRIMARY KEY DEFAULT to_char(nextval('measure.numbers'), 'FM000000000000')",
        order: &[],
        key: &[("id", "text")],
    },
];

const SHARED: &str = "CREATE SEQUENCE measure.numbers";
pub const DROP: &str = "DROP TABLE IF EXISTS measure.plain, measure.jobs CASCADE";
const CREATED_AT: &str = "created_at timestamptz NOT NULL DEFAULT clock_timestamp()";

pub const BOTH: &str = r#"
-- tables --
{table}
-- empty --
TRUNCATE {table}
-- fill --
INSERT INTO {table} (payload) SELECT '{"n": 1}' FROM generate_series(1, {count})
"#;

const BY_HAND: &str = r#"
-- install --
CREATE TABLE {table} ({columns}, payload jsonb, status "char" NOT NULL DEFAULT 'R', owner int);
CREATE INDEX ON {table} ({order}) WHERE status = 'R'
-- put --
INSERT INTO {table} (payload) VALUES ('{"n": 1}') RETURNING {key}, payload
-- take --
UPDATE {table} SET status = 'T', owner = pg_backend_pid()
WHERE ({key}) = (SELECT {key} FROM {table} WHERE status = 'R' ORDER BY {order} FOR UPDATE SKIP LOCKED LIMIT 1)
RETURNING {key}, payload
-- ack --
DELETE FROM {table} WHERE ({key}) = ({values}) RETURNING {key}
"#;

const OURS: &str = r#"
-- install --
CREATE TABLE {table} ({columns}, payload jsonb);
SELECT xqueue.upgrade('{table}', '{"fields": {"order": [{names}]}}')
-- put --
SELECT {key}, payload FROM xqueue.put(NULL::{table}, '{"payload": {"n": 1}}')
-- take --
SELECT {key}, payload FROM xqueue.take(NULL::{table})
-- ack --
SELECT {key} FROM xqueue.ack(NULL::{table}, {id})
"#;

impl Key {
    fn contender(&self, name: &str, table: &str, text: &str) -> Result<Box<dyn Peer>> {
        let names = || self.key.iter().map(|(name, _)| *name);
        let list = |names: Vec<&str>| names.join(", ");
        let further = names().filter(|name| !self.order.contains(name));
        let order = list(self.order.iter().copied().chain(further).collect());
        let quoted: Vec<String> = self.order.iter().map(|name| format!("\"{name}\"")).collect();
        let values: Vec<String> =
            self.key.iter().map(|(name, of_type)| format!(":{name}::{of_type}")).collect();
        let values = values.join(", ");
        let id = if self.key.len() == 1 { values.clone() } else { format!("ROW({values})") };
        let text = [
            ("{columns}", self.columns),
            ("{created_at}", CREATED_AT),
            ("{table}", table),
            ("{key}", &list(names().collect())),
            ("{order}", &order),
            ("{names}", &quoted.join(", ")),
            ("{values}", &values),
            ("{id}", &id),
        ]
        .into_iter()
        .fold(format!("{BOTH}{text}"), |text, (name, value)| text.replace(name, value));
        peer::of_text(name, &text)
    }
}

pub fn measure(effort: &Effort, _: &mut Peers) -> Result<Section> {
    let mut db = database::connect("xqueue measure")?;
    db.batch_execute(SHARED)?;
    let mut rows = Vec::new();
    for key in &KEYS {
        db.batch_execute(DROP)?;
        let mut contenders = [
            key.contender(HAND, "measure.plain", BY_HAND)?,
            key.contender(ROWS, "measure.jobs", OURS)?,
        ];
        let ratio = tables::compare(&mut contenders, &ROUND, effort)?;
        let [_, ours] = &mut contenders;
        ROUND.fill(&mut **ours, effort)?;
        let rates = course::beside_snapshot(&mut **ours, effort)?;
        let under = match &rates[..] {
            [free, .., last] => format!("{:.2} ({last:.0}, {free:.0})", last / free),
            _ => return Err("there is no period under a snapshot".into()),
        };
        rows.push(row(key.title, vec![ratio, under]));
    }
    db.batch_execute(DROP)?;
    let seconds = effort.pinned.beside * effort.pinned.seconds;
    Ok(Section {
        title: "Keys as people have them",
        header: vec!["key", "lifecycle, 4 clients", "under a snapshot, to its own free rate"],
        rows,
        notes: vec![format!(
            "First xqueue's rate relative to SQL written by hand in the same order: the median of {} pairs of {} s. Then \
             xqueue's rate at the end of {seconds} s under an old snapshot, relative to its first rate without one. In \
             brackets: tasks per second of both. Commits are asynchronous.",
            effort.rounds, effort.seconds
        )],
        plot: None,
    })
}
