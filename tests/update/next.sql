-- Updates the current version to "next", the version that next.sed makes.

ALTER TABLE xqueue.queue ADD COLUMN note text;
COMMENT ON COLUMN xqueue.queue.note IS 'What the owner says of it.';

CREATE OR REPLACE FUNCTION xqueue.kick(queue text, n integer DEFAULT 1)
RETURNS integer LANGUAGE c AS 'MODULE_PATHNAME', 'kick';

DROP FUNCTION xqueue.kick(anyelement, integer);
CREATE FUNCTION xqueue.kick(queue anyelement, n integer, reason text DEFAULT NULL)
RETURNS integer LANGUAGE c AS 'MODULE_PATHNAME', 'kick';
COMMENT ON FUNCTION xqueue.kick(anyelement, integer, text) IS 'Row form of kick(text, …): names the queue by its row type, as in NULL::jobs.';

CREATE OR REPLACE VIEW xqueue.metric AS
SELECT m->>'name' AS name,
       m->'labels' AS labels,
       (m->>'value')::double precision AS value,
       m->>'unit' AS unit
FROM xqueue_internal.metric_rows() AS m;
COMMENT ON COLUMN xqueue.metric.unit IS 'What it counts.';

COMMENT ON VIEW xqueue.latency IS 'How long tasks wait, and are worked on.';

DROP VIEW xqueue.calls;

CREATE FUNCTION xqueue.version() RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog
AS 'SELECT extversion FROM pg_extension WHERE extname = ''xqueue''';
COMMENT ON FUNCTION xqueue.version() IS 'The version of the SQL objects.';
REVOKE ALL ON FUNCTION xqueue.version() FROM PUBLIC;
