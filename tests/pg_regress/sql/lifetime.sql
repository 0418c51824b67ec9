-- keep, zombie, ttl, ttr and delay, each alone and all together.
\set SHOW_CONTEXT never
\set code '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'

-- keep: acked tasks stay
CREATE TABLE jobs (id int PRIMARY KEY, result text);
SELECT xqueue.upgrade('jobs', '{"features": {"keep": true}}')->'fields' AS fields;
INSERT INTO jobs VALUES (1), (2), (3);
SELECT id FROM xqueue.take(NULL::jobs, count => 3);
SELECT xqueue.ack('jobs', 1, '{"result": "well"}') AS acked;
SELECT id, status, result FROM xqueue.ack(NULL::jobs, ARRAY[3, 2], '{"result": "both"}');
SELECT xqueue.ack('jobs', 1); :code
SELECT xqueue.ack('jobs', 1, delay => '1 s'); :code
SELECT id, status FROM xqueue.restart(NULL::jobs, 2);
SELECT xqueue.stats('jobs')->'transitions' AS transitions;
SELECT xqueue.upgrade('jobs', '{"features": {"zombie": true}}'); :code
SELECT xqueue.check('jobs');
DROP TABLE jobs;

-- zombie: an acked task stays for the given time; without a time, it is deleted
CREATE TABLE jobs (id int PRIMARY KEY);
SELECT xqueue.upgrade('jobs', '{"features": {"zombie": true}}')->'fields' AS fields;
INSERT INTO jobs VALUES (1), (2), (3), (4);
SELECT id FROM xqueue.take(NULL::jobs, count => 4);
SELECT id, status, runat FROM xqueue.ack(NULL::jobs, 1);
SELECT id, status, owner, runat > now() + '59 minutes' AS later FROM xqueue.ack(NULL::jobs, 2, delay => '1 hour');
SELECT id, status FROM xqueue.ack(NULL::jobs, 3, delay => '30 ms');
SELECT until('NOT EXISTS (SELECT FROM jobs WHERE id = 3)');
SELECT id, status FROM xqueue.ack(NULL::jobs, 4, delay => '0');
SELECT xqueue.switch('jobs', 2, 'Z'); :code
SELECT until('NOT EXISTS (SELECT FROM jobs WHERE id = 4)');
SELECT id, status FROM jobs;
SELECT xqueue.ack('jobs', 2); :code
SELECT id, status, runat FROM xqueue.restart(NULL::jobs, 2);
SELECT xqueue.stats('jobs')->'transitions' AS transitions, xqueue.stats('jobs')->'calls'->'zombie' AS zombie;
SELECT xqueue.upgrade('jobs', '{"features": {"zombie": "1 hour"}}')->'features'->'zombie' AS zombie;
SELECT id FROM xqueue.take(NULL::jobs);
SELECT id, status, runat > now() + '59 minutes' AS later FROM xqueue.ack(NULL::jobs, 2);
SELECT xqueue.upgrade('jobs', '{"features": {"keep": true}}'); :code
SELECT xqueue.check('jobs');
DROP TABLE jobs;

-- ttl without a default: only tasks with a ttl of their own expire
CREATE TABLE jobs (id int PRIMARY KEY);
SELECT xqueue.upgrade('jobs', '{"features": {"ttl": true}}')->'fields' AS fields;
SELECT id, expires FROM xqueue.put(NULL::jobs, '{"id": 1}');
SELECT id, expires > now() + '59 minutes' AS lives FROM xqueue.put(NULL::jobs, '[{"id": 2}, {"id": 3}]', ttl => '1 hour');
SELECT id FROM xqueue.put(NULL::jobs, '{"id": 4}', ttl => '30 ms');
SELECT until('NOT EXISTS (SELECT FROM jobs WHERE id = 4)');
SELECT id, status FROM xqueue.put(NULL::jobs, '{"id": 5}', ttl => '0');
SELECT id FROM xqueue.take(NULL::jobs, count => 5);
SELECT until('NOT EXISTS (SELECT FROM jobs WHERE id = 5)');
-- a taken task does not expire; it can expire as soon as it is released
UPDATE jobs SET expires = now() - interval '1 hour' WHERE id = 2;
SELECT id, status FROM xqueue.touch(NULL::jobs, 3, '1 hour');
SELECT id, status FROM xqueue.release(NULL::jobs, 2);
SELECT until('NOT EXISTS (SELECT FROM jobs WHERE id = 2)');
SELECT expires > now() + '119 minutes' AS lives FROM jobs WHERE id = 3;
SELECT expires > now() + '119 minutes' AS lives FROM xqueue.release(NULL::jobs, 3, ttl => '1 minute');
SELECT xqueue.stats('jobs')->'calls'->'ttl' AS ttl;
SELECT xqueue.put('jobs', '{"id": 6}', ttl => '-1 s'); :code
SELECT xqueue.put('jobs', '{"id": 6, "expires": "2020-01-01"}'); :code
SELECT xqueue.put('jobs', '{"id": 6}', ttr => '1 s'); :code
-- with a default, also for tasks inserted by hand
SELECT xqueue.upgrade('jobs', '{"features": {"ttl": 3600}}')->'features'->'ttl' AS ttl;
INSERT INTO jobs (id) VALUES (7);
SELECT id, status FROM xqueue.put(NULL::jobs, '{"id": 8}');
SELECT count(*) FROM xqueue.put(NULL::jobs, '[{"id": 9}, {"id": 10}]');
COPY jobs (id) FROM STDIN;
11
\.
SELECT id FROM xqueue.put(NULL::jobs, '{"id": 12}', ttl => '1 day');
INSERT INTO jobs (id, expires) VALUES (13, now() + interval '1 day');
SELECT id, expires > now() + '59 minutes' AS lives, expires > now() + '23 hours' AS "a day" FROM jobs ORDER BY id;
SELECT xqueue.check('jobs');
DROP TABLE jobs;

-- ttr: by default, by task, by take
CREATE TABLE jobs (id int PRIMARY KEY);
SELECT xqueue.upgrade('jobs', '{"features": {"ttr": "1 hour"}}')->'fields' AS fields;
SELECT id, ttr FROM xqueue.put(NULL::jobs, '[{"id": 1}, {"id": 2, "ttr": "1 day"}, {"id": 3, "ttr": null}]');
SELECT id, ttr FROM xqueue.put(NULL::jobs, '{"id": 4}', ttr => '2 days');
SELECT id, ttr, round(extract(epoch FROM runat - now()) / 3600) AS hours FROM xqueue.take(NULL::jobs, count => 3);
SELECT id, ttr, round(extract(epoch FROM runat - now()) / 3600) AS hours FROM xqueue.take(NULL::jobs, ttr => '7 hours');
SELECT id, round(extract(epoch FROM runat - now()) / 3600) AS hours FROM xqueue.touch(NULL::jobs, ARRAY[1, 4], '1 hour');
SELECT count(*) AS "nothing to add" FROM xqueue.touch(NULL::jobs, 1, '0');
SELECT count(*) AS "nothing to add" FROM xqueue.touch(NULL::jobs, 1, NULL);
SELECT id, status, runat FROM xqueue.release(NULL::jobs, ARRAY[1, 2, 3, 4]);
SELECT id FROM xqueue.take(NULL::jobs, ttr => '20 ms');
SELECT until('(SELECT status = ''R'' FROM jobs WHERE id = 1)');
SELECT xqueue.ack('jobs', 1); :code
SELECT id, status, owner, runat FROM jobs WHERE id = 1;
SELECT xqueue.stats('jobs')->'calls'->'ttr' AS ttr;
SELECT xqueue.touch('jobs', 1, '1 s'); :code
SELECT xqueue.touch('jobs', 1, '-1 s'); :code
SELECT xqueue.take('jobs', ttr => '-1 s'); :code
SELECT xqueue.put('jobs', '{"id": 5, "ttr": "1 h"}', ttr => '1 hour'); :code
SELECT xqueue.put('jobs', '{"id": 5, "ttr": "soon"}'); :code
SELECT xqueue.check('jobs');
DROP TABLE jobs;
