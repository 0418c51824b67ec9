-- Prints all catalogue entries of the extension as lines of text. They must be equal after an update and a new installation.

CREATE FUNCTION pg_temp.rights(acl aclitem[]) RETURNS text LANGUAGE sql
    AS $$ SELECT coalesce((SELECT string_agg(a::text, ' ' ORDER BY a::text) FROM unnest(acl) AS a), '-') $$;

CREATE TEMP VIEW members AS
SELECT classid, objid FROM pg_depend
WHERE deptype = 'e' AND refclassid = 'pg_extension'::regclass
AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'xqueue');

CREATE TEMP VIEW relations AS
SELECT c.* FROM members m JOIN pg_class c ON m.classid = 'pg_class'::regclass AND m.objid = c.oid;

SELECT line FROM (
    SELECT format('member: %s, described as %s', pg_describe_object(classid, objid, 0),
                  obj_description(objid, classid::regclass::name)) AS line
    FROM members
    UNION ALL
    SELECT format('function: %s rights %s', pg_get_functiondef(p.oid), pg_temp.rights(p.proacl))
    FROM members m JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid
    UNION ALL
    SELECT format('relation: %s %s %s rights %s', oid::regclass, relkind, reloptions, pg_temp.rights(relacl)) FROM relations
    UNION ALL
    SELECT format('column: %s %s %s %s not null %s default %s rights %s, described as %s', r.oid::regclass, attnum, attname,
                  format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid), pg_temp.rights(attacl),
                  col_description(r.oid, attnum))
    FROM relations r JOIN pg_attribute a ON a.attrelid = r.oid AND attnum > 0
    LEFT JOIN pg_attrdef d ON d.adrelid = r.oid AND d.adnum = attnum
    UNION ALL
    SELECT format('view: %s %s', oid::regclass, pg_get_viewdef(oid)) FROM relations WHERE relkind = 'v'
    UNION ALL
    SELECT format('constraint: %s %s', conname, pg_get_constraintdef(c.oid)) FROM relations r JOIN pg_constraint c ON conrelid = r.oid
    UNION ALL
    SELECT format('index: %s', pg_get_indexdef(indexrelid)) FROM relations r JOIN pg_index ON indrelid = r.oid
    UNION ALL
    SELECT format('trigger: %s enabled %s, described as %s', pg_get_triggerdef(t.oid), tgenabled, obj_description(t.oid, 'pg_trigger'))
    FROM relations r JOIN pg_trigger t ON tgrelid = r.oid AND NOT tgisinternal
    UNION ALL
    SELECT format('first rights: %s %s %s', pg_describe_object(i.classoid, i.objoid, i.objsubid), privtype, pg_temp.rights(initprivs))
    FROM members m JOIN pg_init_privs i ON i.classoid = m.classid AND i.objoid = m.objid
    UNION ALL
    SELECT format('extension: %s %s dumps %s %s', extversion, extnamespace::regnamespace, u.t::regclass, u.c)
    FROM pg_extension, unnest(extconfig, extcondition) AS u (t, c) WHERE extname = 'xqueue'
) AS lines ORDER BY line COLLATE "C";
