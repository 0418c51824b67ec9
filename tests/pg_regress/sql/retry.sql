-- retry: counted attempts, pauses between them, burial after the last one; fencing by attempt.
\set SHOW_CONTEXT never
\set code '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
CREATE TABLE jobs (id int PRIMARY KEY);
SELECT xqueue.upgrade('jobs', '{"features": {"retry": {"limit": 2}}}') - 'states' AS definition;
INSERT INTO jobs VALUES (1), (2);
-- a take that is rolled back does not count as an attempt
BEGIN;
SELECT id, attempts FROM xqueue.take(NULL::jobs);
ROLLBACK;
SELECT id, attempts, reason FROM xqueue.take(NULL::jobs);
SELECT id, status, attempts, reason FROM xqueue.release(NULL::jobs, 1);
SELECT id, attempts FROM xqueue.take(NULL::jobs);
SELECT id, status, attempts, reason FROM xqueue.release(NULL::jobs, 1);
SELECT xqueue.stats('jobs')->'transitions' AS transitions;
-- a second round of attempts ends in the same way
SELECT id, status, attempts, reason FROM xqueue.dig(NULL::jobs, 1);
SELECT id, attempts FROM xqueue.take(NULL::jobs);
SELECT id, status FROM xqueue.release(NULL::jobs, 1);
SELECT id, attempts FROM xqueue.take(NULL::jobs);
-- a snatch does not count as a failure; bury gives no reason
SELECT id, status, attempts, reason FROM xqueue.snatch(NULL::jobs, 1);
SELECT id, attempts FROM xqueue.take(NULL::jobs);
SELECT id, status, reason FROM xqueue.bury(NULL::jobs, 1);
-- delay, restart and the end of the ttr: ready or waiting, but buried after the last attempt
SELECT xqueue.upgrade('jobs', '{"features": {"delayed": true, "ttr": true}}')->'fields' AS fields;
SELECT id, attempts FROM xqueue.take(NULL::jobs);
SELECT id, status, runat > now() AS later FROM xqueue.release(NULL::jobs, 2, delay => '1 hour');
SELECT id, status FROM xqueue.restart(NULL::jobs, 2);
SELECT id, attempts FROM xqueue.take(NULL::jobs, ttr => '10 ms');
SELECT until('(SELECT status = ''B'' FROM jobs WHERE id = 2)');
SELECT id, status, runat, attempts, reason FROM jobs ORDER BY id;
-- attempts set back by hand
UPDATE jobs SET status = 'R', attempts = 0 WHERE id = 1;
SELECT id, attempts FROM xqueue.take(NULL::jobs);
SELECT xqueue.ack('jobs', 1) - 'owner' AS acked;
SELECT xqueue.put('jobs', '{"id": 3, "attempts": 5}'); :code
SELECT xqueue.put('jobs', '{"id": 3, "reason": "so"}'); :code
SELECT xqueue.check('jobs');
DROP TABLE jobs;

-- Fencing: an ack for an earlier attempt is refused
CREATE TABLE jobs (id int PRIMARY KEY);
SELECT xqueue.upgrade('jobs', '{"features": {"retry": true}}') - 'states' AS definition;
INSERT INTO jobs VALUES (1), (2);
SELECT id, attempts FROM xqueue.take(NULL::jobs, count => 2);
SELECT id FROM xqueue.release(NULL::jobs, 1);
SELECT id, attempts FROM xqueue.take(NULL::jobs);
SELECT xqueue.ack('jobs', 1, attempt => 1); :code
SELECT xqueue.ack('jobs', 1, attempt => 3); :code
SELECT xqueue.ack('jobs', 1, attempt => 99999999999); :code
SELECT id, attempts FROM xqueue.ack(NULL::jobs, 1, attempt => 2);
SELECT xqueue.ack('jobs', 1, attempt => 2); :code
SELECT id FROM xqueue.ack(NULL::jobs, 2, attempt => NULL);
SELECT xqueue.check('jobs');
DROP TABLE jobs;
CREATE TABLE jobs (id int PRIMARY KEY, tries smallint NOT NULL DEFAULT 0);
SELECT xqueue.upgrade('jobs', '{"fields": {"attempts": "tries"}, "features": {"retry": {"backoff": 60, "factor": 3, "max": "5 min"}}}') - 'states' AS definition;
INSERT INTO jobs VALUES (1);
-- The wait between attempts grows up to its limit
CREATE PROCEDURE pg_temp.waits(times integer) LANGUAGE plpgsql AS $$
DECLARE
    task jobs;
BEGIN
    FOR attempt IN 1..times LOOP
        PERFORM xqueue.take('jobs');
        task := xqueue.release(NULL::jobs, 1);
        RAISE NOTICE '% % waits % s', task.tries, task.status, round(extract(epoch FROM task.runat - clock_timestamp()));
        UPDATE jobs SET status = 'R', runat = NULL;
    END LOOP;
END
$$;
CALL pg_temp.waits(4);
-- By default the factor is two and the longest wait an hour
UPDATE jobs SET tries = 0;
SELECT xqueue.upgrade('jobs', '{"features": {"retry": {"backoff": "10 minutes"}}}')->'features'->'retry' AS retry;
CALL pg_temp.waits(5);
-- A power that overflows also gives the longest wait
UPDATE jobs SET tries = 32000;
SELECT xqueue.upgrade('jobs', '{"features": {"retry": {"backoff": 100, "factor": 1000, "max": "1 day"}}}')->'features'->'retry' AS retry;
CALL pg_temp.waits(1);
-- Each round of attempts starts with the first wait
UPDATE jobs SET tries = 0;
SELECT xqueue.upgrade('jobs', '{"features": {"retry": {"limit": 3, "backoff": 100}}}')->'features'->'retry' AS retry;
CALL pg_temp.waits(5);
-- A delay of zero overrides the wait, but not the limit
SELECT xqueue.upgrade('jobs', '{"features": {"retry": {"limit": 2, "backoff": 100}}}')->'features'->'retry' AS retry;
UPDATE jobs SET tries = 0;
SELECT count(*) FROM xqueue.take(NULL::jobs);
SELECT id, status, runat FROM xqueue.release(NULL::jobs, 1, delay => '0');
SELECT count(*) FROM xqueue.take(NULL::jobs);
SELECT id, status, runat FROM xqueue.release(NULL::jobs, 1, delay => '0');
UPDATE jobs SET status = 'R';
SELECT id, tries FROM xqueue.take(NULL::jobs);
SELECT id, status, runat FROM xqueue.snatch(NULL::jobs, 1);
SELECT xqueue.check('jobs');
DROP TABLE jobs;

-- Contradictory and invalid options
CREATE TABLE jobs (id int PRIMARY KEY);
SELECT xqueue.upgrade('jobs', '{"features": {"retry": {"limit": 0}}}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"retry": {"limit": 2}, "buried": false}}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"retry": {"backoff": -1}}}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"retry": {"backoff": "soon"}}}'); :code
SELECT xqueue.upgrade('jobs')->'features'->'retry' AS retry;
INSERT INTO jobs VALUES (1);
SELECT id FROM xqueue.take(NULL::jobs);
SELECT xqueue.ack('jobs', 1, attempt => 1); :code
DROP TABLE jobs;
