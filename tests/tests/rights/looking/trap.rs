//! A queue whose owner has code of every kind, which records the role it runs as.

use super::*;

/// The queue's table, of a hostile role. Each piece of the owner's code calls `note`, which advances the sequence named
/// after the current role. A rollback does not undo that.
pub struct Trap {
    pub q: Queue,
    pub owner: Role,
    /// Holds a task.
    pub hostile: Client,
}

impl Trap {
    pub fn set(options: &Value) -> Trap {
        let (owner, mut q) = (Role::create(), Queue::adopt(&database(), &unique("trap")));
        // The table is dropped with its owner.
        q.abandon();
        let mut hostile = owner.client();
        q.run(&mut hostile, &format!("CREATE SEQUENCE {{q}}_as_{}", owner.name));
        q.run(
            &mut hostile,
            "CREATE FUNCTION {q}_note(bigint) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
               PERFORM pg_catalog.nextval(pg_catalog.format('public.%I', '{q}_as_' || current_user)::regclass);
               RETURN true; END $$;
             CREATE FUNCTION {q}_fired() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               PERFORM public.{q}_note(1); RETURN coalesce(NEW, OLD); END $$;
             CREATE FUNCTION {q}_hook(task jsonb, event text) RETURNS boolean LANGUAGE sql
               RETURN {q}_note(length(event));
             CREATE FUNCTION {q}_pick(count integer) RETURNS SETOF bigint LANGUAGE plpgsql AS $$ BEGIN
               PERFORM public.{q}_note(1); END $$;
             CREATE DOMAIN {q}_key AS bigint CHECK ({q}_note(VALUE));
             CREATE TYPE {q}_kind AS ENUM ('a', 'b');
             CREATE TYPE {q}_pair AS (kind {q}_kind, no int);
             CREATE TYPE {q}_span AS RANGE (subtype = {q}_kind);
             CREATE DOMAIN {q}_named AS {q}_kind CHECK ({q}_note(length(VALUE::text)));
             DO $$ DECLARE source text; target text; BEGIN
               FOREACH source IN ARRAY ARRAY['{q}_kind', '{q}_pair', '{q}_span'] LOOP
                 FOREACH target IN ARRAY ARRAY['json', 'jsonb', 'text'] LOOP
                   EXECUTE format('CREATE FUNCTION %1$s_%2$s(%1$s) RETURNS %2$s LANGUAGE plpgsql AS
                     ''BEGIN PERFORM public.{q}_note(1); RETURN 7; END'';
                     CREATE CAST (%1$s AS %2$s) WITH FUNCTION %1$s_%2$s(%1$s) AS IMPLICIT', source, target);
                 END LOOP; END LOOP; END $$;
             CREATE TABLE {q} (id {q}_key PRIMARY KEY, payload jsonb,
               made boolean GENERATED ALWAYS AS ({q}_note(id)) STORED, CHECK ({q}_note(id)),
               kind {q}_kind DEFAULT 'a', kinds {q}_kind[] DEFAULT '{a,b}', named {q}_named DEFAULT 'b',
               pair {q}_pair DEFAULT '(a,7)', span {q}_span DEFAULT '[a,b]');",
        );
        q.run(&mut hostile, &format!("SELECT xqueue.upgrade('{{q}}', '{options}')"));
        q.run(
            &mut hostile,
            "INSERT INTO {q} (id, status, runat) SELECT n, 'R', NULL FROM generate_series(1, 4) n;
             INSERT INTO {q} (id, status) VALUES (5, 'B'), (6, 'B');
             INSERT INTO {q} (id, status, runat) VALUES (7, 'W', now() + interval '1 hour');
             CREATE INDEX ON {q} (id) WHERE {q}_note(1);
             CREATE INDEX ON {q} ((status::text)) WHERE {q}_note(2);
             CREATE INDEX ON {q} (({q}_note(id)));
             CREATE STATISTICS {q}_statistics ON ({q}_note(id)), (status::text) FROM {q};
             CREATE TRIGGER fired BEFORE INSERT OR UPDATE OR DELETE ON {q} FOR EACH ROW EXECUTE FUNCTION {q}_fired();
             CREATE CONSTRAINT TRIGGER put_off AFTER INSERT OR UPDATE OR DELETE ON {q} DEFERRABLE INITIALLY DEFERRED
               FOR EACH ROW EXECUTE FUNCTION {q}_fired();
             CREATE TRIGGER emptied BEFORE TRUNCATE ON {q} EXECUTE FUNCTION {q}_fired();
             ANALYZE {q};",
        );
        assert_eq!(take(&mut hostile, &q.name, "0", 1).len(), 1);
        q.sql("CREATE SEQUENCE {q}_as_postgres; GRANT ALL ON SEQUENCE {q}_as_postgres TO PUBLIC");
        Trap { q, owner, hostile }
    }

    #[track_caller]
    pub fn run_as_owner(&mut self, sql: &str) {
        self.q.run(&mut self.hostile, sql);
    }

    /// Creates a role that can read the table, with the rights of monitoring roles.
    pub fn looker(&mut self) -> Role {
        let role = Role::create();
        let name = &role.name;
        self.q.sql(&format!(
            "CREATE SEQUENCE {{q}}_as_{name}; GRANT ALL ON SEQUENCE {{q}}_as_{name} TO PUBLIC;
             GRANT pg_monitor TO {name}; GRANT SELECT ON {{q}} TO {name}"
        ));
        role
    }

    /// Returns whether any code has run with a role's rights since the last call.
    pub fn has_caught(&mut self, role: &str) -> bool {
        let sequence = format!("{}_as_{role}", self.q.name);
        let sql = format!("SELECT is_called FROM {sequence}");
        let has_caught = scalar(&mut self.q.admin, &sql, &[]);
        self.q.sql(&format!("SELECT setval('{sequence}', 1, false)"));
        has_caught
    }

    #[track_caller]
    pub fn assert_harmless(&mut self, role: &str, what: &str) {
        assert!(!self.has_caught(role), "{what} has run code of the owner as {role}");
    }
}
