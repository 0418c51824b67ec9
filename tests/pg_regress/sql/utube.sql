-- utube: each sub-queue has at most one task in flight.
\set SHOW_CONTEXT never
\set code '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'

-- In order within a sub-queue, in turns between them
SELECT xqueue.create('jobs', '{"features": {"utube": true, "delayed": true, "buried": true}}')->'fields' AS fields;
SELECT indexdef FROM pg_indexes WHERE tablename = 'jobs' ORDER BY indexname;
SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = 'jobs'::regclass AND tgname = 'xqueue_update';
SELECT id, tube FROM xqueue.put(NULL::jobs, '[{"tube": "a"}, {"tube": "a"}, {"tube": "b"}, {"tube": null}, {}]');
SELECT id, tube FROM xqueue.put(NULL::jobs, '{}', tube => 'b');
SELECT id, tube FROM xqueue.take(NULL::jobs, count => 2);
SELECT id, tube FROM xqueue.take(NULL::jobs, count => 9);
SELECT id, tube FROM xqueue.take(NULL::jobs, count => 9);
SELECT id, tube FROM xqueue.take(NULL::jobs, tube => 'a');
SELECT id FROM xqueue.ack(NULL::jobs, '{1,3,4}');
SELECT id, tube FROM xqueue.take(NULL::jobs, tube => 'b');
SELECT id, tube FROM xqueue.take(NULL::jobs);
SELECT id FROM xqueue.release(NULL::jobs, 2, delay => '1 h');
SELECT id FROM xqueue.bury(NULL::jobs, 6);
SELECT id, tube FROM xqueue.put(NULL::jobs, '[{"tube": "a"}, {"tube": "b"}]');
SELECT id, tube FROM xqueue.take(NULL::jobs, count => 9);
SELECT xqueue.kick('jobs', 1);
CALL xqueue.next('jobs', '0', 'a', NULL);
SELECT id FROM xqueue.restart(NULL::jobs, 2);
SELECT id, tube FROM xqueue.take(NULL::jobs, count => 9);
SELECT id FROM xqueue.ack(NULL::jobs, ARRAY(SELECT id FROM jobs WHERE status = 'T' ORDER BY id));
SELECT id, tube FROM xqueue.take(NULL::jobs, count => 9);
SELECT xqueue.check('jobs');

-- Changes by hand cannot bring two tasks of a sub-queue in flight; terse, because hashes differ between databases
\set VERBOSITY terse
UPDATE jobs SET status = 'R', owner = NULL;
INSERT INTO jobs (tube) VALUES ('a'), ('a');
UPDATE jobs SET status = 'T' WHERE tube = 'a'; :code
SELECT id, tube FROM xqueue.take(NULL::jobs, tube => 'a');
UPDATE jobs SET status = 'T' WHERE tube = 'a' AND status = 'R'; :code
\set VERBOSITY default
BEGIN;
UPDATE jobs SET status = 'R', owner = NULL;
SELECT id, tube FROM xqueue.take(NULL::jobs, count => 9);
ROLLBACK;
SELECT id, tube FROM xqueue.take(NULL::jobs, count => 9);

-- Statistics of sub-queues
SELECT xqueue.upgrade('jobs', '{"tube_stats": ["a"]}')->'tube_stats' AS tube_stats;
SELECT until($$(xqueue.stats('jobs')->>'exact')::boolean$$);
SELECT xqueue.stats('jobs')->'tubes'->'a'->'tasks' AS tasks;
SELECT xqueue.upgrade('jobs', '{"tube_stats": []}')->'tube_stats' AS tube_stats;

-- Strict: a waiting task holds up the tasks behind it
SELECT xqueue.upgrade('jobs', '{"features": {"utube": {"strict": true}}}')->'features'->'utube' AS utube;
SELECT indexdef FROM pg_indexes WHERE tablename = 'jobs' AND indexname ~ 'subqueue' ORDER BY 1;
BEGIN;
UPDATE jobs SET status = 'R', owner = NULL;
UPDATE jobs SET status = 'W', runat = now() + interval '1 day' WHERE id IN (SELECT min(id) FROM jobs GROUP BY tube);
SELECT id, tube FROM xqueue.take(NULL::jobs, count => 9);
ROLLBACK;
SELECT xqueue.upgrade('jobs', '{"features": {"utube": true}}')->'features'->'utube' AS utube;
SELECT indexdef FROM pg_indexes WHERE tablename = 'jobs' AND indexname ~ 'subqueue' ORDER BY 1;

-- Off: several tasks of a tube can be in flight. While they are, utube cannot be switched on.
SELECT xqueue.upgrade('jobs', '{"features": {"utube": false, "tube": true}}')->'features'->'utube' AS utube;
SELECT indexdef FROM pg_indexes WHERE tablename = 'jobs' AND indexdef ~ 'subqueue|flight|tube' ORDER BY 1;
SELECT id, tube FROM xqueue.take(NULL::jobs, count => 9);
SELECT xqueue.upgrade('jobs', '{"features": {"utube": true}}'); :code
SELECT count(*) FROM xqueue.release(NULL::jobs, ARRAY(SELECT id FROM jobs WHERE status = 'T' ORDER BY id));
SELECT xqueue.upgrade('jobs', '{"features": {"utube": true}}')->'features'->'utube' AS utube;
SELECT id, tube FROM xqueue.take(NULL::jobs, count => 9) ORDER BY id;
SELECT xqueue.check('jobs');
SELECT xqueue.downgrade('jobs', true);
\d jobs
DROP TABLE jobs;

-- Without labels all tasks are one sub-queue
CREATE TABLE jobs (id int PRIMARY KEY, status "char" NOT NULL DEFAULT 'R', owner uuid);
INSERT INTO jobs VALUES (1, 'T'), (2, 'T'), (3, 'R');
SELECT xqueue.upgrade('jobs', '{"fields": {"status": "status", "owner": "owner"}, "features": {"utube": true}}'); :code
UPDATE jobs SET status = 'R';
SELECT xqueue.upgrade('jobs', '{"fields": {"status": "status", "owner": "owner"}, "features": {"utube": true}}')->'fields' AS fields;
SELECT id FROM xqueue.take(NULL::jobs, count => 9);
DROP TABLE jobs;

-- The indexes can exist before; a label can have any type with a hash
CREATE TABLE jobs (id int PRIMARY KEY, status varchar(1) NOT NULL DEFAULT 'R', customer uuid);
SELECT jsonb_array_elements_text(xqueue.upgrade('jobs', '{"fields": {"tube": "customer", "status": "status"}, "features": {"utube": true}}', true)->'ddl')
    AS ddl;
CREATE INDEX CONCURRENTLY by_lane ON jobs (xqueue_internal.subqueue(customer), id) WHERE status OPERATOR(pg_catalog.=) 'R';
CREATE INDEX CONCURRENTLY in_flight ON jobs (xqueue_internal.subqueue(customer)) WHERE status OPERATOR(pg_catalog.=) 'T';
SELECT xqueue.upgrade('jobs', '{"fields": {"tube": "customer", "status": "status"}, "features": {"utube": true}}')->'fields' AS fields;
SELECT indexdef FROM pg_indexes WHERE tablename = 'jobs' ORDER BY indexname;
INSERT INTO jobs (id, customer) VALUES
    (1, '00000000-0000-0000-0000-00000000000a'), (2, '00000000-0000-0000-0000-00000000000a'), (3, NULL);
SELECT id FROM xqueue.take(NULL::jobs, count => 9);
SELECT xqueue.take('jobs', tube => 'nobody'); :code
SELECT xqueue.check('jobs');
DROP INDEX in_flight;
SELECT xqueue.check('jobs');
SELECT xqueue.upgrade('jobs')->'queue' AS queue;
SELECT xqueue.check('jobs');
DROP TABLE jobs;
CREATE TABLE jobs (id int PRIMARY KEY, label tsvector);
SELECT xqueue.upgrade('jobs', '{"fields": {"tube": "label"}, "features": {"utube": true}}'); :code
DROP TABLE jobs;
