-- tasks_by_state, stats of a task, release_all, take of given tasks, pause, resume, stats_reset, and a queue's own picks.
\set SHOW_CONTEXT never
\set code '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
CREATE TABLE jobs (id int PRIMARY KEY, note text);
SELECT xqueue.upgrade('jobs', '{"features": {"delayed": true, "buried": true, "priority": true, "retry": true, "tube": true}}')->'fields' AS fields;
SELECT id, priority FROM xqueue.put(NULL::jobs, '[{"id": 1, "priority": 2}, {"id": 2, "tube": "a"}, {"id": 3}, {"id": 4}, {"id": 5}, {"id": 6}]');

-- tasks_by_state: in the order in which they leave the state
SELECT id FROM xqueue.tasks_by_state(NULL::jobs, 'R');
SELECT xqueue.tasks_by_state('jobs', 'ready', 1);
SELECT id, status FROM xqueue.switch(NULL::jobs, 5, 'W', '2 hours');
SELECT id, status FROM xqueue.switch(NULL::jobs, 6, 'W', '1 hour');
SELECT id FROM xqueue.tasks_by_state(NULL::jobs, 'waiting', count => 5);
SELECT id FROM xqueue.tasks_by_state(NULL::jobs, 'W', 1);
SELECT id FROM xqueue.tasks_by_state(NULL::jobs, 'done');
SELECT xqueue.tasks_by_state('jobs', 'lost'); :code
SELECT xqueue.tasks_by_state('jobs', 'R', -1); :code

-- take of given tasks
SELECT id, status, attempts, runat FROM xqueue.take(NULL::jobs, id => 5);
SELECT xqueue.take('jobs', id => 5);
SELECT xqueue.take('jobs', id => 99);
SELECT id FROM xqueue.take(NULL::jobs, id => ARRAY[4, 5, 3]);
SELECT xqueue.take('jobs', id => 2, tube => 'b');
SELECT id FROM xqueue.take(NULL::jobs, tube => 'a', id => '2');
SELECT xqueue.take('jobs', '1 s', id => 1); :code
SELECT xqueue.take('jobs', count => 2, id => 1); :code
SELECT xqueue.take('jobs', id => 1, ttr => '1 s'); :code

-- stats of single tasks
SELECT jsonb_object_agg(name, CASE WHEN name IN ('pid', 'session', 'time_left') THEN to_jsonb(value IS NOT NULL) ELSE value END)
FROM xqueue.stats('jobs', 5) AS known, jsonb_each(known) AS member(name, value);
SELECT xqueue.stats(NULL::jobs, ARRAY[1, 99]);

-- release_all: all taken tasks are ready again
SELECT xqueue.release_all('jobs');
SELECT xqueue.release_all(NULL::jobs);
SELECT id, status, attempts, owner FROM jobs ORDER BY id;
SELECT xqueue.ack('jobs', 4); :code

-- stats_reset: the counters of calls start at zero
SELECT calls->>'put' AS put, calls->>'take' AS take, calls->>'snatch' AS snatch, transitions FROM jsonb_to_record(xqueue.stats('jobs')) AS s(calls jsonb, transitions jsonb);
SELECT xqueue.stats_reset('jobs');
SELECT calls->>'put' AS put, calls->>'take' AS take, calls->>'snatch' AS snatch, transitions FROM jsonb_to_record(xqueue.stats('jobs')) AS s(calls jsonb, transitions jsonb);
SELECT xqueue.stats('jobs')->'tasks'->'total' AS total;

-- pause
SELECT xqueue.pause('jobs');
SELECT queue, paused_until FROM xqueue.definitions WHERE queue = 'jobs'::regclass;
SELECT xqueue.stats('jobs')->'paused_until' AS paused_until;
SELECT xqueue.take('jobs');
SELECT xqueue.take('jobs', '10 ms');
SELECT xqueue.take('jobs', id => 1);
SELECT xqueue.resume('jobs');
SELECT paused_until FROM xqueue.definitions WHERE queue = 'jobs'::regclass;
SELECT xqueue.pause(NULL::jobs, '1 hour');
SELECT paused_until > now() + '59 min'::interval AS paused FROM xqueue.definitions WHERE queue = 'jobs'::regclass;
SELECT xqueue.resume(NULL::jobs);
SELECT xqueue.pause('jobs', '-1 s'); :code

-- the queue's own function picks the tasks
CREATE FUNCTION last_first(count integer) RETURNS SETOF integer LANGUAGE sql SET search_path FROM CURRENT
AS $$ SELECT id FROM jobs WHERE status = 'R' ORDER BY id DESC LIMIT count $$;
SELECT xqueue.upgrade('jobs', '{"features": {"pick": "last_first"}}')->'features'->'pick' AS pick;
SELECT id FROM xqueue.take(NULL::jobs, count => 2);
SELECT xqueue.upgrade('jobs', jsonb_build_object('features', xqueue.upgrade('jobs')->'features'))->'features'->'pick' AS "given again";
SELECT xqueue.upgrade('jobs', '{"features": {"pick": "nobody"}}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"pick": true}}'); :code
CREATE OR REPLACE FUNCTION last_first(count integer) RETURNS SETOF integer LANGUAGE plpgsql
AS $$ BEGIN RAISE EXCEPTION 'out of order'; END $$;
SELECT xqueue.take('jobs'); :code
DROP FUNCTION last_first;
SELECT xqueue.take('jobs'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"pick": false}}')->'features'->'pick' AS pick;
SELECT id FROM xqueue.take(NULL::jobs);

BEGIN READ ONLY;
SELECT xqueue.pause('jobs'); :code
ROLLBACK;
SELECT xqueue.release_all('jobs') > 0 AS released;
SELECT xqueue.check('jobs')->'ok' AS ok;
DROP TABLE jobs;
