-- Keys without a type, which drivers send: accepted and refused forms.
\set SHOW_CONTEXT never
\set code '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
CREATE TABLE jobs (id bigint PRIMARY KEY);
SELECT xqueue.upgrade('jobs')->'key' AS key;
INSERT INTO jobs SELECT generate_series(1, 40);
SELECT count(*) FROM xqueue.take(NULL::jobs, count => 30);
-- one key: a number, an object, a task as it was returned
SELECT id FROM xqueue.ack(NULL::jobs, '1');
SELECT id FROM xqueue.ack(NULL::jobs, '{"id": 2}');
SELECT id FROM xqueue.ack(NULL::jobs, '{"id": "3", "status": "T"}');
-- several keys: an SQL array, a list with commas, JSON
SELECT id FROM xqueue.ack(NULL::jobs, '{4,5}');
SELECT id FROM xqueue.ack(NULL::jobs, '6, 7');
SELECT id FROM xqueue.ack(NULL::jobs, '[8, {"id": 9}]');
SELECT count(*) FROM xqueue.ack(NULL::jobs, '{}');
SELECT count(*) FROM xqueue.ack(NULL::jobs, '[]');
-- of type varchar, which JDBC uses for strings
SELECT id FROM xqueue.ack(NULL::jobs, '21'::varchar);
SELECT id FROM xqueue.ack(NULL::jobs, '25, 26'::varchar(10));
-- other forms are refused
SELECT xqueue.ack('jobs', '10,'); :code
SELECT xqueue.ack('jobs', '{"id": null}'); :code
SELECT xqueue.ack('jobs', '[10, [11]]'); :code
SELECT xqueue.ack('jobs', ''); :code
-- other parameters accept them, too
SELECT id FROM xqueue.take(NULL::jobs, id => '31,32');
SELECT id FROM xqueue.take(NULL::jobs, done => '31,32');
SELECT xqueue.wait('jobs', '{"id": 1}');
SELECT s->>'state' AS state FROM xqueue.stats('jobs', '[10, 40]') AS s;
DROP TABLE jobs;

-- uuids
CREATE TABLE jobs (id uuid PRIMARY KEY);
SELECT xqueue.upgrade('jobs')->'key' AS key;
INSERT INTO jobs SELECT format('00000000-0000-0000-0000-00000000000%s', n)::uuid FROM generate_series(1, 4) AS n;
SELECT count(*) FROM xqueue.take(NULL::jobs, count => 4);
SELECT id FROM xqueue.ack(NULL::jobs, '00000000-0000-0000-0000-000000000001, 00000000-0000-0000-0000-000000000002');
SELECT id FROM xqueue.ack(NULL::jobs, '["00000000-0000-0000-0000-000000000003"]');
SELECT id FROM xqueue.ack(NULL::jobs, '{"id": "00000000-0000-0000-0000-000000000004"}');
DROP TABLE jobs;

-- a text without a type is always the key itself; with a type, the type decides
CREATE TABLE jobs (id text PRIMARY KEY);
SELECT xqueue.upgrade('jobs')->'key' AS key;
INSERT INTO jobs VALUES ('{"id": "a"}'), ('a'), ('a,b'), ('b');
SELECT count(*) FROM xqueue.take(NULL::jobs, count => 4);
SELECT id FROM xqueue.ack(NULL::jobs, '{"id": "a"}');
SELECT id FROM xqueue.ack(NULL::jobs, 'a,b');
SELECT xqueue.ack('jobs', '{a,b}'); :code
SELECT xqueue.ack('jobs', '{"id": "a"}'); :code
SELECT id FROM xqueue.ack(NULL::jobs, '{a}'::text[]);
SELECT id FROM xqueue.ack(NULL::jobs, '{"id": "b"}'::jsonb);
DROP TABLE jobs;

-- brackets and commas that belong to the key
CREATE TABLE jobs (id int4range PRIMARY KEY);
SELECT xqueue.upgrade('jobs')->'key' AS key;
INSERT INTO jobs VALUES ('[1,3)'), ('[5,7)');
SELECT count(*) FROM xqueue.take(NULL::jobs, count => 2);
SELECT id FROM xqueue.ack(NULL::jobs, '[1,2]');
SELECT id FROM xqueue.ack(NULL::jobs, '{"[5,7)"}');
DROP TABLE jobs;

-- Digits that floating point cannot hold
CREATE TABLE jobs (id numeric PRIMARY KEY);
SELECT xqueue.upgrade('jobs')->'key' AS key;
INSERT INTO jobs VALUES (123456789012345678901234), (7.50);
SELECT xqueue.stats('jobs', 123456789012345678901234)->'key' AS long, xqueue.stats('jobs', 7.5)->'key' AS short;
DROP TABLE jobs;

-- A null in JSON is no key, and time64 does not need an integer key
CREATE TABLE jobs (id text PRIMARY KEY);
SELECT xqueue.upgrade('jobs')->'key' AS key;
INSERT INTO jobs VALUES ('null');
SELECT xqueue.delete('jobs', '[null]'::jsonb); :code
SELECT xqueue.time64('jobs') > 0 AS made;
DROP TABLE jobs;

-- Names that PostgreSQL would cut off
\set VERBOSITY terse
SELECT xqueue.create(repeat('q', 63))->>'queue' = 'public.' || repeat('q', 63) AS made;
SELECT xqueue.create(repeat('q', 64)); :code
SELECT xqueue.put(repeat('q', 64), '{}'); :code
SELECT xqueue.create('public."' || repeat('ö', 32) || '"'); :code
SELECT xqueue.create('"' || repeat('"', 126) || '"')->>'queue' = 'public."' || repeat('"', 126) || '"' AS made;
SELECT xqueue.drop('"' || repeat('"', 126) || '"');
\set VERBOSITY default
CREATE TABLE jobs (id int PRIMARY KEY);
SELECT xqueue.upgrade('jobs', jsonb_build_object('fields', jsonb_build_object('status', repeat('s', 64)))); :code
SELECT xqueue.upgrade('jobs', jsonb_build_object('fields', jsonb_build_object('status', repeat('s', 63))))->'fields'->>'status' = repeat('s', 63) AS made;
DROP TABLE jobs;
SELECT xqueue.drop(repeat('q', 63));
