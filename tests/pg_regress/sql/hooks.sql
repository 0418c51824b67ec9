-- on_task_change: a user's function sees every change of a task.
\set SHOW_CONTEXT never
\set code '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
CREATE SCHEMA app;
CREATE TABLE app.journal (no int GENERATED ALWAYS AS IDENTITY, id int, status text, event text);
CREATE FUNCTION app.changed(task jsonb, event text) RETURNS void LANGUAGE sql
AS $$ INSERT INTO app.journal (id, status, event) VALUES ((task->>'id')::int, task->>'status', event) $$;
CREATE TABLE jobs (id int PRIMARY KEY, note text);
SET search_path = app, public;
SELECT xqueue.upgrade('jobs', '{"features": {"on_task_change": "changed", "delayed": true, "buried": true, "keep": true, "ttr": true, "ttl": true, "tube": true, "retry": {"limit": 3}}}')->'features'->'on_task_change' AS hook;
RESET search_path;

-- The event of each change
SELECT count(*) FROM xqueue.put(NULL::jobs, '[{"id": 1}, {"id": 2}, {"id": 3}]');
SELECT id FROM xqueue.take(NULL::jobs, count => 2);
SELECT id FROM xqueue.touch(NULL::jobs, 1, '1 s');
SELECT id FROM xqueue.release(NULL::jobs, 1, '{"note": "again"}');
SELECT id FROM xqueue.bury(NULL::jobs, 2);
SELECT id FROM xqueue.plow(NULL::jobs);
SELECT id FROM xqueue.take(NULL::jobs);
SELECT id FROM xqueue.snatch(NULL::jobs, 1);
SELECT id FROM xqueue.switch(NULL::jobs, 1, 'W', '1 hour');
SELECT id FROM xqueue.restart(NULL::jobs, 1);
SELECT id FROM xqueue.take(NULL::jobs);
SELECT id FROM xqueue.release(NULL::jobs, 1);
SELECT id FROM xqueue.take(NULL::jobs);
SELECT id FROM xqueue.release(NULL::jobs, 1);
SELECT id FROM xqueue.dig(NULL::jobs, 1);
SELECT id FROM xqueue.take(NULL::jobs);
SELECT id FROM xqueue.ack(NULL::jobs, 1);
SELECT id FROM xqueue.delete(NULL::jobs, 1);
SELECT no, id, status, event FROM app.journal ORDER BY no;
TRUNCATE app.journal;

-- By the worker, and by hand
SELECT id FROM xqueue.take(NULL::jobs, ttr => '10 ms');
SELECT until('EXISTS (SELECT FROM app.journal WHERE event = ''ttr'')');
SELECT id, status FROM xqueue.switch(NULL::jobs, 2, 'W', '10 ms');
SELECT until('EXISTS (SELECT FROM app.journal WHERE event = ''delay'')');
INSERT INTO jobs VALUES (4);
UPDATE jobs SET tube = 'a' WHERE id = 4;
UPDATE jobs SET note = 'no change of the task' WHERE id = 4;
INSERT INTO jobs VALUES (4) ON CONFLICT (id) DO UPDATE SET tube = 'b';
UPDATE jobs SET status = 'B' WHERE id = 4;
UPDATE jobs SET status = 'R' WHERE id = 4;
DELETE FROM jobs WHERE id = 4;
SELECT id, status, event FROM app.journal ORDER BY no;
TRUNCATE app.journal;

-- A rollback undoes the function's work, and the function's error the change
BEGIN;
SELECT id FROM xqueue.take(NULL::jobs);
ROLLBACK;
SELECT count(*) FROM app.journal;
CREATE OR REPLACE FUNCTION app.changed(task jsonb, event text) RETURNS void LANGUAGE plpgsql
AS $$ BEGIN IF event = 'ack' THEN RAISE EXCEPTION 'no ack of %', task->'id' USING HINT = 'So says the user''s function.'; END IF; END $$;
SELECT id FROM xqueue.take(NULL::jobs);
SELECT xqueue.ack('jobs', 2); :code
SELECT id, status FROM jobs ORDER BY id;
SELECT xqueue.check('jobs') - 'mark' - 'buried_mark' AS "check";
-- a function that puts a task of another queue
CREATE TABLE others (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "from" int);
SELECT xqueue.upgrade('others')->'queue' AS queue;
CREATE OR REPLACE FUNCTION app.changed(task jsonb, event text) RETURNS void LANGUAGE sql
AS $$ SELECT xqueue.put('others', jsonb_build_object('from', task->'id')) $$;
SELECT id FROM xqueue.ack(NULL::jobs, 2);
SELECT id, "from", status FROM others;
SELECT xqueue.stats('others')->'transitions' AS transitions, xqueue.stats('others')->'calls'->'ack' AS ack;
SELECT xqueue.check('others');

-- Switched off; functions that are refused
SELECT xqueue.upgrade('jobs', '{"features": {"on_task_change": false}}')->'features'->'on_task_change' AS hook;
SELECT id FROM xqueue.take(NULL::jobs);
SELECT count(*) FROM others;
SELECT xqueue.upgrade('jobs', '{"features": {"on_task_change": "app.no_such"}}'); :code
CREATE FUNCTION pg_temp.seen(task jsonb, event text) RETURNS void LANGUAGE sql AS 'SELECT';
SELECT xqueue.upgrade('jobs', '{"features": {"on_task_change": "pg_temp.seen"}}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"on_task_change": "pg_catalog.pg_sleep"}}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"on_task_change": "a.b.c.d"}}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"on_task_change": ""}}'); :code
SELECT xqueue.check('jobs') - 'mark' - 'buried_mark' AS "check";
DROP TABLE jobs, others;
-- The error names a function that was dropped
CREATE TABLE jobs (id int PRIMARY KEY);
SELECT xqueue.upgrade('jobs', '{"features": {"on_task_change": "app.changed"}}')->'features'->'on_task_change' AS hook;
SET client_min_messages = warning;
DROP SCHEMA app CASCADE;
SELECT xqueue.put('jobs', '{"id": 1}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"on_task_change": false}}')->'features'->'on_task_change' AS hook;
SELECT id, status FROM xqueue.put(NULL::jobs, '{"id": 1}');
SELECT xqueue.check('jobs') - 'mark' - 'buried_mark' AS "check";
DROP TABLE jobs;
