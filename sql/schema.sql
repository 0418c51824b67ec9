-- What has to be so before anything is made: names and values pass through in UTF-8, and the owner of the
-- schema could put its own functions beside ours.
DO $$
DECLARE
    owner text := (SELECT r.rolname FROM pg_catalog.pg_namespace n
                   JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) n.nspowner
                   WHERE n.nspname OPERATOR(pg_catalog.=) 'xqueue' AND NOT r.rolsuper);
BEGIN
    IF pg_catalog.getdatabaseencoding() OPERATOR(pg_catalog.<>) 'UTF8' THEN
        RAISE EXCEPTION 'xqueue needs a database with encoding UTF8, not %', pg_catalog.getdatabaseencoding()
            USING ERRCODE = 'feature_not_supported',
                  HINT = 'CREATE DATABASE jobs ENCODING ''UTF8'' LOCALE ''C.UTF-8'' TEMPLATE template0 makes one, for example.';
    END IF;
    IF owner IS NOT NULL THEN
        RAISE EXCEPTION 'schema xqueue belongs to "%", who is no superuser', owner
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'ALTER SCHEMA xqueue OWNER TO a superuser, or drop it: CREATE EXTENSION makes its own.';
    END IF;
    IF EXISTS (SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n
               ON n.oid OPERATOR(pg_catalog.=) p.pronamespace WHERE n.nspname OPERATOR(pg_catalog.=) 'xqueue') THEN
        RAISE EXCEPTION 'schema xqueue has functions already'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Move them: one of them might be called in place of the extension''s own.';
    END IF;
END
$$;

-- The registry: which tables are queues. Written only by the extension's own functions, after they
-- have checked that the caller owns the table; readable by all.

CREATE TABLE xqueue.queue (
    relation regclass PRIMARY KEY,
    -- The table's oid when this row was written: differs from `relation` after dump and restore,
    -- when the numbers of columns in `definition` no longer hold.
    incarnation oid NOT NULL,
    definition jsonb NOT NULL,
    paused_until timestamptz
);

COMMENT ON TABLE xqueue.queue IS 'The tables that are queues, and how. Read the view xqueue.queues; change with xqueue.upgrade(), xqueue.downgrade(), xqueue.pause() and xqueue.resume().';
COMMENT ON COLUMN xqueue.queue.relation IS 'The table.';
COMMENT ON COLUMN xqueue.queue.incarnation IS 'The oid that the table had when this was written.';
COMMENT ON COLUMN xqueue.queue.definition IS 'Options, and the columns they were resolved to.';
COMMENT ON COLUMN xqueue.queue.paused_until IS 'End of the pause, until which no task is taken; NULL or past: not paused.';

CREATE FUNCTION xqueue.registry_changed() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'registry_changed';
COMMENT ON FUNCTION xqueue.registry_changed() IS 'Trigger of the registry: tells the worker of queues that come with a restored dump.';
CREATE TRIGGER registry_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON xqueue.queue
FOR EACH STATEMENT EXECUTE FUNCTION xqueue.registry_changed();
COMMENT ON TRIGGER registry_changed ON xqueue.queue IS 'Tells the worker of queues that come with a restored dump.';

CREATE FUNCTION xqueue.queue_arrives() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'queue_arrives';
COMMENT ON FUNCTION xqueue.queue_arrives() IS 'Trigger of the registry: the row of a dump is left out if its table is a queue here already.';
CREATE TRIGGER queue_arrives BEFORE INSERT ON xqueue.queue FOR EACH ROW EXECUTE FUNCTION xqueue.queue_arrives();
ALTER TABLE xqueue.queue ENABLE ALWAYS TRIGGER queue_arrives;
COMMENT ON TRIGGER queue_arrives ON xqueue.queue IS 'Leaves out the row of a dump if its table is a queue here already.';

SELECT pg_catalog.pg_extension_config_dump('xqueue.queue', '');

GRANT USAGE ON SCHEMA xqueue TO PUBLIC;
GRANT SELECT ON xqueue.queue TO PUBLIC;

-- The identified sessions: they own tasks, and outlive their connections. Written by identify() and
-- the worker only; see the view xqueue.sessions.

CREATE TABLE xqueue.session (
    uuid uuid PRIMARY KEY,
    role regrole NOT NULL,
    grace interval NOT NULL,
    lease timestamptz NOT NULL
);
CREATE INDEX session_lease_idx ON xqueue.session (lease);
CREATE INDEX session_role_idx ON xqueue.session (role);

COMMENT ON INDEX xqueue.session_lease_idx IS 'The sessions that end next, for the worker.';
COMMENT ON INDEX xqueue.session_role_idx IS 'How many sessions a role has, for the setting xqueue.max_sessions_per_role.';
COMMENT ON TABLE xqueue.session IS 'The identified sessions, which own tasks and outlive their connections. Read the view xqueue.sessions; change with xqueue.identify().';
COMMENT ON COLUMN xqueue.session.uuid IS 'As it stands in the owner column of the tasks that it has taken.';
COMMENT ON COLUMN xqueue.session.role IS 'The role that has opened it: only its members may join it.';
COMMENT ON COLUMN xqueue.session.grace IS 'How long it lives on without a connection.';
COMMENT ON COLUMN xqueue.session.lease IS 'When it ends, if no connection is attached to it; infinity while one is.';

-- The key of the hash that tells sub-queues apart. Indexes are made of it, so it is never changed; a dump leaves it out, as
-- the restored database has a key of its own and makes its indexes anew. Row security holds for whoever is granted all tables.

CREATE TABLE xqueue.secret (key uuid NOT NULL);
INSERT INTO xqueue.secret VALUES (pg_catalog.gen_random_uuid());
REVOKE ALL ON xqueue.secret FROM PUBLIC;
ALTER TABLE xqueue.secret ENABLE ROW LEVEL SECURITY;

COMMENT ON TABLE xqueue.secret IS 'The secret that sub-queues are told apart by. Never change it: the indexes of queues with feature utube are made of it.';
COMMENT ON COLUMN xqueue.secret.key IS 'Drawn by CREATE EXTENSION.';
