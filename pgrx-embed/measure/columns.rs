//! Tables with columns of their own for status, time and priority. Each table exists twice, as a queue and for SQL
//! written by hand, and the two are measured in pairs.

use crate::effort::Effort;
use crate::keys::{BOTH, DROP, ROUND};
use crate::peer::{self, HAND, Peers, ROWS};
use crate::report::{Section, row};
use crate::{Result, database, tables};

pub const CASE: &str = "columns";

struct Shape {
    title: &'static str,
    columns: &'static str,
    /// The values of the status, as SQL.
    ready: &'static str,
    taken: &'static str,
    /// The order by hand, before the key, and a further condition for a take.
    order: &'static str,
    due: &'static str,
    /// The ack by hand, up to its WHERE.
    ack: &'static str,
    options: &'static str,
}

const DELETE: &str = "DELETE FROM {table}";

const SHAPES: [Shape; 3] = [
    Shape {
        title: "an integer status",
        columns: "status int NOT NULL DEFAULT 0",
        ready: "0",
        taken: "1",
        order: "",
        due: "",
        ack: DELETE,
        options: r#"{"fields": {"status": "status"}, "states": {"R": 0, "T": 1, "W": 2, "B": 3, "Z": 4, "D": 5}}"#,
    },
    Shape {
        title: "run_at timestamp(6) NOT NULL DEFAULT now()",
        columns: "status text NOT NULL DEFAULT 'ready', run_at timestamp(6) NOT NULL DEFAULT now()",
        ready: "'ready'",
        taken: "'running'",
        order: "",
        due: "AND run_at <= now()",
        ack: DELETE,
        options: r#"{"fields": {"status": "status", "runat": "run_at"},
                     "states": {"R": "ready", "T": "running", "W": "waiting"}, "features": {"delayed": true}}"#,
    },
    Shape {
        title: "a text status, a priority, and kept tasks",
        columns: "status text NOT NULL DEFAULT 'ready', priority int NOT NULL DEFAULT 0",
        ready: "'ready'",
        taken: "'running'",
        order: "priority,",
        due: "",
        ack: "UPDATE {table} SET status = 'done', owner = NULL",
        options: r#"{"fields": {"status": "status", "priority": "priority"},
                     "states": {"R": "ready", "T": "running", "D": "done"},
                     "features": {"priority": true, "keep": true}}"#,
    },
];

const BY_HAND: &str = r#"
-- install --
CREATE TABLE {table} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload jsonb, {columns}, owner int);
CREATE INDEX ON {table} ({order} id) WHERE status = {ready}
-- put --
INSERT INTO {table} (payload) VALUES ('{"n": 1}') RETURNING id, payload
-- take --
UPDATE {table} SET status = {taken}, owner = pg_backend_pid()
WHERE id = (SELECT id FROM {table} WHERE status = {ready} {due} ORDER BY {order} id FOR UPDATE SKIP LOCKED LIMIT 1)
RETURNING id, payload
-- ack --
{ack} WHERE id = :id RETURNING id
"#;

const OURS: &str = r#"
-- install --
CREATE TABLE {table} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload jsonb, {columns});
SELECT xqueue.upgrade('{table}', '{options}')
-- put --
SELECT id, payload FROM xqueue.put(NULL::{table}, '{"payload": {"n": 1}}')
-- take --
SELECT id, payload FROM xqueue.take(NULL::{table})
-- ack --
SELECT id FROM xqueue.ack(NULL::{table}, :id::bigint)
"#;

impl Shape {
    fn text(&self, table: &str, text: &str) -> String {
        [
            ("{columns}", self.columns),
            ("{ready}", self.ready),
            ("{taken}", self.taken),
            ("{order}", self.order),
            ("{due}", self.due),
            ("{ack}", self.ack),
            ("{options}", self.options),
            ("{table}", table),
        ]
        .into_iter()
        .fold(format!("{BOTH}{text}"), |text, (name, value)| text.replace(name, value))
    }
}

pub fn measure(effort: &Effort, _: &mut Peers) -> Result<Section> {
    let mut db = database::connect("xqueue measure")?;
    let mut rows = Vec::new();
    for shape in &SHAPES {
        db.batch_execute(DROP)?;
        let mut contenders = [
            peer::of_text(HAND, &shape.text("measure.plain", BY_HAND))?,
            peer::of_text(ROWS, &shape.text("measure.jobs", OURS))?,
        ];
        rows.push(row(shape.title, vec![tables::compare(&mut contenders, &ROUND, effort)?]));
    }
    db.batch_execute(DROP)?;
    Ok(Section {
        title: "Columns as people have them",
        header: vec!["the table has", "lifecycle, 4 clients"],
        rows,
        notes: vec![format!(
            "xqueue's rate relative to SQL written by hand on the same table: the median of {} pairs of {} s. In \
             brackets: tasks per second of both. Commits are asynchronous.",
            effort.rounds, effort.seconds
        )],
        plot: None,
    })
}
