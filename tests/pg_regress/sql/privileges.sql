-- A function needs the same privileges on the table as its caller's own SQL would.
\set SHOW_CONTEXT never
\set code '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
CREATE ROLE xqueue_owner;
CREATE ROLE xqueue_worker;
CREATE ROLE xqueue_stranger;
CREATE SCHEMA work AUTHORIZATION xqueue_owner;
GRANT USAGE ON SCHEMA work TO xqueue_worker, xqueue_stranger;

-- An owner who is not a superuser
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
SELECT xqueue.upgrade('work.jobs'); :code
SELECT xqueue.upgrade('work.jobs', dry_run => true); :code
SELECT xqueue.downgrade('work.jobs'); :code
SELECT xqueue.drop('work.jobs'); :code
SELECT xqueue.create('work.mine'); :code
SELECT count(*) FROM xqueue.stats();
SELECT count(*) FROM xqueue.queues;
SELECT count(*) FROM xqueue.taken;
SELECT count(*) FROM xqueue.consumers;

-- Every role can read the registry, but not write it
SELECT relation FROM xqueue.queue JOIN pg_class c ON c.oid = relation ORDER BY relation::text;
DELETE FROM xqueue.queue; :code
INSERT INTO xqueue.queue VALUES ('work.jobs', 0, '{}'); :code

-- Trigger functions can neither be used on another table nor be called
CREATE TEMP TABLE own (id int);
CREATE TRIGGER t AFTER INSERT ON own FOR EACH ROW EXECUTE FUNCTION xqueue_internal.row_changed();
INSERT INTO own VALUES (1);
SELECT xqueue_internal.row_changed(); :code
DROP TRIGGER t ON own;
CREATE TRIGGER t AFTER INSERT ON own EXECUTE FUNCTION xqueue_internal.registry_changed();
INSERT INTO own VALUES (2); :code
DROP TABLE own;
RESET ROLE;

GRANT SELECT, UPDATE, DELETE ON work.jobs TO xqueue_worker;
-- tasks belong to the session, not to the role
SELECT id FROM xqueue.take(NULL::work.jobs);
SET ROLE xqueue_worker;
SELECT id, status FROM xqueue.ack(NULL::work.jobs, 1);
RESET ROLE;

SELECT xqueue.check('work.jobs');

DROP SCHEMA work CASCADE;
DROP ROLE xqueue_owner, xqueue_worker, xqueue_stranger;
