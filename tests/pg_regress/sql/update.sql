-- update in ack, release and bury: columns to set in the same statement.
\set SHOW_CONTEXT never
\set code '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
CREATE DOMAIN percent AS int CHECK (VALUE BETWEEN 0 AND 100);
CREATE TYPE pair AS (a int, b text);
CREATE TABLE jobs (id int PRIMARY KEY, progress percent DEFAULT 0, tags text[], data jsonb, raw json, at timestamptz, pair pair,
    code varchar(3), half int GENERATED ALWAYS AS (progress / 2) STORED, "odd ""name" text);
SELECT xqueue.upgrade('jobs', '{"features": {"delayed": true, "buried": true, "keep": true, "ttl": true, "ttr": true, "priority": true, "tube": true, "retry": true}}')->'fields' AS fields;
INSERT INTO jobs SELECT n FROM generate_series(1, 5) n;
SELECT id FROM xqueue.take(NULL::jobs, count => 5);

-- Values of each kind
SELECT id, status, progress, half, tags, data, raw, at, pair, code, "odd ""name" FROM xqueue.release(NULL::jobs, 1,
    '{"progress": 50, "tags": ["a", "b c"], "data": {"deep": [1, null]}, "raw": {"b": 1, "a": 2}, "at": "2030-01-01 00:00:00+00", "pair": {"a": 1, "b": "x"}, "code": "abc", "odd \"name": "x"}');
SELECT id FROM xqueue.take(NULL::jobs);
SELECT id, status, progress, tags, data, data IS NULL AS "data is null" FROM xqueue.release(NULL::jobs, 1, '{"progress": "75", "tags": null, "data": null}');
SELECT id FROM xqueue.take(NULL::jobs);
SELECT xqueue.bury('jobs', 1, '{"data": "text", "tags": []}') - 'owner' - 'raw' AS task;
SELECT id, status, progress FROM xqueue.ack(NULL::jobs, ARRAY[2, 3], '{"progress": 100}');
SELECT (xqueue.ack(j, update => '{"progress": 99}')).progress FROM jobs j WHERE id = 4;
SELECT id, status, priority, tube, ttr FROM xqueue.release(NULL::jobs, 5, '{"priority": 3, "tube": "a", "ttr": "1 minute"}', '1 hour');
SELECT id, status FROM xqueue.restart(NULL::jobs, 5);
SELECT id FROM xqueue.take(NULL::jobs, tube => 'a');
SELECT id, status, progress FROM xqueue.release(NULL::jobs, 5, '{}');
SELECT id FROM xqueue.take(NULL::jobs);
SELECT id, status FROM xqueue.release(NULL::jobs, 5, NULL);

-- Refused: keys, the queue's own columns, unknown columns, unfit values. The task stays taken.
SELECT id FROM xqueue.take(NULL::jobs);
SELECT xqueue.release('jobs', 5, '{"id": 6}'); :code
SELECT xqueue.release('jobs', 5, '{"status": "D"}'); :code
SELECT xqueue.ack('jobs', 5, '{"owner": null}'); :code
SELECT xqueue.bury('jobs', 5, '{"runat": "2030-01-01"}'); :code
SELECT xqueue.release('jobs', 5, '{"half": 1}'); :code
SELECT xqueue.release('jobs', 5, '{"progres": 1}'); :code
SELECT xqueue.release('jobs', 5, '{"progress": 101}'); :code
SELECT xqueue.release('jobs', 5, '{"tags": "no list"}'); :code
SELECT xqueue.release('jobs', 5, '{"code": "abcd"}'); :code
SELECT xqueue.release('jobs', 5, '{"priority": null}'); :code
SELECT xqueue.release('jobs', 5, '[{"progress": 1}]'); :code
SELECT xqueue.release('jobs', 5, 'null'); :code
SELECT xqueue.release('jobs', 5, '1 day'); :code
SELECT xqueue.release('jobs', ARRAY[5, 99], '{"progress": 1}'); :code
SELECT id, status, progress, attempts FROM jobs WHERE id = 5;
SELECT xqueue.check('jobs');
DROP TABLE jobs;

-- A column of a feature that is off is the user's own
CREATE TABLE jobs (id int PRIMARY KEY, expires text, ttl int, ttr text, reason text, tube int, priority text, attempts text, runat text);
SELECT xqueue.upgrade('jobs')->'fields' AS fields;
SELECT id, status FROM xqueue.put(NULL::jobs, '{"id": 1, "expires": "never", "ttl": 1, "ttr": "x", "reason": "y", "tube": 5, "priority": "high", "attempts": "many", "runat": "soon"}');
SELECT id FROM xqueue.take(NULL::jobs);
SELECT id, expires, ttl, ttr, reason, tube, priority, attempts, runat, status
FROM xqueue.release(NULL::jobs, 1, '{"expires": "ever", "reason": null, "runat": "later", "attempts": "few"}');
SELECT id FROM xqueue.take(NULL::jobs);
SELECT xqueue.ack('jobs', 1, '{"reason": "done"}'); :code
-- and the feature uses it only if fields names it
SELECT xqueue.upgrade('jobs', '{"features": {"ttl": true}}'); :code
SELECT xqueue.upgrade('jobs', '{"features": {"retry": {"limit": 1}}}'); :code
SELECT xqueue.upgrade('jobs', '{"fields": {"attempts": "tries"}, "features": {"retry": {"limit": 1}}}'); :code
SELECT xqueue.upgrade('jobs', '{"fields": {"expires": "expires"}, "features": {"ttl": true}}'); :code
SELECT xqueue.upgrade('jobs', '{"fields": {"attempts": "tries", "reason": "reason", "tube": "tube", "runat": "due", "expires": "until", "ttr": "length"},
    "features": {"retry": {"limit": 1}, "tube": true, "ttl": true, "ttr": true}}')->'fields' AS fields;
SELECT id, tube, reason FROM xqueue.take(NULL::jobs, tube => '5');
SELECT id, tube, reason FROM xqueue.release(NULL::jobs, 1);
SELECT id, tube, expires, reason FROM jobs;
SELECT xqueue.check('jobs');
SELECT xqueue.downgrade('jobs', drop_columns => true);
SELECT string_agg(attname, ' ' ORDER BY attnum) AS columns FROM pg_attribute WHERE attrelid = 'jobs'::regclass AND attnum > 0 AND NOT attisdropped;
DROP TABLE jobs;
DROP DOMAIN percent;
DROP TYPE pair;
