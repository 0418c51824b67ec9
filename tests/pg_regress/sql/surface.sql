-- Everything that users see of the extension. They rely on it, so each change here is a change for them.

-- Functions and procedures
SELECT p.proname AS function, pg_get_function_arguments(p.oid) AS arguments, pg_get_function_result(p.oid) AS result
FROM pg_proc p
WHERE p.pronamespace = 'xqueue'::regnamespace
ORDER BY p.proname COLLATE "C", pg_get_function_arguments(p.oid) COLLATE "C";

-- Internal functions, in a schema of the extension's own
SELECT p.proname AS function, pg_get_function_arguments(p.oid) AS arguments, pg_get_function_result(p.oid) AS result
FROM pg_proc p
WHERE p.pronamespace = 'xqueue_internal'::regnamespace
ORDER BY p.proname COLLATE "C", pg_get_function_arguments(p.oid) COLLATE "C";

-- Kind, volatility, strictness; every function acts with its caller's rights
SELECT p.prokind AS kind, p.provolatile AS volatile, p.proisstrict AS strict, p.prosecdef AS definer, l.lanname AS language,
       p.proparallel AS parallel, count(*), string_agg(DISTINCT p.proname COLLATE "C", ' ') AS functions
FROM pg_proc p
JOIN pg_language l ON l.oid = p.prolang
WHERE p.pronamespace IN ('xqueue'::regnamespace, 'xqueue_internal'::regnamespace)
GROUP BY 1, 2, 3, 4, 5, 6
ORDER BY 1, 2, 3, 4, 5, 6;

-- Tables and views
SELECT c.relname AS relation, c.relkind AS kind, a.attname AS column, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull AS "not null"
FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
WHERE c.relnamespace = 'xqueue'::regnamespace AND c.relkind IN ('r', 'v')
ORDER BY c.relname COLLATE "C", a.attnum;

-- Privileges: every role can read, only the owner can write
SELECT c.relname AS relation, string_agg(x.privilege_type, ' ' ORDER BY x.privilege_type COLLATE "C") AS public
FROM pg_class c
CROSS JOIN aclexplode(c.relacl) x
WHERE c.relnamespace = 'xqueue'::regnamespace AND c.relkind IN ('r', 'v') AND x.grantee = 0
GROUP BY 1
ORDER BY c.relname COLLATE "C";
SELECT n.nspname AS schema, x.privilege_type AS public
FROM pg_namespace n
CROSS JOIN aclexplode(n.nspacl) x
WHERE n.nspname IN ('xqueue', 'xqueue_internal') AND x.grantee = 0
ORDER BY n.nspname COLLATE "C";

-- Objects without a comment, and functions whose comment exceeds 200 characters: none
SELECT 'function' AS what, p.oid::regprocedure::text AS name
FROM pg_proc p
WHERE p.pronamespace IN ('xqueue'::regnamespace, 'xqueue_internal'::regnamespace)
    AND coalesce(length(obj_description(p.oid, 'pg_proc')), 0) NOT BETWEEN 1 AND 200
UNION ALL
SELECT 'relation', c.relname
FROM pg_class c
WHERE c.relnamespace = 'xqueue'::regnamespace AND c.relkind IN ('r', 'v') AND obj_description(c.oid, 'pg_class') IS NULL
UNION ALL
SELECT 'column', c.relname || '.' || a.attname
FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
WHERE c.relnamespace = 'xqueue'::regnamespace AND c.relkind IN ('r', 'v') AND col_description(c.oid, a.attnum) IS NULL
UNION ALL
SELECT 'index', i.indexrelid::regclass::text
FROM pg_index i
JOIN pg_class c ON c.oid = i.indrelid
WHERE c.relnamespace = 'xqueue'::regnamespace AND NOT i.indisprimary AND obj_description(i.indexrelid, 'pg_class') IS NULL
UNION ALL
SELECT 'trigger', t.tgname
FROM pg_trigger t
JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = 'xqueue'::regnamespace AND obj_description(t.oid, 'pg_trigger') IS NULL;

-- No object of the extension lies outside its schemas, and no other object lies in them
SELECT pg_describe_object(d.classid, d.objid, d.objsubid) AS "outside"
FROM pg_depend d
JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass
WHERE e.extname = 'xqueue' AND d.deptype = 'e' AND d.classid IN ('pg_proc'::regclass, 'pg_class'::regclass)
  AND NOT EXISTS (SELECT FROM pg_proc p WHERE d.classid = 'pg_proc'::regclass AND p.oid = d.objid
                  AND p.pronamespace IN ('xqueue'::regnamespace, 'xqueue_internal'::regnamespace))
  AND NOT EXISTS (SELECT FROM pg_class c WHERE d.classid = 'pg_class'::regclass AND c.oid = d.objid AND c.relnamespace = 'xqueue'::regnamespace);
SELECT p.oid::regprocedure AS "strangers"
FROM pg_proc p
WHERE p.pronamespace IN ('xqueue'::regnamespace, 'xqueue_internal'::regnamespace)
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e');

-- The registry is in a dump
SELECT unnest(extconfig)::regclass AS dumped FROM pg_extension WHERE extname = 'xqueue';

-- Settings
SELECT name, setting, unit, context, description FROM xqueue.settings ORDER BY name COLLATE "C";
SELECT name, boot_val, min_val, max_val, enumvals FROM pg_settings WHERE name LIKE 'xqueue.%' ORDER BY name COLLATE "C";
