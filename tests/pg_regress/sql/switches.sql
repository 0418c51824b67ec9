-- Features switched on a live queue: no task changes its state unless the options name the new state.
\set SHOW_CONTEXT never
\set code '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
PREPARE tasks AS SELECT r.* FROM xqueue.stats('jobs') s, jsonb_to_record(s->'tasks') AS r(ready int, taken int, waiting int, buried int, zombie int, done int);
CREATE TABLE jobs (id int PRIMARY KEY);
SELECT xqueue.upgrade('jobs', '{"features": {"delayed": true, "buried": true, "keep": true}}')->'fields' AS fields;
INSERT INTO jobs SELECT n FROM generate_series(1, 9) n;
SELECT count(*) FROM xqueue.switch(NULL::jobs, '{1,2}', 'W', '1 hour');
SELECT count(*) FROM xqueue.switch(NULL::jobs, '{3,4,5}', 'B');
SELECT count(*) FROM xqueue.switch(NULL::jobs, '{6,7}', 'D');
SELECT id FROM xqueue.take(NULL::jobs);
EXECUTE tasks;

-- Refused with the number of tasks and a hint; nothing changes
SELECT xqueue.upgrade('jobs', '{"features": {"delayed": false}}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"buried": false}}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"keep": false}}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"keep": false, "zombie": true}}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"buried": false}}', dry_run => true); :code
SELECT xqueue.upgrade('jobs', '{"features": {"buried": false}, "convert": {"W": "R"}}'); :code
SELECT xqueue.upgrade('jobs', '{"convert": {"B": "R"}}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"buried": false, "keep": false}, "convert": {"B": "D", "D": "R"}}'); :code
SELECT xqueue.upgrade('jobs', '{"convert": {"T": "R"}}'); :code
SELECT xqueue.upgrade('jobs', '{"convert": "R"}'); :code
EXECUTE tasks;
SELECT xqueue.upgrade('jobs')->'features' @> '{"delayed": true, "buried": true, "keep": true}' AS "as it was";

-- Tasks are converted to the states that the options name
SELECT jsonb_array_elements_text(xqueue.upgrade('jobs', '{"features": {"buried": false}, "convert": {"B": "R"}}', true)->'ddl') AS ddl LIMIT 1;
SELECT xqueue.upgrade('jobs', '{"features": {"buried": false}, "convert": {"B": "R"}}')->'features'->'buried' AS buried;
EXECUTE tasks;
SELECT xqueue.upgrade('jobs', '{"features": {"delayed": false}, "convert": {"W": "D"}}')->'features'->'delayed' AS delayed;
EXECUTE tasks;
SELECT xqueue.upgrade('jobs', '{"features": {"keep": false}, "convert": {"D": "delete"}}')->'features'->'keep' AS keep;
EXECUTE tasks;
SELECT id, status FROM jobs ORDER BY id;
-- the taken task still belongs to its consumer
SELECT id FROM xqueue.ack(NULL::jobs, 8);
SELECT xqueue.stats('jobs')->'transitions' AS transitions;
SELECT xqueue.check('jobs');
SELECT xqueue.upgrade('jobs', '{"features": {"buried": true}}')->'features'->'buried' AS buried;
BEGIN;
SELECT xqueue.switch('jobs', 9, 'B')->'status' AS status;
SELECT xqueue.upgrade('jobs', '{"features": {"buried": false}, "convert": {"B": "delete"}}')->'features'->'buried' AS buried;
EXECUTE tasks;
ROLLBACK;
SELECT xqueue.switch('jobs', 9, 'B')->'status' AS status;
SELECT xqueue.check('jobs');
DROP TABLE jobs;

-- An acked task that becomes ready again gets the default ttl
CREATE TABLE jobs (id int PRIMARY KEY);
SELECT xqueue.upgrade('jobs', '{"features": {"ttl": "1 hour", "zombie": "1 day"}}')->'features'->'ttl' AS ttl;
INSERT INTO jobs VALUES (1), (2), (3);
SELECT count(*) FROM xqueue.switch(NULL::jobs, '{1,2}', 'Z');
UPDATE jobs SET expires = now() - interval '1 minute' WHERE id IN (1, 2);
BEGIN;
SELECT xqueue.upgrade('jobs', '{"features": {"zombie": false, "keep": true}, "convert": {"Z": "D"}}')->'features'->'keep' AS keep;
SELECT id, status, runat FROM jobs ORDER BY id;
ROLLBACK;
SELECT xqueue.upgrade('jobs', '{"features": {"zombie": false}, "convert": {"Z": "R"}}')->'features'->'zombie' AS zombie;
SELECT id, status, runat, expires > now() + '59 minutes' AS lives FROM jobs ORDER BY id;

-- ttl off: tasks lose their ttl, and do not get it back when the feature is on again
SELECT xqueue.upgrade('jobs', '{"features": {"ttl": false}}')->'fields' AS fields;
UPDATE jobs SET expires = now() - interval '1 minute' WHERE id = 3;
SELECT id, expires IS NULL AS "for ever" FROM jobs ORDER BY id;
SELECT count(*) FROM xqueue.take(NULL::jobs, count => 9);
SELECT count(*) FROM xqueue.release(NULL::jobs, '{1,2,3}');
UPDATE jobs SET expires = NULL WHERE id = 3;
SELECT xqueue.upgrade('jobs', '{"features": {"ttl": true}}')->'fields' AS fields;
SELECT count(*) FROM xqueue.take(NULL::jobs, count => 9);

-- ttr on while tasks are taken: they get no deadline. ttr off: taken tasks lose their deadlines
SELECT xqueue.upgrade('jobs', '{"features": {"ttr": "1 hour"}}')->'features'->'ttr' AS ttr;
SELECT id, status, runat FROM jobs ORDER BY id;
SELECT count(*) FROM xqueue.release(NULL::jobs, '{1,2}');
SELECT id, runat > now() AS deadline FROM xqueue.take(NULL::jobs);
SELECT xqueue.upgrade('jobs', '{"features": {"ttr": false}}')->'fields' AS fields;
SELECT count(*) AS "with a deadline" FROM jobs WHERE runat IS NOT NULL;
SELECT id FROM xqueue.ack(NULL::jobs, '{1,3}');
SELECT xqueue.check('jobs');
DROP TABLE jobs;

-- retry switches buried and delayed on, and off again
CREATE TABLE jobs (id int PRIMARY KEY);
SELECT xqueue.upgrade('jobs', '{"features": {"retry": {"limit": 1, "backoff": 60}}}')->'features'->'buried' AS buried;
INSERT INTO jobs VALUES (1), (2);
SELECT id FROM xqueue.take(NULL::jobs);
SELECT id, status FROM xqueue.release(NULL::jobs, 1);
SELECT xqueue.upgrade('jobs', '{"features": {"retry": false}}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"buried": false}}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"retry": {"limit": 5, "backoff": 60}}}')->'features'->'retry' AS retry;
SELECT id FROM xqueue.take(NULL::jobs);
SELECT id, status FROM xqueue.release(NULL::jobs, 2);
SELECT xqueue.upgrade('jobs', '{"features": {"retry": false}, "convert": {"B": "R"}}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"retry": true}, "convert": {"B": "R", "W": "R"}}')->'features' AS features;
SELECT id, status, runat, attempts, reason FROM jobs ORDER BY id;
SELECT xqueue.check('jobs');
DROP TABLE jobs;

-- A second upgrade keeps the counters, and uses a column that an earlier one made
CREATE TABLE jobs (id int PRIMARY KEY);
SELECT xqueue.upgrade('jobs', '{"features": {"priority": true}}')->'fields' AS fields;
SELECT id FROM xqueue.put(NULL::jobs, '[{"id": 1}, {"id": 2, "priority": -1}]');
SELECT xqueue.upgrade('jobs', '{"features": {"priority": false}}')->'fields' AS fields;
SELECT id FROM xqueue.take(NULL::jobs);
SELECT xqueue.upgrade('jobs', '{"features": {"priority": true}}')->'fields' AS fields;
SELECT id FROM xqueue.release(NULL::jobs, 1);
SELECT id FROM xqueue.take(NULL::jobs);
SELECT xqueue.stats('jobs')->'calls'->'take' AS take, xqueue.stats('jobs')->'calls'->'put' AS put;
EXECUTE tasks;
SELECT xqueue.check('jobs');
DROP TABLE jobs;
DEALLOCATE tasks;
