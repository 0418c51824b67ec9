-- A function lets its caller do what he may do with the table himself, and nothing else.
\set SHOW_CONTEXT never
\set code '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
CREATE ROLE xqueue_owner;
CREATE ROLE xqueue_worker;
CREATE ROLE xqueue_stranger;
CREATE SCHEMA work AUTHORIZATION xqueue_owner;
GRANT USAGE ON SCHEMA work TO xqueue_worker, xqueue_stranger;

-- An owner who is no superuser
SET ROLE xqueue_owner;
CREATE TABLE work.jobs (id int PRIMARY KEY, payload text);
SELECT xqueue.upgrade('work.jobs', '{"features": {"delayed": true}}')->'queue' AS queue;
SELECT xqueue.create('work.made')->'queue' AS queue;
SELECT id FROM xqueue.put(NULL::work.jobs, '[{"id": 1}, {"id": 2}, {"id": 3}, {"id": 4}]');
SELECT id FROM xqueue.put(NULL::work.made, '{}');
SELECT id FROM xqueue.take(NULL::work.made);
SELECT id FROM xqueue.ack(NULL::work.made, 1);
SELECT xqueue.check('work.jobs');

-- A stranger
SET ROLE xqueue_stranger;
SELECT xqueue.put('work.jobs', '{"id": 5}');
:code
SELECT xqueue.take('work.jobs');
:code
-- waiting would be no way around it, and leaves the session as it was
SELECT xqueue.take(NULL::work.jobs, '1 day');
:code
SELECT xqueue.ack('work.jobs', 1);
:code
SELECT xqueue.release('work.jobs', 1);
:code
SELECT xqueue.peek('work.jobs', 1);
:code
CALL xqueue.next('work.jobs', '0');
:code
SELECT xqueue.stats('work.jobs');
:code
SELECT xqueue.check('work.jobs');
:code
SELECT xqueue.upgrade('work.jobs');
:code
SELECT xqueue.upgrade('work.jobs', dry_run => true);
:code
SELECT xqueue.downgrade('work.jobs');
:code
SELECT xqueue.drop('work.jobs');
:code
SELECT xqueue.create('work.mine');
:code
SELECT count(*) FROM xqueue.stats();
SELECT count(*) FROM xqueue.queues;
SELECT count(*) FROM xqueue.taken;
SELECT count(*) FROM xqueue.consumers;

-- The registry is read by all and written by none
SELECT relation FROM xqueue.queue JOIN pg_class c ON c.oid = relation ORDER BY relation::text;
DELETE FROM xqueue.queue;
:code
INSERT INTO xqueue.queue VALUES ('work.jobs', 0, '{}');
:code

-- The triggers are no way in: not set on a table of one's own, and not called
CREATE TEMP TABLE own (id int);
CREATE TRIGGER t AFTER INSERT ON own FOR EACH ROW EXECUTE FUNCTION xqueue_internal.row_changed();
INSERT INTO own VALUES (1);
SELECT xqueue_internal.row_changed();
:code
DROP TABLE own;
RESET ROLE;

-- One who only puts
GRANT INSERT ON work.jobs TO xqueue_worker;
SET ROLE xqueue_worker;
INSERT INTO work.jobs (id) VALUES (5);
SELECT xqueue.take('work.jobs');
:code
-- put returns what it has put
SELECT xqueue.put('work.jobs', '{"id": 6}');
:code
RESET ROLE;
GRANT SELECT ON work.jobs TO xqueue_worker;
SET ROLE xqueue_worker;
SELECT id FROM xqueue.put(NULL::work.jobs, '{"id": 6}');
SELECT id, status FROM xqueue.peek(NULL::work.jobs, 6);
SELECT xqueue.stats('work.jobs')->'tasks'->'total' AS total;
SELECT queue FROM xqueue.queues;
RESET ROLE;
-- One who takes and does not ack
GRANT UPDATE ON work.jobs TO xqueue_worker;
SET ROLE xqueue_worker;
SELECT id FROM xqueue.take(NULL::work.jobs, count => 2);
SELECT xqueue.ack('work.jobs', 1);
:code
SELECT id, status FROM xqueue.release(NULL::work.jobs, 1);
RESET ROLE;
GRANT DELETE ON work.jobs TO xqueue_worker;
SET ROLE xqueue_worker;
SELECT id, status FROM xqueue.ack(NULL::work.jobs, 2);
RESET ROLE;
-- the tasks are those of the session, not of the role
SELECT id FROM xqueue.take(NULL::work.jobs);
SET ROLE xqueue_worker;
SELECT id, status FROM xqueue.ack(NULL::work.jobs, 1);
RESET ROLE;

-- Row security: what one does not see one does not take
ALTER TABLE work.jobs ENABLE ROW LEVEL SECURITY;
CREATE POLICY even ON work.jobs TO xqueue_worker USING (id % 2 = 0);
SET ROLE xqueue_worker;
SELECT id FROM xqueue.take(NULL::work.jobs, count => 10);
SELECT id FROM xqueue.peek(NULL::work.jobs, 3);
SELECT xqueue.ack('work.jobs', 3);
:code
SELECT xqueue.put('work.jobs', '{"id": 7}');
:code
SELECT id FROM xqueue.put(NULL::work.jobs, '{"id": 8}');
SELECT id FROM xqueue.ack(NULL::work.jobs, '{4,6}');
RESET ROLE;
SELECT id, status FROM work.jobs ORDER BY id;
SELECT xqueue.check('work.jobs');

DROP SCHEMA work CASCADE;
DROP ROLE xqueue_owner, xqueue_worker, xqueue_stranger;
