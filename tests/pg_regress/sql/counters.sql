-- stats: exact after the end of a transaction, no matter how it changed the table.
\set SHOW_CONTEXT never
CREATE TABLE jobs (id int PRIMARY KEY, payload text);
SELECT xqueue.upgrade('jobs', '{"features": {"delayed": true}}')->'queue' AS queue;
PREPARE tasks AS SELECT t.ready, t.taken, t.waiting, t.buried, t.zombie, t.done, t.total, s->'exact' AS exact
FROM xqueue.stats('jobs') s, jsonb_to_record(s->'tasks') AS t (ready int, taken int, waiting int, buried int, zombie int, done int, total int);
EXECUTE tasks;

INSERT INTO jobs SELECT n FROM generate_series(1, 5) n;
EXECUTE tasks;
COPY jobs (id, status) FROM stdin;
6	R
7	B
8	D
\.
EXECUTE tasks;
INSERT INTO jobs VALUES (8), (9) ON CONFLICT DO NOTHING;
EXECUTE tasks;
INSERT INTO jobs VALUES (8, 'x'), (10, 'x') ON CONFLICT (id) DO UPDATE SET status = 'R', payload = excluded.payload;
EXECUTE tasks;
UPDATE jobs SET payload = 'y';
EXECUTE tasks;
MERGE INTO jobs j USING (VALUES (7), (8), (20)) AS v (id) ON j.id = v.id
WHEN MATCHED AND v.id = 7 THEN UPDATE SET status = 'R'
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED THEN INSERT (id, status) VALUES (v.id, 'B');
EXECUTE tasks;
DELETE FROM jobs WHERE id IN (7, 10, 20);
EXECUTE tasks;

-- TRUNCATE, and later changes of the same transaction
BEGIN;
TRUNCATE jobs;
INSERT INTO jobs VALUES (1), (2);
SAVEPOINT a;
TRUNCATE jobs;
ROLLBACK TO a;
COMMIT;
EXECUTE tasks;
SELECT xqueue.check('jobs');

-- replicas: ordinary triggers would not fire
SET session_replication_role = replica;
INSERT INTO jobs VALUES (3);
RESET session_replication_role;
EXECUTE tasks;

-- calls: only those that were committed
SELECT id FROM xqueue.put(NULL::jobs, '[{"id": 4}, {"id": 5}]');
SELECT count(*) FROM xqueue.take(NULL::jobs, count => 4);
SELECT count(*) FROM xqueue.ack(NULL::jobs, '{1,2}');
SELECT count(*) FROM xqueue.release(NULL::jobs, 3);
SELECT count(*) FROM xqueue.release(NULL::jobs, 4, delay => '1 day');
BEGIN;
SELECT count(*) FROM xqueue.take(NULL::jobs, count => 10);
ROLLBACK;
EXECUTE tasks;
SELECT c.take, c.ack, c.release, c.delay, c.session
FROM xqueue.stats(NULL::jobs) s, jsonb_to_record(s->'calls') AS c (put int, take int, ack int, release int, delay int, session int);

-- the delay ends
UPDATE jobs SET runat = now() WHERE status = 'W';
SELECT until($$xqueue.stats('jobs')->'tasks'->'waiting' = '0'$$);
EXECUTE tasks;
SELECT xqueue.stats('jobs')->'calls'->'delay' AS promoted;
SELECT id, status, runat FROM jobs ORDER BY id;
SELECT xqueue.check('jobs');

-- all queues
SELECT xqueue.create('other')->'queue' AS queue;
SELECT s->>'queue' AS queue, s->'tasks'->'total' AS total FROM xqueue.stats() s ORDER BY 1;
DROP TABLE jobs;
SELECT s->>'queue' AS queue FROM xqueue.stats() s;
INSERT INTO other (payload) VALUES ('1'), ('2');
SELECT line FROM regexp_split_to_table(regexp_replace(xqueue.metrics(), 'database="[^"]*",', '', 'g'), '\n') WITH ORDINALITY AS m(line, place)
WHERE line !~ 'call="(?!put)' AND line !~ 'schema="(?!public)' AND line !~ '_bucket.*le="[013]' AND line !~ '^xqueue_(wait_seconds_sum|work_seconds_sum|oldest_ready_seconds|worker_lag_seconds)' ORDER BY place;
SELECT xqueue.drop('other');
SELECT count(*) FROM xqueue.stats();
