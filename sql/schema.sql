-- Names without a schema are the server's own, whatever the schema of the extension holds.
SET LOCAL search_path TO pg_catalog, pg_temp;

-- Preconditions: the extension passes names and values through in UTF-8. An object that another role has put into the
-- schema could be used in place of the extension's own. A call such as xqueue.stats('jobs') can even mean a type.
DO $$
DECLARE
    owner text := (SELECT r.rolname FROM pg_catalog.pg_namespace n
                   JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) n.nspowner
                   WHERE n.nspname OPERATOR(pg_catalog.=) 'xqueue' AND NOT r.rolsuper);
    creator text := (SELECT coalesce(pg_catalog.quote_ident(r.rolname), 'PUBLIC') FROM pg_catalog.pg_namespace n
                     CROSS JOIN LATERAL pg_catalog.aclexplode(n.nspacl) a
                     LEFT JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) a.grantee
                     WHERE n.nspname OPERATOR(pg_catalog.=) 'xqueue'
                     AND a.privilege_type OPERATOR(pg_catalog.=) 'CREATE' AND r.rolsuper IS NOT TRUE LIMIT 1);
    -- Each object of a schema depends on it normally, and so does the extension itself.
    planted text := (SELECT pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid) FROM pg_catalog.pg_depend d
                     JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) d.refobjid
                     WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass::pg_catalog.oid
                     AND d.classid OPERATOR(pg_catalog.<>) 'pg_catalog.pg_extension'::pg_catalog.regclass::pg_catalog.oid
                     AND d.deptype OPERATOR(pg_catalog.=) 'n' AND n.nspname OPERATOR(pg_catalog.=) 'xqueue'
                     ORDER BY d.classid, d.objid LIMIT 1);
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
    IF creator IS NOT NULL THEN
        RAISE EXCEPTION 'schema xqueue lets % create objects', creator
            USING ERRCODE = 'insufficient_privilege',
                  HINT = pg_catalog.format('CREATE SCHEMA IF NOT EXISTS xqueue; REVOKE CREATE ON SCHEMA xqueue FROM %s; leaves the schema to superusers.', creator);
    END IF;
    IF planted IS NOT NULL THEN
        RAISE EXCEPTION 'schema xqueue is not empty: it has %', planted
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Drop its objects, or move them: one of them might be used in place of the extension''s own.';
    END IF;
END
$$;

-- Functions that users do not call: triggers, the hash in indexes, and the functions behind the views. The schema belongs to
-- the extension; CREATE EXTENSION fails if there is one of this name already, so every function in it is the extension's own.
-- Every role can name the functions, because queues' owners create triggers and indexes, and takes call the hash.
CREATE SCHEMA xqueue_internal;
COMMENT ON SCHEMA xqueue_internal IS 'Functions of the extension xqueue that users do not call: triggers, the hash of sub-queues, and the functions behind the views.';

-- The registry of queues. Only the extension's functions write it, after checking that the caller owns the table.
-- Every role can read it. The privileges are at the end of views.sql.

CREATE TABLE xqueue.queue (
    relation regclass PRIMARY KEY,
    -- The table's oid when this row was written. After dump and restore it differs from `relation`,
    -- and the column numbers in `definition` no longer apply.
    incarnation oid NOT NULL,
    definition jsonb NOT NULL,
    paused_until timestamptz
);

COMMENT ON TABLE xqueue.queue IS 'Registry of queues. Read the view xqueue.queues; change it with xqueue.upgrade(), xqueue.downgrade(), xqueue.pause() and xqueue.resume().';
COMMENT ON COLUMN xqueue.queue.relation IS 'Table of the queue.';
COMMENT ON COLUMN xqueue.queue.incarnation IS 'Oid of the table when this row was written; 0 after dump and restore.';
COMMENT ON COLUMN xqueue.queue.definition IS 'Options and the columns that they were resolved to.';
COMMENT ON COLUMN xqueue.queue.paused_until IS 'End of the pause; NULL or a past time if the queue is not paused.';

CREATE FUNCTION xqueue_internal.registry_changed() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'registry_changed';
COMMENT ON FUNCTION xqueue_internal.registry_changed() IS 'Trigger of the registry that informs the worker of queues in a restored dump.';
CREATE TRIGGER registry_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON xqueue.queue
FOR EACH STATEMENT EXECUTE FUNCTION xqueue_internal.registry_changed();
COMMENT ON TRIGGER registry_changed ON xqueue.queue IS 'Informs the worker of queues in a restored dump.';

CREATE FUNCTION xqueue_internal.queue_arrives() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'queue_arrives';
COMMENT ON FUNCTION xqueue_internal.queue_arrives() IS 'Trigger of the registry that skips a restored row if its table is already a queue.';
CREATE TRIGGER queue_arrives BEFORE INSERT ON xqueue.queue FOR EACH ROW EXECUTE FUNCTION xqueue_internal.queue_arrives();
ALTER TABLE xqueue.queue ENABLE ALWAYS TRIGGER queue_arrives;
COMMENT ON TRIGGER queue_arrives ON xqueue.queue IS 'Skips a restored row if its table is already a queue.';

SELECT pg_catalog.pg_extension_config_dump('xqueue.queue', '');

-- Identified sessions own tasks and outlive their connections. Only identify() and the worker write this table;
-- the view xqueue.sessions shows it.

CREATE TABLE xqueue.session (
    uuid uuid PRIMARY KEY,
    role regrole NOT NULL,
    grace interval NOT NULL,
    lease timestamptz NOT NULL
);
CREATE INDEX session_lease_idx ON xqueue.session (lease);
CREATE INDEX session_role_idx ON xqueue.session (role);

COMMENT ON INDEX xqueue.session_lease_idx IS 'Finds the sessions that end next, for the worker.';
COMMENT ON INDEX xqueue.session_role_idx IS 'Counts the sessions of a role, for the setting xqueue.max_sessions_per_role.';
COMMENT ON TABLE xqueue.session IS 'Identified sessions, which own tasks and outlive their connections. Read the view xqueue.sessions; change it with xqueue.identify().';
COMMENT ON COLUMN xqueue.session.uuid IS 'Identifies the session, as in the owner column of its tasks.';
COMMENT ON COLUMN xqueue.session.role IS 'Role that opened the session; only its members can join.';
COMMENT ON COLUMN xqueue.session.grace IS 'How long the session lives without a connection.';
COMMENT ON COLUMN xqueue.session.lease IS 'When the session ends if no connection is attached; infinity while one is.';

-- The key of the hash that identifies sub-queues. It never changes, because indexes contain the hash. Dumps omit it: the
-- restored database has its own key and builds its indexes with that. Row security hides the key even from roles with
-- SELECT on all tables.

CREATE TABLE xqueue.secret (key uuid NOT NULL);
INSERT INTO xqueue.secret VALUES (pg_catalog.gen_random_uuid());
ALTER TABLE xqueue.secret ENABLE ROW LEVEL SECURITY;

COMMENT ON TABLE xqueue.secret IS 'Secret key of the hash that identifies sub-queues. Never change it: the indexes of queues with feature utube contain the hash.';
COMMENT ON COLUMN xqueue.secret.key IS 'Drawn at random by CREATE EXTENSION.';
