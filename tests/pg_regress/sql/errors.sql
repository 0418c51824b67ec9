-- Errors with message, DETAIL, HINT and SQLSTATE. No refused call changes anything.
\set SHOW_CONTEXT never
\set code '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
CREATE TABLE jobs (id bigint PRIMARY KEY, payload jsonb, due date);
SELECT xqueue.upgrade('jobs')->'queue' AS queue;
SELECT id FROM xqueue.put(NULL::jobs, '[{"id": 1}, {"id": 2}]');

-- The task
SELECT xqueue.ack('jobs', 7); :code
SELECT xqueue.ack('jobs', 1); :code
SELECT xqueue.ack('jobs', NULL::bigint); :code
SELECT xqueue.ack(NULL::jobs); :code
SELECT xqueue.ack('jobs', ARRAY[1, NULL]); :code
SELECT xqueue.ack('jobs', 'seven'); :code
SELECT xqueue.ack('jobs', '99999999999999999999'); :code
SELECT xqueue.ack('jobs', 1.5); :code
SELECT xqueue.ack('jobs', ROW(1, 2)); :code
SELECT xqueue.ack('jobs', '{"key": 1}'::jsonb); :code

-- The tasks that are put
SELECT xqueue.put('jobs', '{"id": 3, "paylaod": 1}'); :code
SELECT xqueue.put('jobs', '{"id": 3, "due": "tomorrow or so"}'); :code
SELECT xqueue.put('jobs', '{"id": 3, "status": "T"}'); :code
SELECT xqueue.put('jobs', '[{"id": 3}, 4]'); :code
SELECT xqueue.put('jobs', '[{"id": 3}, {"id": 1}]'); :code
SELECT xqueue.put('jobs', '{}'); :code
SELECT xqueue.put('jobs', NULL); :code
SELECT xqueue.put(NULL::jobs); :code

-- Times and numbers
SELECT xqueue.put('jobs', '{"id": 3}', '1 second'); :code
SELECT xqueue.put('jobs', '{"id": 3}', '-1 second'); :code
SELECT xqueue.take('jobs', '-1 second'); :code
SELECT xqueue.take('jobs', 'soon'); :code
SELECT xqueue.take('jobs', NULL); :code
SELECT xqueue.take('jobs', count => 0); :code
SELECT xqueue.take('jobs', count => NULL); :code

-- The queue
SELECT xqueue.take('no_such_table'); :code
SELECT xqueue.take(NULL); :code
SELECT xqueue.take('jobs'::regclass); :code
SELECT xqueue.take(5); :code
CREATE TABLE plain (id int PRIMARY KEY);
SELECT xqueue.take('plain'); :code

-- Tables that cannot be queues
CREATE TABLE nokey (id int, UNIQUE (id));
SELECT xqueue.upgrade('nokey'); :code
CREATE TEMP TABLE temp (id int PRIMARY KEY);
SELECT xqueue.upgrade('temp'); :code
CREATE VIEW seen AS SELECT 1 AS id;
SELECT xqueue.upgrade('seen'); :code
CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY RANGE (id);
SELECT xqueue.upgrade('parted'); :code
SELECT xqueue.upgrade('pg_catalog.pg_class'); :code
SELECT xqueue.upgrade('xqueue.queue');
SELECT xqueue.upgrade('xqueue.session'); :code
CREATE TABLE typed (id int PRIMARY KEY, status real, owner varchar(35), runat date, word text);
INSERT INTO typed VALUES (1, 1, '', '2020-01-01', 'wait'), (2, 1, '', '2020-01-01', 'wait');
SELECT xqueue.upgrade('typed', '{"fields": {"status": "status", "owner": "o"}}'); :code
SELECT xqueue.upgrade('typed', '{"fields": {"status": "s", "owner": "owner"}}'); :code
SELECT xqueue.upgrade('typed', '{"fields": {"status": "s", "owner": "o", "runat": "runat"}, "features": {"delayed": true}}');
:code
SELECT xqueue.upgrade('typed', '{"fields": {"status": "word", "owner": "o"}}'); :code

-- Options
SELECT xqueue.upgrade('plain', '{"colour": 1}'); :code
SELECT xqueue.upgrade('plain', '{"existing": "ready"}'); :code
SELECT xqueue.upgrade('plain', NULL); :code

-- The transaction
BEGIN;
CALL xqueue.next('jobs'); :code
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT xqueue.take('jobs', '1 second'); :code
ROLLBACK;
BEGIN;
SELECT id FROM xqueue.take(NULL::jobs);
\set VERBOSITY terse
PREPARE TRANSACTION 'errors'; :code
\set VERBOSITY default
BEGIN READ ONLY;
SELECT xqueue.take('jobs'); :code
ROLLBACK;
CALL xqueue.next('jobs', '1 second', task => '{"id": 1}'); :code
CALL xqueue.next('jobs', '0', task => '1'); :code
CALL xqueue.next('jobs', '0', task => 'null'); :code
CALL xqueue.next('jobs', '-1 second'); :code
SET xqueue.max_queues = 5; :code
SET xqueue.no_such_setting = 5; :code

-- Nothing has happened
SELECT id, status, owner FROM jobs ORDER BY id;
SELECT xqueue.stats('jobs') - 'relation' AS stats;
SELECT xqueue.check('jobs');
SELECT relation FROM xqueue.queue JOIN pg_class c ON c.oid = relation;
DROP VIEW seen;
DROP TABLE jobs, plain, nokey, temp, parted, typed;
