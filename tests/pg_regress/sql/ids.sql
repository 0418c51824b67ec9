-- Where the key of a task comes from.
\set SHOW_CONTEXT never
\set code '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'

-- auto_increment: an identity after the greatest key there is
CREATE TABLE jobs (id bigint PRIMARY KEY, note text);
INSERT INTO jobs VALUES (41);
SELECT xqueue.upgrade('jobs', '{"features": {"id": "auto_increment"}}')->'features'->'id' AS id;
SELECT xqueue.put('jobs', '[{"note": "a"}, {"note": "b"}]') - 'owner' AS task;
SELECT id FROM xqueue.put(jsonb_populate_record(NULL::jobs, '{"note": "c"}'));
INSERT INTO jobs (note) VALUES ('d') RETURNING id;
SELECT xqueue.put('jobs', '{"id": 50}')->'id' AS id;
-- a table with no positive key begins with one, and loses the identity again
CREATE TABLE negative (id int PRIMARY KEY);
INSERT INTO negative VALUES (-5);
SELECT xqueue.upgrade('negative', '{"features": {"id": "auto_increment"}}')->'features'->'id' AS id;
SELECT id FROM xqueue.put(NULL::negative, '{}');
SELECT xqueue.downgrade('negative');
SELECT attidentity FROM pg_attribute WHERE attrelid = 'negative'::regclass AND attname = 'id';
DROP TABLE negative;
-- time64 instead: greater than all keys before
SELECT xqueue.upgrade('jobs', '{"features": {"id": "time64"}}')->'features'->'id' AS id;
SELECT count(*) AS tasks, count(DISTINCT id) AS keys, min(id) > 1700000000000000 AS late
FROM xqueue.put(NULL::jobs, (SELECT jsonb_agg(jsonb_build_object('note', n::text)) FROM generate_series(1, 100) n));
SELECT bool_and(id > before) AS growing FROM (SELECT id, lag(id) OVER (ORDER BY note::int) AS before FROM jobs WHERE id > 1000) AS keys;
SELECT xqueue.time64('jobs') < xqueue.time64('jobs') AS growing;
INSERT INTO jobs (note) VALUES ('by hand') RETURNING id > 1700000000000000 AS late;
-- greater than a key from the future, too, once time64 is switched on again
INSERT INTO jobs (id) VALUES (4000000000000000);
SELECT xqueue.upgrade('jobs', '{"features": {"id": false}}')->'features'->'id' AS id;
SELECT xqueue.upgrade('jobs', '{"features": {"id": "time64"}}')->'features'->'id' AS id;
SELECT id > 4000000000000000 AS late FROM xqueue.put(NULL::jobs, '{"note": "later"}');
SELECT xqueue.upgrade('jobs', '{"features": {"id": "auto_increment"}}')->'features'->'id' AS id;
SELECT id = (SELECT max(id) + 1 FROM jobs) AS "the next" FROM xqueue.put(NULL::jobs, '{"note": "behind it"}');
SELECT xqueue.upgrade('jobs', '{"features": {"id": false}}')->'features'->'id' AS id;
SELECT pg_get_expr(adbin, adrelid) AS "default" FROM pg_attrdef WHERE adrelid = 'jobs'::regclass AND adnum = 1;
SELECT xqueue.put('jobs', '{"note": "no key"}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"id": "required"}}')->'features'->'id' AS id;
SELECT xqueue.put('jobs', '{"note": "no key"}'); :code
SELECT xqueue.put('jobs', '{"id": null}'); :code
SELECT xqueue.put('jobs', '[{"id": 1}, {"note": "no key"}]'); :code
SELECT xqueue.put(jsonb_populate_record(NULL::jobs, '{"note": "no key"}')); :code
SELECT xqueue.put('jobs', '{"id": 1}')->'id' AS id;
SELECT xqueue.check('jobs');
SELECT xqueue.downgrade('jobs');
DROP TABLE jobs;

-- uuid, also as text
CREATE TABLE jobs (id uuid PRIMARY KEY, note text);
SELECT xqueue.upgrade('jobs', '{"features": {"id": "uuid"}}')->'features'->'id' AS id;
SELECT id IS NOT NULL AS has_key, note FROM xqueue.put(NULL::jobs, '[{"note": "a"}, {"note": "b"}]');
SELECT count(DISTINCT id) FROM jobs;
SELECT xqueue.downgrade('jobs');
SELECT count(*) AS defaults FROM pg_attrdef WHERE adrelid = 'jobs'::regclass AND adnum = 1;
DROP TABLE jobs;
CREATE TABLE jobs (id text PRIMARY KEY);
SELECT xqueue.upgrade('jobs', '{"features": {"id": "uuid"}}')->'features'->'id' AS id;
SELECT length(id) FROM xqueue.put(NULL::jobs, '{}');
DROP TABLE jobs;

-- A user's function, which is found with any search path
CREATE SCHEMA app;
CREATE SEQUENCE app.tens START WITH 10 INCREMENT BY 10;
CREATE FUNCTION app."next; ten"() RETURNS bigint LANGUAGE sql AS $$ SELECT pg_catalog.nextval('app.tens') $$;
CREATE TABLE jobs (id bigint PRIMARY KEY, note text);
SET search_path = app, public;
SET client_min_messages = warning;
SELECT xqueue.upgrade('jobs', '{"features": {"id": "\"next; ten\""}}')->'features'->'id' AS id;
RESET search_path;
SELECT id FROM xqueue.put(NULL::jobs, '[{"note": "a"}, {"note": "b"}, {"id": 5, "note": "c"}]');
SELECT xqueue.upgrade('jobs', '{"features": {"id": "no_such_function"}}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"id": "pg_catalog.int8inc"}}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"id": "app.next_ten(); DROP TABLE jobs"}}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"id": true}}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"id": "uuid"}}'); :code
SELECT xqueue.upgrade('jobs')->'features'->'id' AS id;
DROP TABLE jobs;
CREATE FUNCTION app.word() RETURNS text LANGUAGE sql AS $$ SELECT 'word' $$;
CREATE TABLE jobs (id bigint PRIMARY KEY);
SELECT xqueue.upgrade('jobs', '{"features": {"id": "app.word"}}'); :code
DROP TABLE jobs;

-- A default of the user's own stays
CREATE TABLE jobs (id serial PRIMARY KEY, note text);
SELECT xqueue.upgrade('jobs', '{"features": {"id": "auto_increment"}}')->'features'->'id' AS id;
SELECT id FROM xqueue.put(NULL::jobs, '{}');
SELECT xqueue.upgrade('jobs', '{"features": {"id": "app.\"next; ten\""}}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"id": false}}')->'features'->'id' AS id;
SELECT id FROM xqueue.put(NULL::jobs, '{}');
DROP TABLE jobs;
CREATE TABLE jobs (id int GENERATED ALWAYS AS IDENTITY (START 100) PRIMARY KEY);
SELECT xqueue.upgrade('jobs', '{"features": {"id": "auto_increment"}}')->'features'->'id' AS id;
SELECT xqueue.upgrade('jobs', '{"features": {"id": false}}')->'features'->'id' AS id;
SELECT id FROM xqueue.put(NULL::jobs, '{}');
DROP TABLE jobs;

-- Types of keys that do not allow it
CREATE TABLE jobs (id text PRIMARY KEY);
SELECT xqueue.upgrade('jobs', '{"features": {"id": "auto_increment"}}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"id": "time64"}}'); :code
DROP TABLE jobs;
CREATE TABLE parts (a int, b int, PRIMARY KEY (a, b));
SELECT xqueue.upgrade('parts', '{"features": {"id": "auto_increment"}}'); :code
SELECT xqueue.upgrade('parts', '{"features": {"id": "required"}}')->'features'->'id' AS id;
SELECT xqueue.put('parts', '{"a": 1}'); :code
SELECT a, b FROM xqueue.put(NULL::parts, '{"a": 1, "b": 2}');
DROP TABLE parts;

-- create() makes the key's column accordingly
SELECT xqueue.create('made', '{"features": {"id": "uuid"}}')->'features'->'id' AS id;
SELECT format_type(atttypid, NULL) AS type FROM pg_attribute WHERE attrelid = 'made'::regclass AND attnum = 1;
SELECT payload FROM xqueue.put(NULL::made, '{"payload": 1}');
SELECT xqueue.drop('made');
SELECT xqueue.create('made', '{"features": {"id": "time64"}}')->'features'->'id' AS id;
SELECT id > 1700000000000000 AS late FROM xqueue.put(NULL::made, '{"payload": 1}');
SELECT xqueue.drop('made');
DROP SCHEMA app CASCADE;
