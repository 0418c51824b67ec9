//! A queue whose owner has code of every kind, which records the role it runs as.

use super::*;

/// The queue's table, of a hostile role. Each piece of the owner's code calls `note`, which advances the sequence named
/// after the current role. A rollback does not undo that.
pub struct Trap {
    pub table: String,
    pub owner: Role,
    pub admin: Client,
    /// Holds a task.
    pub hostile: Client,
}

impl Trap {
    pub fn set(options: &Value) -> Trap {
        let (owner, table) = (Role::create(), unique("trap"));
        let mut hostile = owner.client();
        let mut admin = connect();
        let run = |c: &mut Client, sql: &str| {
            let sql = sql.replace("{t}", &table).replace("{o}", &owner.name);
            c.run(&sql);
        };
        run(
            &mut hostile,
            "CREATE SEQUENCE {t}_as_{o};
             CREATE FUNCTION {t}_note(bigint) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
               PERFORM pg_catalog.nextval(pg_catalog.format('public.%I', '{t}_as_' || current_user)::regclass);
               RETURN true; END $$;
             CREATE FUNCTION {t}_fired() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               PERFORM public.{t}_note(1); RETURN coalesce(NEW, OLD); END $$;
             CREATE FUNCTION {t}_hook(task jsonb, event text) RETURNS boolean LANGUAGE sql
               RETURN {t}_note(length(event));
             CREATE FUNCTION {t}_pick(count integer) RETURNS SETOF bigint LANGUAGE plpgsql AS $$ BEGIN
               PERFORM public.{t}_note(1); END $$;
             CREATE DOMAIN {t}_key AS bigint CHECK ({t}_note(VALUE));
             CREATE TYPE {t}_kind AS ENUM ('a', 'b');
             CREATE TYPE {t}_pair AS (kind {t}_kind, no int);
             CREATE TYPE {t}_span AS RANGE (subtype = {t}_kind);
             CREATE DOMAIN {t}_named AS {t}_kind CHECK ({t}_note(length(VALUE::text)));
             DO $$ DECLARE source text; target text; BEGIN
               FOREACH source IN ARRAY ARRAY['{t}_kind', '{t}_pair', '{t}_span'] LOOP
                 FOREACH target IN ARRAY ARRAY['json', 'jsonb', 'text'] LOOP
                   EXECUTE format('CREATE FUNCTION %1$s_%2$s(%1$s) RETURNS %2$s LANGUAGE plpgsql AS
                     ''BEGIN PERFORM public.{t}_note(1); RETURN 7; END'';
                     CREATE CAST (%1$s AS %2$s) WITH FUNCTION %1$s_%2$s(%1$s) AS IMPLICIT', source, target);
                 END LOOP; END LOOP; END $$;
             CREATE TABLE {t} (id {t}_key PRIMARY KEY, payload jsonb,
               made boolean GENERATED ALWAYS AS ({t}_note(id)) STORED, CHECK ({t}_note(id)),
               kind {t}_kind DEFAULT 'a', kinds {t}_kind[] DEFAULT '{a,b}', named {t}_named DEFAULT 'b',
               pair {t}_pair DEFAULT '(a,7)', span {t}_span DEFAULT '[a,b]');",
        );
        let sql = "SELECT xqueue.upgrade($1::text, $2::jsonb)";
        scalar::<Value>(&mut hostile, sql, &[&table, options]);
        run(
            &mut hostile,
            "INSERT INTO {t} (id, status, runat) SELECT n, 'R', NULL FROM generate_series(1, 4) n;
             INSERT INTO {t} (id, status) VALUES (5, 'B'), (6, 'B');
             INSERT INTO {t} (id, status, runat) VALUES (7, 'W', now() + interval '1 hour');
             CREATE INDEX ON {t} (id) WHERE {t}_note(1);
             CREATE INDEX ON {t} ((status::text)) WHERE {t}_note(2);
             CREATE INDEX ON {t} (({t}_note(id)));
             CREATE STATISTICS {t}_statistics ON ({t}_note(id)), (status::text) FROM {t};
             CREATE TRIGGER fired BEFORE INSERT OR UPDATE OR DELETE ON {t} FOR EACH ROW EXECUTE FUNCTION {t}_fired();
             CREATE CONSTRAINT TRIGGER put_off AFTER INSERT OR UPDATE OR DELETE ON {t} DEFERRABLE INITIALLY DEFERRED
               FOR EACH ROW EXECUTE FUNCTION {t}_fired();
             CREATE TRIGGER emptied BEFORE TRUNCATE ON {t} EXECUTE FUNCTION {t}_fired();
             ANALYZE {t};",
        );
        assert_eq!(values(&mut hostile, "SELECT xqueue.take($1::text)", &[&table]).len(), 1);
        run(
            &mut admin,
            "CREATE SEQUENCE {t}_as_postgres; GRANT ALL ON SEQUENCE {t}_as_postgres TO PUBLIC",
        );
        Trap { table, owner, admin, hostile }
    }

    pub fn named(&self, sql: &str) -> String {
        sql.replace("{t}", &self.table).replace("{o}", &self.owner.name)
    }

    #[track_caller]
    pub fn run_as_owner(&mut self, sql: &str) {
        let sql = self.named(sql);
        self.hostile.run(&sql);
    }

    #[track_caller]
    pub fn run_as_superuser(&mut self, sql: &str) {
        let sql = self.named(sql);
        self.admin.run(&sql);
    }

    /// Creates a role that can read the table, with the rights of monitoring roles.
    pub fn looker(&mut self) -> Role {
        let role = Role::create();
        let name = &role.name;
        self.run_as_superuser(&format!(
            "CREATE SEQUENCE {{t}}_as_{name}; GRANT ALL ON SEQUENCE {{t}}_as_{name} TO PUBLIC;
             GRANT pg_monitor TO {name}; GRANT SELECT ON {{t}} TO {name}"
        ));
        role
    }

    /// Returns whether any code has run with a role's rights since the last call.
    pub fn has_caught(&mut self, role: &str) -> bool {
        let sequence = format!("{}_as_{role}", self.table);
        let sql = format!("SELECT is_called FROM {sequence}");
        let has_caught = scalar(&mut self.admin, &sql, &[]);
        self.run_as_superuser(&format!("SELECT setval('{sequence}', 1, false)"));
        has_caught
    }

    #[track_caller]
    pub fn assert_harmless(&mut self, role: &str, what: &str) {
        assert!(!self.has_caught(role), "{what} has run code of the owner as {role}");
    }
}

impl Drop for Trap {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.run_as_superuser("DROP TABLE IF EXISTS {t} CASCADE");
        }
    }
}
