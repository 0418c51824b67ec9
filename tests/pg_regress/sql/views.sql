-- What a DBA looks at.
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

SELECT * FROM xqueue.queues ORDER BY queue::text;
SELECT * FROM xqueue.definitions ORDER BY queue::text;
SELECT queue, pid = pg_backend_pid() AS mine, session = xqueue.identify() AS by_me, tasks FROM xqueue.taken ORDER BY queue::text;
SELECT queue, key, attempts, pid = pg_backend_pid() AS mine, application, client, deadline, session = xqueue.identify() AS by_me
  FROM xqueue.tasks_in_flight ORDER BY queue::text, key;
SELECT queue, call, tasks FROM xqueue.calls WHERE tasks > 0 ORDER BY queue::text, call;
SELECT pid IS NOT NULL AS runs, state, started < last_round AS has_been_round, lag < '10 s' AS in_time, error FROM xqueue.workers WHERE database = current_database();
SELECT queue, pid, state FROM xqueue.consumers;
SELECT queue, ready FROM xqueue.queues WHERE queue = 'jobs'::regclass;

-- The uuid of a session begins with its PID
SELECT ('x' || left(xqueue.identify()::text, 8))::bit(32)::int = pg_backend_pid() AS pid;
SELECT xqueue.identify() = xqueue.identify() AS same;

-- A session ends, another begins: its tasks are ready again
SELECT xqueue.identify() AS before \gset
DISCARD ALL;
SELECT xqueue.identify() <> :'before' AS another;
DO $$
BEGIN
    WHILE EXISTS (SELECT FROM xqueue.taken) LOOP
        PERFORM pg_sleep(0.01);
    END LOOP;
END
$$;
SELECT id, status, owner FROM jobs WHERE id < 4 ORDER BY id;
SELECT xqueue.stats('jobs')->'calls'->'session' AS given_back;
SELECT queue, ready, taken FROM xqueue.queues ORDER BY queue::text;
SELECT xqueue.check('jobs');
SELECT xqueue.check(NULL::"Other".jobs);

-- Gone with the table
DROP SCHEMA "Other" CASCADE;
SELECT queue FROM xqueue.queues;
SELECT xqueue.downgrade('jobs');
SELECT queue FROM xqueue.queues;
SELECT relation FROM xqueue.queue JOIN pg_class c ON c.oid = relation;
DROP TABLE jobs;
