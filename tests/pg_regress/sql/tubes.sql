-- priority, tube and tube_stats.
\set SHOW_CONTEXT never
\set code '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'

-- Smaller numbers first, then the key
CREATE TABLE jobs (id int PRIMARY KEY);
SELECT xqueue.upgrade('jobs', '{"features": {"priority": true}}')->'fields' AS fields;
INSERT INTO jobs VALUES (1), (2);
SELECT id, priority FROM xqueue.put(NULL::jobs, '[{"id": 3, "priority": 5}, {"id": 4, "priority": -5}]');
SELECT id, priority FROM xqueue.put(NULL::jobs, '[{"id": 6}, {"id": 5}]', priority => -1);
SELECT id, priority FROM xqueue.take(NULL::jobs);
SELECT id, priority FROM xqueue.take(NULL::jobs, count => 9);
SELECT id, status FROM xqueue.release(NULL::jobs, '{6,1,3}', '{"priority": -9}');
SELECT xqueue.take('jobs')->'id' AS id;
SELECT (xqueue.put(ROW(8, 'R', NULL, 7)::jobs)).priority;
SELECT xqueue.put('jobs', '{"id": 7, "priority": "high"}'); :code
SELECT xqueue.put('jobs', '{"id": 7, "priority": 1}', priority => 1); :code
SELECT xqueue.put('jobs', '{"id": 7, "priority": null}'); :code
SELECT xqueue.put('jobs', '{"id": 7}', tube => 'a'); :code
SELECT xqueue.upgrade('jobs', '{"tube_stats": ["a"], "features": {"tube": false}}'); :code
SELECT xqueue.check('jobs');
DROP TABLE jobs;

-- A tube is a label; a take can ask for one
CREATE TABLE jobs (id int PRIMARY KEY);
SELECT xqueue.upgrade('jobs', '{"features": {"tube": true}, "tube_stats": ["a", "c"]}') - 'states' AS definition;
INSERT INTO jobs VALUES (1);
SELECT id, tube FROM xqueue.put(NULL::jobs, '[{"id": 2, "tube": "a"}, {"id": 3, "tube": "b"}, {"id": 4, "tube": null}]');
SELECT id, tube FROM xqueue.put(NULL::jobs, '[{"id": 6}, {"id": 5}]', tube => 'a');
SELECT id, tube FROM xqueue.put(NULL::jobs, '{"id": 7}', tube => '');
SELECT xqueue.stats('jobs')->'tubes' AS tubes;
SELECT id, tube FROM xqueue.take(NULL::jobs, tube => 'a', count => 2);
SELECT xqueue.take('jobs', tube => 'b')->'id' AS id;
SELECT id FROM xqueue.take(NULL::jobs, tube => 'b');
SELECT id FROM xqueue.take(NULL::jobs, '10 ms', tube => 'no such tube');
SELECT id FROM xqueue.take(NULL::jobs, tube => '');
SELECT id, tube FROM xqueue.take(NULL::jobs, tube => NULL);
CALL xqueue.next('jobs', '0', 'a') \gset
SELECT :'task'::jsonb - 'owner' AS task;
CALL xqueue.next('jobs', '0', 'b', :'task');
SELECT id, tube, status FROM xqueue.release(NULL::jobs, 2, '{"tube": "c"}');
UPDATE jobs SET tube = 'b' WHERE id = 4;
SELECT id FROM xqueue.take(NULL::jobs, tube => 'b');
SELECT id FROM xqueue.take(NULL::jobs, tube => 'c');
SELECT xqueue.stats('jobs')->'tubes' AS tubes;
SELECT xqueue.stats('jobs')->'transitions' AS transitions;
SELECT xqueue.put('jobs', '{"id": 9, "tube": "a"}', tube => 'b'); :code
SELECT xqueue.put('jobs', '{"id": 9, "tube": {"no": "label"}}') - 'owner' AS task;
DELETE FROM jobs WHERE id = 9;
-- statistics of other tubes: their tasks are counted first
SELECT xqueue.upgrade('jobs', '{"tube_stats": ["b"]}')->'tube_stats' AS tube_stats;
SELECT until('(xqueue.stats(''jobs'')->>''exact'')::boolean');
SELECT xqueue.stats('jobs')->'tubes'->'b'->'tasks' AS b;
SELECT xqueue.upgrade('jobs', '{"tube_stats": "b"}'); :code
SELECT xqueue.upgrade('jobs', jsonb_build_object('tube_stats', (SELECT jsonb_agg(n::text) FROM generate_series(1, 17) n)));
:code
SELECT xqueue.upgrade('jobs', '{"features": {"tube": false}}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"tube": false}, "tube_stats": []}')->'features'->'tube' AS tube;
SELECT xqueue.stats('jobs')->'tubes' AS tubes;
SELECT xqueue.take('jobs', tube => 'b'); :code
SELECT xqueue.check('jobs');
DROP TABLE jobs;

-- Tube and priority together, of other types, and a key of several columns
CREATE TYPE colour AS ENUM ('red', 'green');
CREATE TABLE parts (region text, no int, colour colour, urgency smallint DEFAULT 0, PRIMARY KEY (region, no));
SELECT xqueue.upgrade('parts', '{"fields": {"tube": "colour", "priority": "urgency"}, "features": {"tube": true, "priority": true}}')->'fields' AS fields;
INSERT INTO parts VALUES ('a', 1, 'red', 1), ('a', 2, 'green', 2), ('b', 1, 'red', 0), ('b', 2, 'green', 1), ('c', 1, 'red', 0);
SELECT region, no FROM xqueue.take(NULL::parts, tube => 'red', count => 2);
SELECT region, no FROM xqueue.put(NULL::parts, '{"region": "d", "no": 1}', priority => 0, tube => 'green');
SELECT region, no FROM xqueue.take(NULL::parts, count => 9);
SELECT xqueue.take('parts', tube => 'blue'); :code
SELECT xqueue.put('parts', '{"region": "d", "no": 2}', priority => 40000); :code
SELECT xqueue.check('parts');
DROP TABLE parts;
DROP TYPE colour;

-- A tube of a type that has no order, or no equality
CREATE TABLE jobs (id int PRIMARY KEY, place point, data xid);
SELECT xqueue.upgrade('jobs', '{"fields": {"tube": "place"}, "features": {"tube": true}}'); :code
SELECT xqueue.upgrade('jobs', '{"fields": {"tube": "data"}, "features": {"tube": true}}'); :code
SELECT xqueue.upgrade('jobs', '{"fields": {"priority": "place"}, "features": {"priority": true}}'); :code
SELECT count(*) AS "nothing has happened" FROM xqueue.queues WHERE queue = 'jobs'::regclass;
DROP TABLE jobs;
