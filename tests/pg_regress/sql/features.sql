-- All features together, in both forms; contradictory options; invalid times, numbers and NULLs.
\set SHOW_CONTEXT never
\set code '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
CREATE TABLE jobs (region text, no int, note text, PRIMARY KEY (region, no));
SELECT xqueue.upgrade('jobs', '{"features": {"id": "required", "delayed": true, "buried": true, "zombie": "1 hour", "ttl": "1 day", "ttr": "1 minute",
    "priority": true, "tube": true, "retry": {"limit": 3, "backoff": "1 minute"}}, "tube_stats": ["a"]}') - 'states' AS definition;
SELECT xqueue.upgrade(NULL::jobs, dry_run => true)->'ddl' AS ddl;
SELECT jsonb_array_elements_text(xqueue.upgrade('jobs', '{"features": {"keep": true, "zombie": false, "tube": false}, "tube_stats": []}', true)->'ddl') AS ddl;

SELECT j.region, j.no, j.status, j.priority, j.tube, j.ttr, j.attempts, j.expires - j.runat BETWEEN '1 hour' AND '1 hour 1 s' AS ttl
FROM xqueue.put(NULL::jobs, '[{"region": "n", "no": 1}, {"region": "n", "no": 2}]', delay => '1 minute', ttl => '1 hour', ttr => '2 minutes', priority => 5, tube => 'a') j;
SELECT xqueue.put('jobs', '{"region": "s", "no": 1, "priority": -1}', tube => 'a') - 'expires' AS task;
SELECT region, no, status FROM xqueue.restart(NULL::jobs, ROW('n', 2));
SELECT region, no, round(extract(epoch FROM runat - now())) AS seconds FROM xqueue.take(NULL::jobs, tube => 'a', count => 5);
SELECT (xqueue.touch(j, increment => '1 minute')).no FROM jobs j WHERE region = 's';
SELECT region, no, status, round(extract(epoch FROM runat - now())) AS seconds FROM xqueue.release(NULL::jobs, ROW('n', 2), '{"note": "later"}');
SELECT region, no, status, note FROM xqueue.ack(NULL::jobs, '{"region": "s", "no": 1}', '{"note": "well"}', attempt => 1);
SELECT region, no, status, priority, tube, note FROM jobs ORDER BY 1, 2;
SELECT s->'tubes' AS tubes FROM xqueue.stats('jobs') s;
SELECT s->'tasks' AS tasks, s->'exact' AS exact FROM xqueue.stats('jobs') AS s;
SELECT xqueue.check(NULL::jobs);
SELECT xqueue.downgrade(NULL::jobs, drop_columns => true);
SELECT region, no, note FROM jobs ORDER BY 1, 2;
SELECT count(*) AS "triggers, indexes" FROM (SELECT tgname FROM pg_trigger WHERE tgrelid = 'jobs'::regclass UNION ALL
    SELECT indexname FROM pg_indexes WHERE tablename = 'jobs' AND indexname LIKE '%idx') AS rest;
DROP TABLE jobs;

-- Contradictory and invalid options
CREATE TABLE jobs (id int PRIMARY KEY);
SELECT xqueue.upgrade('jobs', '{"features": {"keep": true, "zombie": true}}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"ttl": "-1 s"}}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"ttr": "300 years"}}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"zombie": "soon"}}'); :code
SELECT xqueue.upgrade('jobs', '{"fields": {"runat": "due", "expires": "due"}, "features": {"ttl": true, "delayed": true}}');
:code
SELECT xqueue.upgrade('jobs', '{"fields": {"expires": "id"}, "features": {"ttl": true}}'); :code
CREATE TABLE timed (id int PRIMARY KEY, starts smallint, ends real, holder text NOT NULL);
SELECT xqueue.upgrade('timed', '{"fields": {"runat": "starts"}, "features": {"delayed": true}}'); :code
SELECT xqueue.upgrade('timed', '{"fields": {"expires": "ends"}, "features": {"ttl": true}}'); :code
ALTER TABLE timed ALTER starts TYPE timestamp(3) USING NULL, ALTER starts SET NOT NULL, ALTER ends TYPE integer;
SELECT jsonb_array_elements_text(xqueue.upgrade('timed', '{"fields": {"runat": "starts", "expires": "ends"},
    "features": {"ttl": true, "delayed": true}}', dry_run => true)->'ddl') AS ddl;
DROP TABLE timed;
SELECT xqueue.upgrade('jobs', '{"fields": {"tube": "id"}, "features": {"tube": true}}')->'fields' AS "the key as tube";
SELECT xqueue.downgrade('jobs', drop_columns => true);
-- columns that the queue changes cannot belong to the key
SELECT xqueue.upgrade('jobs', '{"fields": {"attempts": "id"}, "features": {"retry": true}}'); :code
CREATE TABLE keys (id uuid, word text, PRIMARY KEY (id, word));
SELECT xqueue.upgrade('keys', '{"fields": {"owner": "id"}}'); :code
SELECT xqueue.upgrade('keys', '{"fields": {"status": "word"}}'); :code
DROP TABLE keys;
SELECT xqueue.upgrade('jobs', '{"existing": "W"}'); :code
SELECT count(*) AS queues FROM xqueue.queues WHERE queue = 'jobs'::regclass;

-- Invalid times, numbers and NULLs
SELECT xqueue.upgrade('jobs', '{"features": {"delayed": true, "buried": true, "zombie": true, "ttl": true, "ttr": true, "priority": true, "tube": true, "retry": true}}')->'features'->'ttl' AS ttl;
SELECT id FROM xqueue.put(NULL::jobs, '[{"id": 1}, {"id": 2}]');
SELECT id FROM xqueue.take(NULL::jobs);
SELECT xqueue.put('jobs', '{"id": 3}', delay => '300000 years'); :code
SELECT xqueue.put('jobs', '{"id": 3}', ttr => '-1 month'); :code
SELECT xqueue.touch('jobs', 1, '300000 years'); :code
SELECT xqueue.release('jobs', 1, delay => '250000 years', ttl => '250000 years'); :code
SELECT xqueue.bury('jobs', 1, ttl => '-1 us'); :code
SELECT xqueue.snatch('jobs', 1, '300000 years'); :code
SELECT xqueue.switch('jobs', 2, 'Z', '-1 s'); :code
-- an absurd ttr in the column is cut to the longest or shortest possible one, and blocks no consumer
SELECT xqueue.put('jobs', '{"id": 0, "ttr": "170000000 years"}')->'status' AS status;
INSERT INTO jobs (id, ttr) VALUES (-1, '-100 years');
SELECT id, status, round(extract(epoch FROM runat - now()) / 86400 / 365) AS years FROM xqueue.take(NULL::jobs, count => 2) ORDER BY id;
SELECT until('(SELECT status = ''R'' FROM jobs WHERE id = -1)');
DELETE FROM jobs WHERE id <= 0;
SELECT xqueue.put('jobs', '{"id": 3}', NULL, NULL, NULL, NULL, NULL)->'status' AS status;
SELECT xqueue.take('jobs', '0', 1, NULL, NULL)->'id' AS id;
SELECT xqueue.release('jobs', 2, NULL, NULL, NULL)->'id' AS id;
SELECT xqueue.take('jobs')->'id' AS id;
SELECT xqueue.bury('jobs', 2, NULL, NULL)->'id' AS id;
SELECT xqueue.dig('jobs', 2, NULL, NULL)->'id' AS id;
SELECT count(*) FROM xqueue.plow('jobs', NULL, NULL, NULL);
SELECT xqueue.snatch('jobs', 1, NULL)->'id' AS id;
SELECT xqueue.take('jobs')->'id' AS id;
SELECT xqueue.ack('jobs', 1, NULL, NULL, NULL)->'id' AS id;
SELECT xqueue.restart(NULL::jobs, NULL::int); :code
CALL xqueue.put_wait(NULL::text, '{}'); :code
-- a composite value that is not a row of a queue
SELECT xqueue.bury(ROW(1)); :code
SELECT xqueue.kick(5, 5); :code
SELECT id, status FROM jobs ORDER BY id;
SELECT xqueue.check('jobs') - 'mark' - 'buried_mark' AS "check";
DROP TABLE jobs;

-- Privileges that depend on features; tests/tests/rights/privilege_matrix.rs has the others
CREATE ROLE xqueue_guest;
CREATE TABLE jobs (id int PRIMARY KEY, note text);
SELECT xqueue.upgrade('jobs', '{"features": {"buried": true, "keep": true, "ttr": true}}')->'fields' AS fields;
INSERT INTO jobs VALUES (1), (2), (3);
-- a role with SELECT and UPDATE, but without INSERT and DELETE
GRANT SELECT, UPDATE ON jobs TO xqueue_guest;
SET ROLE xqueue_guest;
SELECT id FROM xqueue.take(NULL::jobs);
SELECT id, status, note FROM xqueue.ack(NULL::jobs, 1, '{"note": "well"}');
SELECT xqueue.wait('jobs', 1);
RESET ROLE;
SELECT id, status, note FROM jobs ORDER BY id;
SELECT xqueue.check('jobs') - 'mark' - 'buried_mark' AS "check";
DROP TABLE jobs;
DROP ROLE xqueue_guest;
