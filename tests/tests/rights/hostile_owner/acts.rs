//! Changes that an owner makes to the table of a queue.

/// Statements of the owner. {q} stands for the table.
pub struct Act {
    pub sql: String,
    /// Drops the triggers and all indexes except the key's first, because they would make the act fail.
    pub strips: bool,
    /// Drops the key's index as well.
    pub strips_key: bool,
}

impl Act {
    fn of(sql: &str) -> Act {
        Act { sql: sql.into(), strips: false, strips_key: false }
    }

    fn stripped(sql: String) -> Act {
        let strips_key =
            sql.contains("ALTER id ") || sql.contains(" id ") || sql.contains("_RETURN");
        Act { sql, strips: true, strips_key }
    }
}

/// Types, with values that could be mistaken for addresses, lengths or headers.
const TYPES: [(&str, &str); 13] = [
    ("bigint", "140737488355328"),
    ("text", "repeat('x', 5)"),
    ("char(40)", "'R'"),
    ("\"char\"", "'T'"),
    ("bytea", "'\\x01'"),
    ("bytea", "'\\xffffffffffffffffffffffffffffffffffff'"),
    ("jsonb", "'{\"a\": [1, 2]}'"),
    ("float8", "'6.9e-310'"),
    ("uuid", "'00000000-0000-0001-7fff-ffffffffffff'"),
    ("timestamptz", "'-infinity'"),
    ("int8[]", "ARRAY[140737488355328, NULL]"),
    ("{q}_domain", "'x'"),
    ("{q}_row", "ROW(1, 'x')"),
];

/// Changes each of these columns to every type.
pub fn types(columns: &[&str]) -> Vec<Act> {
    let of = |column: &&str| {
        TYPES.map(|(kind, value)| {
            Act::stripped(format!(
                "ALTER TABLE {{q}} ALTER {column} DROP DEFAULT; ALTER TABLE {{q}} ALTER {column} DROP NOT NULL; \
                 ALTER TABLE {{q}} ALTER {column} TYPE {kind} USING {value}::{kind}"
            ))
        })
    };
    columns.iter().flat_map(of).collect()
}

const COLUMNS: [&str; 10] =
    ["id", "status", "owner", "runat", "priority", "tube", "attempts", "expires", "ttr", "reason"];

/// Columns that are dropped, replaced, or refuse the queue's values.
pub fn columns() -> Vec<Act> {
    let mut acts = Vec::new();
    for column in COLUMNS {
        acts.extend([
            Act::of(&format!("ALTER TABLE {{q}} DROP COLUMN {column} CASCADE")),
            Act::stripped(format!(
                "ALTER TABLE {{q}} DROP COLUMN {column} CASCADE; ALTER TABLE {{q}} ADD COLUMN {column} bigint DEFAULT 140737488355328"
            )),
            Act::of(&format!("ALTER TABLE {{q}} RENAME COLUMN {column} TO \"O'ther \"\"name\"")),
            Act::of(&format!(
                "ALTER TABLE {{q}} RENAME COLUMN {column} TO other; ALTER TABLE {{q}} RENAME COLUMN payload TO {column}"
            )),
            Act::of(&format!("ALTER TABLE {{q}} ADD CHECK ({column} IS NULL) NOT VALID")),
        ]);
    }
    let swap = |one: &str, other: &str| {
        Act::of(&format!(
            "ALTER TABLE {{q}} RENAME COLUMN {one} TO between; ALTER TABLE {{q}} RENAME COLUMN {other} TO {one}; \
             ALTER TABLE {{q}} RENAME COLUMN between TO {other}"
        ))
    };
    acts.extend([
        swap("owner", "runat"),
        swap("runat", "expires"),
        swap("status", "tube"),
        swap("id", "priority"),
    ]);
    acts.extend(["owner", "runat", "expires", "priority", "attempts"].map(|column| {
        let kind = match column {
            "owner" => "uuid GENERATED ALWAYS AS ('00000000-0000-0001-7fff-ffffffffffff'::uuid) STORED",
            "runat" | "expires" => "timestamptz GENERATED ALWAYS AS ('-infinity'::timestamptz) STORED",
            _ => "int GENERATED ALWAYS AS IDENTITY",
        };
        Act::stripped(format!(
            "ALTER TABLE {{q}} DROP COLUMN {column} CASCADE; ALTER TABLE {{q}} ADD COLUMN {column} {kind}"
        ))
    }));
    acts.extend(
        [
            "ALTER TABLE {q} DROP CONSTRAINT {q}_pkey; ALTER TABLE {q} ALTER id DROP NOT NULL; INSERT INTO {q} (id, priority, attempts) VALUES (NULL, 0, 0), (1, 0, 0), (1, 0, 0)",
            "ALTER TABLE {q} DROP CONSTRAINT {q}_pkey; ALTER TABLE {q} ADD COLUMN other serial PRIMARY KEY",
            "ALTER TABLE {q} ALTER id SET DEFAULT 1",
            "ALTER TABLE {q} ALTER status SET DEFAULT 'T'",
            "ALTER TABLE {q} ALTER owner SET DEFAULT '00000000-0000-0001-7fff-ffffffffffff'",
            "UPDATE {q} SET owner = NULL; ALTER TABLE {q} ALTER runat SET DEFAULT '-infinity'",
            "UPDATE {q} SET owner = '00000000-0000-0000-0000-000000000000', runat = 'infinity', expires = '-infinity'",
            "UPDATE {q} SET ttr = '1 year', priority = 2147483647, attempts = 2147483647",
            "UPDATE {q} SET ttr = '-178000000 years', runat = '4714-11-24 BC', expires = '294276-12-31'",
            "UPDATE {q} SET status = 'T', owner = NULL, runat = NULL",
            "ALTER TABLE {q} ALTER payload SET STORAGE EXTERNAL; ALTER TABLE {q} ALTER tube SET STORAGE PLAIN",
            "ALTER TABLE {q} ADD COLUMN more int DEFAULT 1 / 0",
            "ALTER TABLE {q} ADD COLUMN more {q}_row DEFAULT ROW(1, 'x')",
            "ALTER TABLE {q} ADD COLUMN more {q}_domain DEFAULT 'x' NOT NULL",
        ]
        .map(Act::of),
    );
    acts
}

/// Changes of the table as a whole.
pub fn tables() -> Vec<Act> {
    let mut acts: Vec<Act> = [
        "CREATE RULE r AS ON INSERT TO {q} DO INSTEAD NOTHING",
        "CREATE RULE r AS ON UPDATE TO {q} DO INSTEAD NOTHING",
        "CREATE RULE r AS ON DELETE TO {q} DO INSTEAD NOTHING",
        "CREATE RULE r AS ON UPDATE TO {q} DO ALSO INSERT INTO {q} (status) VALUES ('R')",
        "CREATE RULE r AS ON INSERT TO {q} DO ALSO SELECT 1 / 0",
        "CREATE RULE r AS ON DELETE TO {q} DO INSTEAD UPDATE {q} SET owner = NULL WHERE id = OLD.id",
        "CREATE TABLE {q}_heir () INHERITS ({q}); INSERT INTO {q}_heir (status) VALUES ('R'), ('T')",
        "CREATE TABLE {q}_elder (id bigint NOT NULL, status text); ALTER TABLE {q} INHERIT {q}_elder",
        "ALTER TABLE {q} ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE {q} FORCE ROW LEVEL SECURITY; ALTER TABLE {q} ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE {q} FORCE ROW LEVEL SECURITY; ALTER TABLE {q} ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON {q} USING (id / 0 = 1)",
        "ALTER TABLE {q} FORCE ROW LEVEL SECURITY; ALTER TABLE {q} ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON {q} USING (status = 'R') WITH CHECK (true)",
        "ALTER TABLE {q} FORCE ROW LEVEL SECURITY; ALTER TABLE {q} ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON {q} USING ({q}_loud(id))",
        "ALTER TABLE {q} ADD CHECK ({q}_loud(id)) NOT VALID",
        "CREATE INDEX ON {q} (({q}_loud(id)))",
        "CREATE INDEX ON {q} (owner) WHERE {q}_quiet(id)",
        "CREATE UNIQUE INDEX ON {q} (status)",
        "CREATE TRIGGER t BEFORE UPDATE ON {q} FOR EACH ROW EXECUTE FUNCTION {q}_null()",
        "CREATE TRIGGER t BEFORE DELETE ON {q} FOR EACH ROW EXECUTE FUNCTION {q}_null()",
        "CREATE TRIGGER t BEFORE INSERT ON {q} FOR EACH ROW EXECUTE FUNCTION {q}_null()",
        "CREATE TRIGGER t BEFORE INSERT OR UPDATE ON {q} FOR EACH ROW EXECUTE FUNCTION {q}_other()",
        "CREATE TRIGGER t AFTER UPDATE ON {q} FOR EACH ROW WHEN (pg_trigger_depth() < 3) EXECUTE FUNCTION {q}_alter()",
        "CREATE CONSTRAINT TRIGGER t AFTER UPDATE ON {q} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {q}_alter()",
        "ALTER TABLE {q} SET UNLOGGED",
        "ALTER TABLE {q} SET ACCESS METHOD heap2",
        "ALTER TABLE {q} SET ACCESS METHOD heap2; ALTER TABLE {q} SET ACCESS METHOD heap",
        "ALTER TABLE {q} RENAME TO {q}_gone; CREATE VIEW {q} AS SELECT * FROM {q}_gone",
        "DROP TABLE {q}; CREATE TABLE {q} (id text, owner bigint)",
        "DROP TABLE {q}",
        "ALTER TABLE {q} DISABLE TRIGGER ALL; INSERT INTO {q} (status) VALUES ('R'), ('T')",
        "ALTER TABLE {q} ENABLE REPLICA TRIGGER xqueue_update",
        "ALTER TRIGGER xqueue_update ON {q} RENAME TO other",
        "CREATE OR REPLACE TRIGGER xqueue_update AFTER UPDATE ON {q} FOR EACH ROW EXECUTE FUNCTION {q}_null()",
        "CREATE OR REPLACE TRIGGER xqueue_insert AFTER DELETE ON {q} FOR EACH ROW EXECUTE FUNCTION xqueue_internal.row_changed()",
        "CREATE TRIGGER t BEFORE INSERT ON {q} FOR EACH ROW EXECUTE FUNCTION xqueue_internal.row_arrives()",
        "REVOKE ALL ON {q} FROM CURRENT_USER",
        "REVOKE SELECT, UPDATE ON {q} FROM CURRENT_USER; GRANT SELECT (id), UPDATE (status) ON {q} TO CURRENT_USER",
        "UPDATE {q} SET tube = repeat('x', 8000), payload = to_jsonb(repeat('y', 100000))",
        "CREATE TABLE {q}_child (task bigint REFERENCES {q} (id) ON DELETE CASCADE); INSERT INTO {q}_child SELECT id FROM {q}",
        "CREATE TABLE {q}_child (task bigint REFERENCES {q} (id) DEFERRABLE INITIALLY DEFERRED); INSERT INTO {q}_child SELECT id FROM {q}",
    ]
    .map(Act::of)
    .into();
    acts.push(Act::stripped(
        "CREATE TABLE {q}_whole (LIKE {q}) PARTITION BY RANGE (id); ALTER TABLE {q}_whole ATTACH PARTITION {q} DEFAULT".into(),
    ));
    acts.push(Act::of(
        "CREATE TABLE {q}_whole (LIKE {q}) PARTITION BY RANGE (id); ALTER TABLE {q}_whole ATTACH PARTITION {q} FOR VALUES FROM (1) TO (3)",
    ));
    // Up to PostgreSQL 15 this turns the table into a view.
    acts.push(Act::stripped(
        "ALTER TABLE {q} ALTER id DROP DEFAULT; ALTER TABLE {q} ALTER id DROP NOT NULL; DELETE FROM {q}; \
         DO $$ DECLARE x text; BEGIN SELECT string_agg(format('NULL::%s AS %I', format_type(atttypid, atttypmod), attname), ', ' ORDER BY attnum) INTO x \
         FROM pg_attribute WHERE attrelid = '{q}'::regclass AND attnum > 0 AND NOT attisdropped; \
         EXECUTE 'CREATE RULE \"_RETURN\" AS ON SELECT TO {q} DO INSTEAD SELECT ' || x; END $$"
            .into(),
    ));
    acts
}
