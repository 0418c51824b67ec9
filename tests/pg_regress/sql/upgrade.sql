-- A table becomes a queue, changes as a queue, and is a table again.
\set SHOW_CONTEXT never
\set code '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
SET client_min_messages = warning;
CREATE VIEW pg_temp.parts AS
SELECT c.oid::regclass AS of, 'column' AS part, format('%s %s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
           CASE WHEN a.attnotnull THEN ' NOT NULL' END, ' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid)) AS definition
FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
UNION ALL
SELECT indrelid::regclass, 'index', pg_get_indexdef(indexrelid) FROM pg_index
UNION ALL
SELECT tgrelid::regclass, 'trigger', format('%s (%s)', pg_get_triggerdef(oid), tgenabled) FROM pg_trigger WHERE NOT tgisinternal;

CREATE TABLE jobs (id bigint PRIMARY KEY, payload jsonb);
INSERT INTO jobs SELECT n, jsonb_build_object('n', n) FROM generate_series(1, 3) n;

-- A dry run shows everything and does nothing
SELECT jsonb_array_elements_text(xqueue.upgrade('jobs', dry_run => true)->'ddl') AS ddl;
SELECT xqueue.upgrade('jobs', dry_run => true)->'definition' AS definition;
SELECT part, definition FROM pg_temp.parts WHERE of = 'jobs'::regclass ORDER BY part, definition COLLATE "C";
SELECT count(*) FROM xqueue.queue WHERE relation = 'jobs'::regclass;

-- The upgrade does what the dry run has shown
SELECT xqueue.upgrade('jobs');
SELECT part, definition FROM pg_temp.parts WHERE of = 'jobs'::regclass ORDER BY part, definition COLLATE "C";
SELECT xqueue.stats('jobs')->'tasks' AS tasks;
SELECT * FROM jobs ORDER BY id;

-- A second time, in both forms: nothing to do
SELECT xqueue.upgrade('jobs', dry_run => true)->'ddl' AS ddl;
SELECT xqueue.upgrade('jobs') = xqueue.upgrade(NULL::jobs) AS same;
SELECT xqueue.upgrade(j, dry_run => true)->'ddl' AS ddl FROM jobs j LIMIT 1;

-- Another feature: the rest stays
SELECT jsonb_array_elements_text(xqueue.upgrade('jobs', '{"features": {"delayed": true}}', true)->'ddl') AS ddl;
SELECT xqueue.upgrade('jobs', '{"features": {"delayed": true}}');
SELECT xqueue.upgrade('jobs') = xqueue.upgrade('jobs', '{"features": {"delayed": true}}') AS same;
SELECT part, definition FROM pg_temp.parts WHERE of = 'jobs'::regclass ORDER BY part, definition COLLATE "C";

-- A feature cannot go while a task waits; afterwards its index goes, and its column stays
SELECT xqueue.put('jobs', '{"id": 4}', '1 day') - 'runat' AS put;
SELECT xqueue.upgrade('jobs', '{"features": {"delayed": false}}'); :code
UPDATE jobs SET status = 'R', runat = NULL WHERE id = 4;
SELECT jsonb_array_elements_text(xqueue.upgrade('jobs', '{"features": {"delayed": false}}', true)->'ddl') AS ddl;
SELECT xqueue.upgrade('jobs', '{"features": {"delayed": false}}');
SELECT part, definition FROM pg_temp.parts WHERE of = 'jobs'::regclass ORDER BY part, definition COLLATE "C";
-- the column is used again
SELECT jsonb_array_elements_text(xqueue.upgrade('jobs', '{"features": {"delayed": true}}', true)->'ddl') AS ddl;
SELECT xqueue.upgrade('jobs', '{"features": {"delayed": true}}')->'fields' AS fields;

-- Options that a live queue cannot change
SELECT xqueue.upgrade('jobs', '{"states": {"R": "ready"}}'); :code
ALTER TABLE jobs ADD COLUMN other "char";
SELECT xqueue.upgrade('jobs', '{"fields": {"status": "other"}}'); :code
ALTER TABLE jobs DROP COLUMN other;

-- check finds a missing trigger and a missing index, and upgrade makes them again
DROP INDEX xqueue_jobs_ready_idx; :code
DELETE FROM pg_depend WHERE classid = 'pg_trigger'::regclass AND refobjid = 'xqueue_jobs_ready_idx'::regclass;
DROP INDEX xqueue_jobs_ready_idx;
DROP TRIGGER xqueue_delete ON jobs;
ALTER TABLE jobs ENABLE TRIGGER xqueue_insert;
SELECT jsonb_array_elements_text(xqueue.upgrade('jobs', dry_run => true)->'ddl') AS ddl;
SELECT jsonb_pretty(xqueue.check('jobs'));
SELECT xqueue.upgrade('jobs')->'queue' AS queue;
SELECT xqueue.check('jobs');

-- Renamed, it is the same queue
ALTER TABLE jobs RENAME TO work;
ALTER TABLE work RENAME COLUMN status TO "Status";
SELECT xqueue.upgrade('work')->'fields' AS fields;
SELECT xqueue.take('work') - 'owner' AS taken;
SELECT xqueue.ack('work', 1) - 'owner' AS acked;

-- The queue becomes a table; its columns stay, or go
SELECT xqueue.downgrade('work');
SELECT part, definition FROM pg_temp.parts WHERE of = 'work'::regclass ORDER BY part, definition COLLATE "C";
SELECT xqueue.take('work'); :code
SELECT xqueue.downgrade('work'); :code
SELECT xqueue.upgrade('work'); :code
SELECT xqueue.upgrade('work', '{"fields": {"status": "Status", "owner": "owner"}}')->'fields' AS fields;
SELECT xqueue.downgrade(NULL::work, drop_columns => true);
SELECT part, definition FROM pg_temp.parts WHERE of = 'work'::regclass ORDER BY part, definition COLLATE "C";
DROP TABLE work;
SELECT count(*) FROM xqueue.queues;

-- An existing index is used, no matter its name; an index that almost fits is not
CREATE TABLE indexed (id int PRIMARY KEY, state text NOT NULL DEFAULT 'R', holder uuid);
CREATE INDEX mine ON indexed (id) WHERE state = 'R';
CREATE INDEX other_order ON indexed (holder DESC) WHERE state = 'T';
CREATE INDEX other_state ON indexed (holder) WHERE state = 'R';
SELECT jsonb_array_elements_text(xqueue.upgrade('indexed', '{"fields": {"status": "state", "owner": "holder"}}', true)->'ddl') AS ddl;
CREATE INDEX "also mine" ON indexed (holder) WHERE state = 'T';
SELECT jsonb_array_elements_text(xqueue.upgrade('indexed', '{"fields": {"status": "state", "owner": "holder"}}', true)->'ddl') AS ddl;
SELECT xqueue.upgrade('indexed', '{"fields": {"status": "state", "owner": "holder"}}');
-- downgrade does not drop it
SELECT xqueue.downgrade('indexed', true);
SELECT part, definition FROM pg_temp.parts WHERE of = 'indexed'::regclass ORDER BY part, definition COLLATE "C";
DROP TABLE indexed;

-- An existing column that the options do not name is the user's own
CREATE TABLE own (id int PRIMARY KEY, owner int, runat date);
SELECT xqueue.upgrade('own'); :code
SELECT xqueue.upgrade('own', '{"fields": {"owner": "owner"}}'); :code
SELECT xqueue.upgrade('own', '{"fields": {"owner": "taken_by"}}')->'fields' AS fields;
SELECT xqueue.upgrade('own', '{"features": {"delayed": true}, "fields": {"runat": "start_at"}}')->'fields' AS fields;
DROP TABLE own;

-- create and drop
SELECT xqueue.create('made');
SELECT part, definition FROM pg_temp.parts WHERE of = 'made'::regclass ORDER BY part, definition COLLATE "C";
SELECT xqueue.create('made'); :code
SELECT xqueue.create('made', '{"features": {"delayed": true}}', if_not_exists => true)->'features' AS features;
SELECT xqueue.put('made', '{"payload": [1]}');
SELECT xqueue.take('made') - 'owner' AS taken;
SELECT xqueue.drop('made'); :code
SELECT xqueue.release('made', 1);
SELECT xqueue.drop('made');
SELECT to_regclass('made');
SELECT xqueue.create('public.quick', temporary => true)->'queue' AS queue;
SELECT relpersistence FROM pg_class WHERE oid = 'quick'::regclass;
SELECT xqueue.drop(NULL::quick);
CREATE TABLE plain (id int PRIMARY KEY);
SELECT xqueue.create('plain', if_not_exists => true); :code
SELECT xqueue.drop('plain'); :code
DROP TABLE plain;
