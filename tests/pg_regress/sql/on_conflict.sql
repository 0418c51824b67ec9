-- put of tasks whose keys exist already.
\set SHOW_CONTEXT never
\set code '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
CREATE TABLE jobs (id text PRIMARY KEY, payload jsonb, note text DEFAULT 'none');
SELECT xqueue.upgrade('jobs', '{"features": {"delayed": true, "priority": true, "tube": true, "ttl": true, "ttr": true, "keep": true, "buried": true}}')->'key' AS key;
SELECT xqueue.put('jobs', '{"id": "a", "payload": 1}')->'payload' AS put;
SELECT xqueue.put('jobs', '{"id": "a", "payload": 2}'); :code
SELECT xqueue.put('jobs', '{"id": "a", "payload": 2}', on_conflict => 'error'); :code
SELECT xqueue.put('jobs', '{"id": "a", "payload": 2}', on_conflict => 'ignore'); :code
SELECT xqueue.put('jobs', '{"id": "a", "payload": 2}', on_conflict => NULL); :code
-- nothing: returns the existing task
SELECT t->'id' AS id, t->'payload' AS payload FROM xqueue.put('jobs', '{"id": "a", "payload": 2}', on_conflict => 'nothing') AS t;
SELECT t->'id' AS id, t->'payload' AS payload
  FROM xqueue.put('jobs', '[{"id": "b", "payload": 3}, {"id": "a", "payload": 4}, {"id": "b", "payload": 5}]', on_conflict => 'nothing') AS t;
SELECT id, payload, note FROM xqueue.put(ROW('a', '6', 'x', 'R', NULL, NULL, 0, NULL, NULL, NULL)::jobs, on_conflict => 'nothing');
-- update: sets the given columns
SELECT id, payload, note, priority FROM xqueue.put(NULL::jobs, '{"id": "a", "note": "new"}', priority => 7, on_conflict => 'update');
SELECT id, payload, note, priority, tube
  FROM xqueue.put(NULL::jobs, '[{"id": "c", "payload": 1}, {"id": "a", "payload": [2]}, {"id": "c", "note": "twice"}]', tube => 't', on_conflict => 'update');
SELECT id, payload, note FROM xqueue.put(ROW('a', '6', 'x', 'R', NULL, NULL, 0, NULL, NULL, NULL)::jobs, on_conflict => 'update');
SELECT id, payload FROM xqueue.put(NULL::jobs, '{"id": "a"}', on_conflict => 'update');
-- counted: three were put
SELECT stats->'calls'->'put' AS put, stats->'tasks'->'total' AS total, stats->'exact' AS exact FROM xqueue.stats('jobs') AS stats;
SELECT xqueue.check('jobs');
-- a key of several columns, and one that the queue gives
CREATE TABLE pairs (a int, b int, n int, PRIMARY KEY (b, a));
SELECT xqueue.upgrade('pairs')->'key' AS key;
SELECT t.a, t.b, t.n FROM xqueue.put(NULL::pairs, '[{"a": 1, "b": 2, "n": 3}, {"a": 1, "b": 2, "n": 4}, {"a": 2, "b": 2}]', on_conflict => 'update') AS t;
SELECT t.a, t.b, t.n FROM xqueue.put(NULL::pairs, '[{"a": 1, "b": 2, "n": 5}, {"a": 3, "b": 2}]', on_conflict => 'nothing') AS t;
SELECT xqueue.create('plain')->'key' AS key;
SELECT t.id FROM xqueue.put(NULL::plain, '[{}, {"payload": 1}]', on_conflict => 'nothing') AS t;
SELECT t.id, t.payload FROM xqueue.put(NULL::plain, '[{"payload": 2}, {"id": 1, "payload": 3}]', on_conflict => 'update') AS t;
-- on_conflict does not apply to other constraints
CREATE UNIQUE INDEX ON jobs (note) WHERE note <> 'none';
SELECT xqueue.put('jobs', '{"id": "d", "note": "x"}', on_conflict => 'nothing'); :code
-- only new tasks need room
SELECT xqueue.create('few', '{"features": {"capacity": 2}}')->'features'->'capacity' AS capacity;
SELECT count(*) FROM xqueue.put('few', '[{"id": 1}, {"id": 2}]');
SELECT t->'id' AS id FROM xqueue.put('few', '[{"id": 2}, {"id": 1}]', on_conflict => 'nothing') AS t;
SELECT t->'payload' AS payload FROM xqueue.put('few', '{"id": 2, "payload": 3}', on_conflict => 'update') AS t;
SELECT count(*) FROM xqueue.put('few', '[{"id": 1, "payload": 4}, {"id": 3}]', on_conflict => 'update');
SELECT id, payload FROM few ORDER BY id;
-- a new key that is given twice needs room once, and each generated key needs its own
SELECT xqueue.create('one', '{"features": {"capacity": 1}}')->'features'->'capacity' AS capacity;
SELECT t.id, t.payload FROM xqueue.put(NULL::one, '[{"id": 1, "payload": 1}, {"id": 1, "payload": 2}]', on_conflict => 'nothing') AS t;
SELECT t.id, t.payload FROM xqueue.put(NULL::one, '[{"id": 1, "payload": 3}, {"id": 1, "payload": 4}]', on_conflict => 'update') AS t;
SELECT count(*) FROM xqueue.put('one', '[{"id": 2}, {"id": 2}]', on_conflict => 'update');
SELECT s->'tasks'->'total' AS total, s->'reserved' AS reserved FROM xqueue.stats('one') s;
SELECT xqueue.put('one', '[{}, {}]', on_conflict => 'nothing'); :code
-- tasks that a trigger suppresses or a policy hides are not returned
CREATE FUNCTION suppress() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER suppress BEFORE INSERT ON plain FOR EACH ROW EXECUTE FUNCTION suppress();
SELECT count(*) FROM xqueue.put('plain', '{"id": 50}', on_conflict => 'nothing');
DROP TRIGGER suppress ON plain;
DROP FUNCTION suppress();
CREATE ROLE regress_on_conflict;
ALTER TABLE plain ENABLE ROW LEVEL SECURITY;
CREATE POLICY odd ON plain TO regress_on_conflict USING (id % 2 = 1) WITH CHECK (true);
GRANT ALL ON plain TO regress_on_conflict;
SET ROLE regress_on_conflict;
SELECT t->'id' AS id FROM xqueue.put('plain', '[{"id": 2}, {"id": 1}]', on_conflict => 'nothing') AS t;
SELECT xqueue.put('plain', '{"id": 2, "payload": 7}', on_conflict => 'update'); :code
RESET ROLE;
REVOKE ALL ON plain FROM regress_on_conflict;
GRANT SELECT, INSERT ON few TO regress_on_conflict;
SET ROLE regress_on_conflict;
SELECT t->'id' AS id FROM xqueue.put('few', '{"id": 2}', on_conflict => 'nothing') AS t;
SELECT xqueue.put('few', '{"id": 2, "payload": 7}', on_conflict => 'update'); :code
RESET ROLE;
DROP TABLE jobs, pairs, plain, few, one;
DROP ROLE regress_on_conflict;
