-- The registry: which tables are queues. Written only by the extension's own functions, after they
-- have checked that the caller owns the table; readable by all.

CREATE TABLE xqueue.queue (
    relation regclass PRIMARY KEY,
    -- The table's oid when this row was written: differs from `relation` after dump and restore,
    -- when the numbers of columns in `definition` no longer hold.
    incarnation oid NOT NULL,
    definition jsonb NOT NULL
);

COMMENT ON TABLE xqueue.queue IS 'The tables that are queues, and how. Read the view xqueue.queues; change with xqueue.upgrade() and xqueue.downgrade().';
COMMENT ON COLUMN xqueue.queue.relation IS 'The table.';
COMMENT ON COLUMN xqueue.queue.incarnation IS 'The oid that the table had when this was written.';
COMMENT ON COLUMN xqueue.queue.definition IS 'Options, and the columns they were resolved to.';

CREATE FUNCTION xqueue.registry_changed() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'registry_changed';
COMMENT ON FUNCTION xqueue.registry_changed() IS 'Trigger of the registry: tells the worker of queues that come with a restored dump.';
CREATE TRIGGER registry_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON xqueue.queue
FOR EACH STATEMENT EXECUTE FUNCTION xqueue.registry_changed();

SELECT pg_catalog.pg_extension_config_dump('xqueue.queue', '');

GRANT USAGE ON SCHEMA xqueue TO PUBLIC;
GRANT SELECT ON xqueue.queue TO PUBLIC;
