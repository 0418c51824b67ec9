//! Additions that real tables have: foreign keys, triggers, generated columns, indexes of other access methods.

use rand::Rng;

/// Objects that the additions of all tables share.
pub const SHARED: &str = "
    CREATE TABLE public.customer (id int PRIMARY KEY);
    INSERT INTO public.customer VALUES (1);
    CREATE TABLE public.audit (queue regclass, task text, status text);
    CREATE INDEX ON public.audit (queue, task);
    GRANT SELECT, INSERT, DELETE ON public.audit TO PUBLIC;
    CREATE FUNCTION public.touch() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN NEW.updated_at := clock_timestamp(); RETURN NEW; END $$;
    CREATE FUNCTION public.log() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF TG_OP = 'UPDATE' THEN
            INSERT INTO public.audit VALUES (TG_RELID, OLD.id, OLD.status);
        ELSE
            DELETE FROM public.audit WHERE queue = TG_RELID AND task = OLD.id::text;
        END IF;
        RETURN NULL; END $$;";

/// Each addition to a table `{q}` with columns `id` and `payload`; `{n}` is the number of the table.
pub const ADDITIONS: [(&str, &str); 6] = [
    (
        "a foreign key",
        "ALTER TABLE {q} ADD customer int NOT NULL DEFAULT 1 REFERENCES public.customer;",
    ),
    (
        "a table that refers to it",
        "CREATE UNLOGGED TABLE public.part_{n} AS SELECT id FROM {q} WITH NO DATA;
         ALTER TABLE public.part_{n} ADD FOREIGN KEY (id) REFERENCES {q} (id) ON DELETE CASCADE;",
    ),
    (
        "a BEFORE UPDATE trigger",
        "ALTER TABLE {q} ADD updated_at timestamptz;
         CREATE TRIGGER touch BEFORE UPDATE ON {q} FOR EACH ROW EXECUTE FUNCTION public.touch();",
    ),
    (
        "an AFTER trigger",
        "CREATE TRIGGER log AFTER UPDATE OR DELETE ON {q} FOR EACH ROW EXECUTE FUNCTION public.log();",
    ),
    (
        "a generated column",
        "ALTER TABLE {q} ADD size int GENERATED ALWAYS AS (length(payload::text)) STORED;",
    ),
    (
        "GIN and BRIN indexes",
        "CREATE INDEX ON {q} USING gin (payload); CREATE INDEX ON {q} USING brin (id);",
    ),
];

/// Adds some of these to half of the tables. Returns their names, and the statements for table number `n`.
pub fn of(random: &mut impl Rng, table: &str, n: usize) -> (String, String) {
    let is_adorned = random.random_bool(0.5);
    let mut chosen = ADDITIONS.to_vec();
    chosen.retain(|_| random.random_bool(0.4) && is_adorned);
    let (names, sql): (Vec<&str>, Vec<&str>) = chosen.into_iter().unzip();
    (names.join(", "), sql.concat().replace("{q}", table).replace("{n}", &n.to_string()))
}
