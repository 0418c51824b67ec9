//! Tables as people have them: with foreign keys, triggers, generated columns, more indexes. Each table exists twice, as
//! a queue and for SQL written by hand, and the two are measured in pairs.

use postgres::Client;

use crate::crowd::kind::Group;
use crate::crowd::round::Round;
use crate::effort::Effort;
use crate::numbers::Sample;
use crate::peer::{self, HAND, Peer, Peers, ROWS, Variant, Work};
use crate::report::{Section, row};
use crate::{Result, database};

pub const CASE: &str = "tables";
/// Puts alone: their ratios are close to one, so they need more pairs than the other columns.
pub const PUTS: &str = "table-puts";
const TABLES: [(&str, &str); 2] = [(HAND, "measure.plain"), (ROWS, "measure.jobs")];
const DROP: &str = "DROP TABLE IF EXISTS measure.plain, measure.jobs CASCADE";

const SHARED: &str = "
    CREATE TABLE measure.users (id bigint PRIMARY KEY);
    INSERT INTO measure.users SELECT generate_series(1, 100);
    CREATE TABLE measure.audit (task bigint, status text, at timestamptz);
    CREATE FUNCTION measure.touch() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN NEW.updated_at := now(); RETURN NEW; END $$;
    CREATE FUNCTION measure.log() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO measure.audit VALUES (NEW.id, NEW.status, now()); RETURN NULL; END $$;";

/// Rows of different users: several puts for one user at a time also measure how the server locks that user's row.
const FOREIGN_KEY: &str = "
    ALTER TABLE {table} ADD user_id bigint NOT NULL DEFAULT 1 + floor(random() * 100) REFERENCES measure.users;";
const UPDATED_AT: &str = "
    ALTER TABLE {table} ADD updated_at timestamptz NOT NULL DEFAULT now();
    CREATE TRIGGER touch BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION measure.touch();";
const INDEXES: &str = "
    ALTER TABLE {table} ADD kind text NOT NULL DEFAULT 'mail', ADD created_at timestamptz NOT NULL DEFAULT now();
    CREATE INDEX ON {table} (kind);
    CREATE INDEX ON {table} (created_at);
    CREATE INDEX ON {table} (user_id);
    CREATE INDEX ON {table} (kind, created_at);";

/// What a table has, and the statements that add it.
const SHAPES: [(&str, &[&str]); 9] = [
    ("nothing more", &[]),
    ("a foreign key", &[FOREIGN_KEY]),
    (
        "another table that refers to it",
        &["CREATE TABLE {table}_notes (task bigint REFERENCES {table} ON DELETE CASCADE)"],
    ),
    ("a BEFORE UPDATE trigger for updated_at", &[UPDATED_AT]),
    (
        "a generated column",
        &["ALTER TABLE {table} ADD length int GENERATED ALWAYS AS (length(payload::text)) STORED"],
    ),
    (
        "an AFTER UPDATE trigger (audit)",
        &["CREATE TRIGGER log AFTER UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION measure.log()"],
    ),
    ("a GIN index on payload", &["CREATE INDEX ON {table} USING gin (payload)"]),
    ("a check", &["ALTER TABLE {table} ADD CHECK (length(payload::text) < 1000)"]),
    ("a foreign key, updated_at, four indexes", &[FOREIGN_KEY, UPDATED_AT, INDEXES]),
];

struct Column {
    title: &'static str,
    work: Work,
    clients: u32,
    commit: &'static str,
}

const fn column(title: &'static str, work: Work, clients: u32, commit: &'static str) -> Column {
    Column { title, work, clients, commit }
}

const COLUMNS: [Column; 6] = [
    column("lifecycle, 4 clients", Work::Lifecycle, 4, "off"),
    column("4, durable", Work::Lifecycle, 4, "on"),
    column("48", Work::Lifecycle, 48, "off"),
    column("take and ack, 150", Work::TakeAndAck, 150, "off"),
    column("take and ack, 4", Work::TakeAndAck, 4, "off"),
    column("put, 4", Work::Put, 4, "off"),
];

pub fn measure(effort: &Effort, _: &mut Peers) -> Result<Section> {
    compare_tables(effort, &COLUMNS)
}

pub fn measure_puts(effort: &Effort, _: &mut Peers) -> Result<Section> {
    compare_tables(effort, &COLUMNS[5..])
}

fn compare_tables(effort: &Effort, columns: &[Column]) -> Result<Section> {
    let mut db = database::connect("xqueue measure")?;
    db.batch_execute(SHARED)?;
    let mut rows = Vec::new();
    for (shape, statements) in SHAPES {
        db.batch_execute(DROP)?;
        let mut contenders = Vec::new();
        for (name, table) in TABLES {
            contenders.push(with_shape(&mut db, name, table, statements)?);
        }
        let mut cells = Vec::new();
        for column in columns {
            let group = Group { variant: Variant::Plain, work: column.work };
            let round = Round { group, clients: column.clients, commit: column.commit };
            cells.push(compare(&mut contenders, &round, effort)?);
        }
        rows.push(row(shape, cells));
    }
    db.batch_execute(DROP)?;
    let titles = columns.iter().map(|column| column.title);
    Ok(Section {
        title: "Tables as people have them",
        header: ["the table has"].into_iter().chain(titles).collect(),
        rows,
        notes: vec![format!(
            "xqueue's rate relative to SQL written by hand on the same table: the median of {} pairs of {} s. In \
             brackets: tasks per second of both. Commits are asynchronous unless the column says durable.",
            effort.rounds, effort.seconds
        )],
        plot: None,
    })
}

fn with_shape(
    db: &mut Client,
    name: &str,
    table: &str,
    statements: &[&str],
) -> Result<Box<dyn Peer>> {
    let contender = peer::with_table(name, table)?;
    for statement in statements {
        db.batch_execute(&statement.replace("{table}", table))?;
    }
    Ok(contender)
}

/// Measures SQL written by hand and xqueue in pairs. Returns the median ratio and both rates.
pub fn compare(contenders: &mut [Box<dyn Peer>], round: &Round, effort: &Effort) -> Result<String> {
    let (mut ratios, mut rates) = (Sample::default(), [Sample::default(), Sample::default()]);
    for _ in 0..effort.rounds {
        let mut pair = [0.0; 2];
        for ((contender, rate), all) in contenders.iter_mut().zip(&mut pair).zip(&mut rates) {
            round.fill(&mut **contender, effort)?;
            let timed = round.run(&mut **contender, effort)?.ok_or("it is not timed")?;
            *rate = timed.per_second;
            all.add(*rate);
        }
        ratios.add(pair[1] / pair[0]);
    }
    let [by_hand, ours] = rates.map(|rate| rate.median());
    Ok(format!("{:.2} ({ours:.0}, {by_hand:.0})", ratios.median()))
}
