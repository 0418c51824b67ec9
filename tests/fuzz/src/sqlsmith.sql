-- The functions that sqlsmith sees. It reads `pg_proc` by the search_path, so the table below replaces the catalogue:
-- - The server's functions whose types xqueue's functions use too. Volatile functions are left out, because some end backends,
--   write files, promote or sleep.
-- - xqueue's functions twice, so sqlsmith chooses them often.
-- sqlsmith's constants are numbers and NULLs. Names of queues, options, ids and short times come from functions without
-- parameters and from the rows of a table.

-- Names are qualified, because public is not in sqlsmith's search_path.
SET LOCAL search_path = pg_catalog;

CREATE SCHEMA shield;
GRANT USAGE ON SCHEMA shield TO PUBLIC;

CREATE TABLE shield.samples (queue text, tube text, state text, options jsonb, task jsonb, wait interval, id bigint,
                             ids bigint[], names text[], session uuid, count integer, yes boolean);
INSERT INTO shield.samples
SELECT relation::text, (ARRAY['a', 'b', ''])[1 + n % 3], (ARRAY['R', 'T', 'W', 'B', 'Z', 'D'])[1 + n % 6], '{}',
       ('{"id": ' || n || '}')::jsonb, n * interval '1 ms', n, ARRAY[n, n + 1, NULL], ARRAY[n::text, 'a'],
       md5((n % 4)::text)::uuid, n, n % 2 = 0
FROM xqueue.queue, generate_series(1, 8) n;
GRANT SELECT ON shield.samples TO PUBLIC;

DO $$
DECLARE
    f record;
    n integer;
BEGIN
    FOR f IN SELECT relation::text AS name, row_number() OVER () AS n FROM xqueue.queue WHERE relation::text ~ '^public.[a-z_]+$' LOOP
        EXECUTE format('CREATE FUNCTION shield.queue_%s() RETURNS text IMMUTABLE LANGUAGE sql AS $f$ SELECT %L $f$', f.n, f.name);
        EXECUTE format('CREATE FUNCTION shield.row_of_%s() RETURNS %s LANGUAGE sql AS $f$ SELECT q FROM %2$s q LIMIT 1 $f$', f.n, f.name);
        EXECUTE format('CREATE FUNCTION shield.none_of_%s() RETURNS %s IMMUTABLE LANGUAGE sql AS $f$ SELECT NULL::%2$s $f$', f.n, f.name);
    END LOOP;
    FOR n IN 1..8 LOOP
        EXECUTE format('CREATE FUNCTION shield.wait_%1$s() RETURNS interval IMMUTABLE LANGUAGE sql AS $f$ SELECT interval ''%1$s ms'' $f$', n);
        EXECUTE format('CREATE FUNCTION shield.task_%1$s() RETURNS jsonb IMMUTABLE LANGUAGE sql AS $f$ SELECT ''{"id": %1$s}''::jsonb $f$', n);
        EXECUTE format('CREATE FUNCTION shield.id_%1$s() RETURNS bigint IMMUTABLE LANGUAGE sql AS $f$ SELECT %1$s::bigint $f$', n);
        EXECUTE format('CREATE FUNCTION shield.ids_%1$s() RETURNS bigint[] IMMUTABLE LANGUAGE sql AS $f$ SELECT ARRAY[%1$s, NULL, 7::bigint] $f$', n);
        EXECUTE format('CREATE FUNCTION shield.session_%1$s() RETURNS uuid IMMUTABLE LANGUAGE sql AS $f$ SELECT md5(''%1$s'')::uuid $f$', n % 4 + 10 * n);
    END LOOP;
    -- A function that returns a set is allowed in few expressions, so each gets a companion that returns its first row.
    FOR f IN SELECT p.oid, pronamespace::regnamespace AS schema, proname, format_type(prorettype, NULL) AS result,
                    (SELECT string_agg(format_type(t, NULL), ', ' ORDER BY i) FROM unnest(proargtypes) WITH ORDINALITY u(t, i)) AS given,
                    (SELECT string_agg('$' || i, ', ' ORDER BY i) FROM generate_series(1, pronargs) i) AS passed
             FROM pg_proc p WHERE pronamespace IN ('xqueue'::regnamespace, 'xqueue_internal'::regnamespace) AND proretset LOOP
        EXECUTE format('CREATE FUNCTION shield.%1$s_%2$s(%3$s) RETURNS %4$s LANGUAGE sql AS $f$ SELECT %6$s.%1$I(%5$s) LIMIT 1 $f$',
                       f.proname, f.oid, f.given, f.result, f.passed, f.schema);
    END LOOP;
END $$;

CREATE TABLE shield.pg_proc AS
WITH known AS (SELECT ARRAY['boolean', 'integer', 'bigint', 'numeric', 'text', 'jsonb', 'interval', 'timestamptz', 'uuid', 'regclass',
                            'record', 'anyelement', 'anyarray', 'anycompatible', 'anycompatiblearray', 'integer[]', 'bigint[]',
                            'text[]']::regtype[]::oid[] AS types)
SELECT p.oid, p.pronamespace, p.proname, p.proretset, p.prokind, p.proargtypes, p.prorettype
FROM pg_catalog.pg_proc p, known
WHERE p.pronamespace = 'pg_catalog'::regnamespace AND (p.provolatile <> 'v' OR p.prokind IN ('a', 'w'))
AND p.prorettype = ANY (types) AND p.proargtypes::oid[] <@ types
-- Only the server calls these functions, with internal values. Other callers get internal errors.
AND p.oid NOT IN (SELECT unnest(ARRAY[aggtransfn, aggfinalfn, aggcombinefn, aggmtransfn, aggminvtransfn, aggmfinalfn]::oid[])
                  FROM pg_aggregate)
AND NOT (p.prokind = 'f' AND EXISTS (SELECT FROM pg_cast WHERE castfunc = p.oid AND castsource = casttarget))
UNION ALL
SELECT (p.oid::bigint + 1000000 * n)::oid, p.pronamespace, p.proname, p.proretset AND n > 1, p.prokind, p.proargtypes, p.prorettype
FROM pg_catalog.pg_proc p, generate_series(1, 2) n
WHERE p.pronamespace IN ('xqueue'::regnamespace, 'xqueue_internal'::regnamespace, 'shield'::regnamespace) AND p.prokind = 'f';
CREATE INDEX ON shield.pg_proc (oid);
ANALYZE shield.pg_proc;
GRANT SELECT ON shield.pg_proc TO PUBLIC;

-- sqlsmith does not support the types anyrange and anymultirange, and calls their operators with other types. Most of its
-- statements would fail, so these operators are deleted.
DELETE FROM pg_catalog.pg_operator
WHERE oprleft IN ('anyrange'::regtype, 'anymultirange'::regtype) OR oprright IN ('anyrange'::regtype, 'anymultirange'::regtype);
