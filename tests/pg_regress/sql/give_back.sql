-- give_back, and releases that use up no attempt.
\set SHOW_CONTEXT never
\set code '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
SELECT xqueue.give_back();
SELECT xqueue.give_back('pg_class'); :code
CREATE TABLE jobs (id int PRIMARY KEY);
CREATE TABLE mails (a int, b int, PRIMARY KEY (a, b));
SELECT xqueue.upgrade('jobs', '{"features": {"retry": {"limit": 2}, "buried": true, "delayed": true}}')->'fields' AS fields;
SELECT xqueue.upgrade('mails')->'key' AS key;
INSERT INTO jobs SELECT generate_series(1, 5);
INSERT INTO mails SELECT 1, generate_series(1, 3);
SELECT count(*) FROM xqueue.take(NULL::jobs, count => 3);
SELECT count(*) FROM xqueue.take(NULL::mails, count => 2);
SELECT xqueue.give_back('jobs');
SELECT xqueue.give_back('jobs');
SELECT id, status, owner, attempts, reason FROM jobs ORDER BY id;
SELECT count(*) FROM xqueue.take(NULL::jobs, count => 2);
SELECT xqueue.give_back();
SELECT count(*) FROM jobs WHERE status = 'R';
SELECT count(*) FROM mails WHERE status = 'R';
SELECT count(*) FROM xqueue.take(NULL::jobs);
SELECT xqueue.give_back(NULL::text);
SELECT count(*) FROM xqueue.take(NULL::mails);
SELECT xqueue.give_back(NULL::mails);
-- tasks taken by the same transaction, and a rollback
BEGIN;
SELECT count(*) FROM xqueue.take(NULL::jobs, count => 2);
SELECT xqueue.give_back();
ROLLBACK;
SELECT count(*) FROM xqueue.take(NULL::jobs, count => 2);
BEGIN;
SELECT xqueue.give_back();
ROLLBACK;
SELECT count(*) FROM jobs WHERE status = 'T';
SELECT xqueue.stats('jobs')->'calls'->'give_back' AS released;
-- of a queue only with the privilege; of all queues, those that the role can change
CREATE ROLE regress_give_back;
GRANT SELECT, UPDATE ON mails TO regress_give_back;
SELECT xqueue.give_back();
SET ROLE regress_give_back;
SELECT xqueue.give_back('jobs'); :code
SELECT count(*) FROM xqueue.take(NULL::mails);
SELECT xqueue.give_back();
RESET ROLE;
-- a queue into which the role can only put does not make it fail
SELECT count(*) FROM xqueue.take(NULL::jobs);
GRANT SELECT, INSERT ON jobs TO regress_give_back;
SET ROLE regress_give_back;
SELECT count(*) FROM xqueue.take(NULL::mails);
SELECT xqueue.give_back();
RESET ROLE;
SELECT xqueue.give_back();
BEGIN READ ONLY;
SELECT xqueue.give_back('jobs'); :code
ROLLBACK;

-- Releases that use up no attempt: the next take has the same number
SELECT id, attempts FROM xqueue.take(NULL::jobs);
SELECT id, status, attempts FROM xqueue.release(NULL::jobs, 1, failed => false);
SELECT id, attempts FROM xqueue.take(NULL::jobs);
SELECT id, status, attempts, reason FROM xqueue.release(NULL::jobs, 1, error => 'no answer');
SELECT id, attempts, reason FROM xqueue.take(NULL::jobs);
SELECT id, status, attempts, runat > now() AS later FROM xqueue.release(NULL::jobs, 1, failed => false, error => 'shut down', delay => '1 hour');
SELECT id, status, reason FROM xqueue.restart(NULL::jobs, 1);
SELECT id, attempts FROM xqueue.take(NULL::jobs);
-- after the last attempt the reason contains both
SELECT id, status, attempts, reason FROM xqueue.release(NULL::jobs, 1, error => 'no answer');
SELECT id, attempts FROM xqueue.take(NULL::jobs, id => 2);
SELECT id, status, attempts FROM xqueue.release(NULL::jobs, 2, failed => NULL);
SELECT xqueue.release('mails', '{"a": 1, "b": 1}', error => 'no answer'); :code
SELECT id, attempts FROM xqueue.take(NULL::jobs, id => '{3,4}') ORDER BY id;
SELECT id, attempts, reason FROM xqueue.release(NULL::jobs, '{3,4}', error => 'both') ORDER BY id;
-- a reason that its column cannot hold is cut off
CREATE TABLE short (id int PRIMARY KEY, why varchar(10));
SELECT xqueue.upgrade('short', '{"features": {"retry": {"limit": 2}}, "fields": {"reason": "why"}}')->'fields'->'reason' AS reason;
INSERT INTO short VALUES (1);
SELECT count(*) FROM xqueue.take(NULL::short);
SELECT status, why FROM xqueue.release(NULL::short, 1, error => 'a long story');
SELECT count(*) FROM xqueue.take(NULL::short);
SELECT status, why FROM xqueue.release(NULL::short, 1, error => 'a long story');
SELECT xqueue.check(queue::text)->'ok' AS ok FROM xqueue.queues WHERE queue IN ('jobs'::regclass, 'mails'::regclass, 'short'::regclass) ORDER BY queue::text;
DROP TABLE jobs, mails, short;
DROP ROLE regress_give_back;
