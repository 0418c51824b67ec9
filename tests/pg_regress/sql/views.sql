-- Views for administrators.
CREATE TABLE jobs (id int PRIMARY KEY, payload text);
SELECT xqueue.upgrade('jobs', '{"features": {"delayed": true}}')->'queue' AS queue;
CREATE SCHEMA "Other";
CREATE TABLE "Other".jobs (region text, no int, PRIMARY KEY (region, no));
SELECT xqueue.upgrade('"Other".jobs', '{"features": {"delayed": true}}')->'queue' AS queue;
SELECT id FROM xqueue.put(NULL::jobs, '[{"id": 1}, {"id": 2}, {"id": 3}]');
SELECT id FROM xqueue.put(NULL::jobs, '{"id": 4}', '1 day');
INSERT INTO jobs (id, status) VALUES (5, 'B'), (6, 'Z'), (7, 'D');
SELECT no FROM xqueue.put(NULL::"Other".jobs, '{"region": "a", "no": 1}');
SELECT id FROM xqueue.take(NULL::jobs, count => 2);
SELECT no FROM xqueue.take(NULL::"Other".jobs);

SELECT queue, ready, taken, waiting, buried, oldest_ready >= '0' AS has_age, in_1m, out_1m, consumers, error FROM xqueue.queues ORDER BY queue::text;
SELECT * FROM xqueue.definitions ORDER BY queue::text;
SELECT queue, pid = pg_backend_pid() AS mine, session = xqueue.identify() AS by_me, tasks FROM xqueue.taken ORDER BY queue::text;
SELECT queue, key, attempts, pid = pg_backend_pid() AS mine, application, client, taken_for >= '0' AS has_age, time_left, session
  FROM xqueue.tasks_in_flight ORDER BY queue::text, key;
SELECT queue, call, tasks FROM xqueue.calls WHERE tasks > 0 ORDER BY queue::text, call;
SELECT pid IS NOT NULL AS runs, state, since_round <= uptime AS has_been_round, lag < '10 s' AS in_time, error FROM xqueue.workers WHERE database = current_database();
SELECT queue, taken, wait_p50 <= wait_p99 AS waited, acked, work_p50 FROM xqueue.latency ORDER BY queue::text;
SELECT m.queue, name, count(*), sum(value) FROM xqueue.metric, LATERAL (SELECT labels->>'queue' AS queue) AS m
 WHERE name IN ('xqueue_tasks', 'xqueue_calls_total', 'xqueue_wait_seconds_count', 'xqueue_work_seconds_count', 'xqueue_exact', 'xqueue_error')
 GROUP BY m.queue, name ORDER BY m.queue COLLATE "C", name COLLATE "C";
SELECT name, value FROM xqueue.metric WHERE name = 'xqueue_worker_up';
SELECT queue, pid, state FROM xqueue.consumers;
SELECT queue, ready FROM xqueue.queues WHERE queue = 'jobs'::regclass;

-- The uuid of a session begins with its PID
SELECT ('x' || left(xqueue.identify()::text, 8))::bit(32)::int = pg_backend_pid() AS pid;
SELECT xqueue.identify() = xqueue.identify() AS same;

-- A task with a time to run that an identified session has taken
CREATE TABLE timed (id int PRIMARY KEY);
SELECT xqueue.upgrade('timed', '{"features": {"ttr": "1 hour"}}')->'queue' AS queue;
INSERT INTO timed VALUES (1);
SELECT xqueue.identify(grace => '1 min', local => true) AS shared \gset
BEGIN;
SELECT xqueue.identify(:'shared', local => true) IS NOT NULL AS joined;
SELECT id FROM xqueue.take(NULL::timed);
SELECT queue, key, pid = pg_backend_pid() AS mine, time_left BETWEEN '50 min' AND '1 hour' AS in_time, session = :'shared' AS shared
  FROM xqueue.tasks_in_flight WHERE queue = 'timed'::regclass;
-- Deadlines at infinity and at minus infinity
UPDATE timed SET runat = 'infinity';
SELECT key, time_left > '200000 years' AS for_ever FROM xqueue.tasks_in_flight WHERE queue = 'timed'::regclass;
UPDATE timed SET runat = '-infinity';
SELECT key, time_left < '-200000 years' AS since_ever FROM xqueue.tasks_in_flight WHERE queue = 'timed'::regclass;
SELECT id FROM xqueue.ack(NULL::timed, 1);
COMMIT;
DROP TABLE timed;

-- A session ends and another begins: the first one's tasks are ready again
SELECT xqueue.identify() AS before \gset
DISCARD ALL;
SELECT xqueue.identify() <> :'before' AS another;
SELECT until('NOT EXISTS (SELECT FROM xqueue.taken)');
SELECT id, status, owner FROM jobs WHERE id < 4 ORDER BY id;
SELECT xqueue.stats('jobs')->'calls'->'session' AS given_back;
SELECT queue, ready, taken FROM xqueue.queues ORDER BY queue::text;
SELECT xqueue.check('jobs');
SELECT xqueue.check(NULL::"Other".jobs);

-- Quantiles of tasks taken and acked by triggers, by the direct path and in one statement
SELECT count(*) FROM xqueue.take(NULL::jobs, count => 2);
SELECT count(*) FROM xqueue.ack(NULL::jobs, '[1, 2]'::jsonb);
SELECT count(*) FROM xqueue.put(NULL::jobs, (SELECT jsonb_agg(jsonb_build_object('id', n)) FROM generate_series(100, 199) n));
SELECT count(*) FROM xqueue.take(NULL::jobs, count => 101);
SELECT count(*) FROM xqueue.ack(NULL::jobs, (SELECT jsonb_agg(n) FROM generate_series(100, 199) n));
SELECT taken, wait_p50 IS NOT NULL AS waited, acked, work_p50 IS NOT NULL AS worked FROM xqueue.latency WHERE queue = 'jobs'::regclass;
SELECT ready, taken, oldest_ready, in_1m, out_1m FROM xqueue.queues WHERE queue = 'jobs'::regclass;
SELECT xqueue.stats_reset('jobs');
SELECT taken, wait_p50, acked, work_p50 FROM xqueue.latency WHERE queue = 'jobs'::regclass;

-- A dropped queue leaves the views
DROP SCHEMA "Other" CASCADE;
SELECT queue FROM xqueue.queues;
SELECT xqueue.downgrade('jobs');
SELECT queue FROM xqueue.queues;
SELECT relation FROM xqueue.queue JOIN pg_class c ON c.oid = relation;
DROP TABLE jobs;
