-- switch, snatch, restart, delete, truncate, wait and put_wait.
\set SHOW_CONTEXT never
\set code '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
CREATE TABLE jobs (id int PRIMARY KEY, note text);
SELECT xqueue.upgrade('jobs', '{"features": {"delayed": true, "buried": true, "keep": true}}')->'fields' AS fields;
INSERT INTO jobs VALUES (1), (2), (3), (4), (5);

-- switch: moves a task that no session holds to any state
SELECT xqueue.switch('jobs', 1, 'B') - 'owner' AS task;
SELECT id, status FROM xqueue.switch(NULL::jobs, 1, 'done');
SELECT (xqueue.switch(j, status => 'R')).status FROM jobs j WHERE id = 1;
SELECT id, status, runat > now() AS later FROM xqueue.switch(NULL::jobs, ARRAY[1, 2], 'W', '1 hour');
SELECT id, status, runat FROM xqueue.switch(NULL::jobs, 1, 'buried');
SELECT id, status, runat FROM xqueue.switch(NULL::jobs, 1, 'B');
SELECT xqueue.switch('jobs', 1, 'T'); :code
SELECT xqueue.switch('jobs', 1, 'Q'); :code
SELECT xqueue.switch('jobs', 1, NULL); :code
SELECT xqueue.switch(NULL::jobs, 1); :code
SELECT xqueue.switch('jobs', 1, 'W'); :code
SELECT xqueue.switch('jobs', 99, 'R'); :code
SELECT id, status FROM xqueue.switch(NULL::jobs, ARRAY[1, 2], 'R');
SELECT id FROM xqueue.take(NULL::jobs);
SELECT * FROM said('SELECT xqueue.switch(''jobs'', 1, ''R'')');
SELECT * FROM said('SELECT xqueue.switch(''jobs'', ARRAY[2, 1], ''B'')');
SELECT id, status FROM jobs ORDER BY id;

-- snatch: a taken task, of any session
SELECT xqueue.snatch('jobs', 1) - 'owner' AS task;
SELECT xqueue.ack('jobs', 1); :code
SELECT xqueue.snatch('jobs', 1); :code
SELECT id FROM xqueue.take(NULL::jobs, count => 2);
SELECT id, status, owner, runat > now() AS later FROM xqueue.snatch(NULL::jobs, 1, '1 hour');
SELECT (xqueue.snatch(j)).status FROM jobs j WHERE id = 2;
SELECT xqueue.snatch('jobs', 1, '-1 s'); :code

-- restart: W, Z and D
SELECT id, status, runat FROM xqueue.restart(NULL::jobs, 1);
SELECT xqueue.restart('jobs', 1); :code
SELECT id FROM xqueue.take(NULL::jobs, count => 2);
SELECT id, status FROM xqueue.ack(NULL::jobs, 1);
SELECT id, status, runat > now() AS later FROM xqueue.restart(NULL::jobs, 1, '1 hour');
SELECT (xqueue.restart(j)).status FROM jobs j WHERE id = 1;
SELECT xqueue.switch('jobs', 3, 'B')->'status' AS status;
SELECT xqueue.restart('jobs', 3); :code

-- delete: in any state; returns the task as it was
SELECT xqueue.delete('jobs', 2) - 'owner' AS task;
SELECT id, status FROM xqueue.delete(NULL::jobs, '{3,4}');
SELECT xqueue.delete('jobs', ARRAY[1, 2]); :code
SELECT (xqueue.delete(j)).id FROM jobs j WHERE id = 5;
SELECT xqueue.delete(NULL::jobs); :code
SELECT id, status FROM jobs;
SELECT xqueue.stats('jobs')->'calls' AS calls, xqueue.stats('jobs')->'transitions' AS transitions;
SELECT xqueue.check('jobs');

-- truncate
SELECT xqueue.truncate('jobs');
INSERT INTO jobs VALUES (1);
BEGIN;
SELECT xqueue.truncate(NULL::jobs);
ROLLBACK;
SELECT xqueue.stats('jobs')->'tasks' AS tasks;
SELECT xqueue.truncate('no_such_table'); :code
CREATE TABLE children (job int REFERENCES jobs);
SELECT xqueue.truncate('jobs'); :code
DROP TABLE children;
-- tables that inherit from it keep their rows
BEGIN;
CREATE TABLE heirs () INHERITS (jobs);
INSERT INTO heirs (id) VALUES (2);
SELECT xqueue.truncate('jobs');
SELECT id FROM heirs;
ROLLBACK;

-- wait: returns immediately if the task has been processed already
SELECT xqueue.wait('jobs', 99);
SELECT xqueue.wait('jobs', 1, '10 ms');
SELECT xqueue.wait(NULL::jobs, 1, '0');
SELECT xqueue.wait(j, timeout => '0') FROM jobs j;
SELECT id FROM xqueue.take(NULL::jobs);
SELECT xqueue.wait('jobs', 1, '10 ms');
SELECT id FROM xqueue.ack(NULL::jobs, 1);
SELECT xqueue.wait('jobs', 1);
SELECT id FROM xqueue.switch(NULL::jobs, 1, 'B');
SELECT xqueue.wait('jobs', 1);
SELECT xqueue.wait('jobs', ARRAY[1, 2]); :code
SELECT xqueue.wait('jobs', NULL::int); :code
SELECT xqueue.wait('jobs', 1, '-1 s'); :code
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT xqueue.wait('jobs', 1, '0');
SELECT xqueue.wait('jobs', 1); :code
ROLLBACK;

-- put_wait: no consumer processes the task in time, or its ttl expires
CALL xqueue.put_wait('jobs', '{"id": 2}', '10 ms');
CALL xqueue.put_wait(NULL::jobs, '{"id": 3}', '0');
CALL xqueue.put_wait('jobs', '[{"id": 4}]', '0'); :code
CALL xqueue.put_wait('jobs', NULL, '0'); :code
CALL xqueue.put_wait('jobs', '{"id": 2}', '0'); :code
CALL xqueue.put_wait('jobs', '{"id": 4}', '-1 s'); :code
BEGIN;
CALL xqueue.put_wait('jobs', '{"id": 4}', '0'); :code
ROLLBACK;
SELECT xqueue.upgrade('jobs', '{"features": {"ttl": "20 ms"}}')->'features'->'ttl' AS ttl;
CALL xqueue.put_wait('jobs', '{"id": 4}', '10 s');
SELECT id, status FROM jobs ORDER BY id;
SELECT xqueue.check('jobs');
DROP TABLE jobs;
