# Makes the install script of an invented version "next" from the current install script, with one change of each kind that
# updates can contain. next.sql is the update script to that version.

# The registry gets a column.
s/^    paused_until timestamptz$/    paused_until timestamptz,\n    note text/
/^COMMENT ON COLUMN xqueue\.queue\.paused_until /a COMMENT ON COLUMN xqueue.queue.note IS 'What the owner says of it.';

# A parameter gets a default.
s/^\(CREATE FUNCTION xqueue\.kick(queue text, n integer\))/\1 DEFAULT 1)/

# A function gets another parameter, which makes it another function.
s/^\(CREATE FUNCTION xqueue\.kick(queue anyelement, n integer\))/\1, reason text DEFAULT NULL)/
s/^\(COMMENT ON FUNCTION xqueue\.kick(anyelement, integer\))/\1, text)/

# A view gets a column, another view a new description, and a third view is dropped.
/^CREATE VIEW xqueue\.metric AS/,/;$/s/^\( *\)(m->>'value')::double precision AS value$/&,\n\1m->>'unit' AS unit/
/^COMMENT ON COLUMN xqueue\.metric\.value /a COMMENT ON COLUMN xqueue.metric.unit IS 'What it counts.';
s/^\(COMMENT ON VIEW xqueue\.latency IS '\).*/\1How long tasks wait, and are worked on.';/
/^CREATE VIEW xqueue\.calls AS/,/^$/d
s/^\(GRANT SELECT ON .*\) xqueue\.calls,/\1/

# A new function, which PUBLIC is not allowed to call.
$a CREATE FUNCTION xqueue.version() RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog\
AS 'SELECT extversion FROM pg_extension WHERE extname = ''xqueue''';\
COMMENT ON FUNCTION xqueue.version() IS 'The version of the SQL objects.';\
REVOKE ALL ON FUNCTION xqueue.version() FROM PUBLIC;
