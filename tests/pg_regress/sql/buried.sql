-- bury, dig, plow and kick.
\set SHOW_CONTEXT never
\set code '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
CREATE TABLE jobs (id int PRIMARY KEY, note text);
SELECT xqueue.upgrade('jobs', '{"features": {"buried": true}}')->'features'->'buried' AS buried;
SELECT indexdef FROM pg_indexes WHERE indexname = 'xqueue_jobs_buried_idx';
INSERT INTO jobs SELECT n, 'n' || n FROM generate_series(1, 8) n;
SELECT id FROM xqueue.take(NULL::jobs, count => 8);

-- Both forms; a row instead of its key; a batch; columns set in the same statement
SELECT xqueue.bury('jobs', 1) - 'owner' AS buried;
SELECT id, status, owner, note FROM xqueue.bury(NULL::jobs, 2, '{"note": "bad"}');
SELECT (xqueue.bury(j)).status FROM jobs j WHERE id = 3;
SELECT id, status FROM xqueue.bury(NULL::jobs, ARRAY[6, 5, 4], update => '{"note": null}');
SELECT id, status, note FROM jobs ORDER BY id;
SELECT count(*) AS "nobody takes them" FROM xqueue.take(NULL::jobs);

-- dig: one task. plow and kick: the n tasks with the least keys, or all
SELECT xqueue.dig('jobs', 2) - 'owner' AS dug;
SELECT (xqueue.dig(j)).status FROM jobs j WHERE id = 6;
SELECT id, status FROM xqueue.plow(NULL::jobs, 1);
SELECT xqueue.plow('jobs', 1) - 'owner' AS plowed;
SELECT xqueue.kick('jobs', 1);
SELECT xqueue.kick(NULL::jobs, 100);
SELECT xqueue.kick('jobs', 100);
SELECT count(*) FROM xqueue.plow(NULL::jobs);
SELECT xqueue.kick('jobs', 0);
SELECT id, status FROM jobs ORDER BY id;
SELECT id FROM xqueue.bury(NULL::jobs, '{7,8}');
SELECT id FROM xqueue.plow(NULL::jobs) ORDER BY id;
SELECT xqueue.stats('jobs')->'calls'->'bury' AS bury, xqueue.stats('jobs')->'calls'->'kick' AS kick;

-- A task buried by hand can be dug out, too
UPDATE jobs SET status = 'B' WHERE id = 1;
SELECT xqueue.dig('jobs', 1)->'status' AS status;

-- Refused calls
SELECT xqueue.bury('jobs', 1); :code
SELECT xqueue.bury('jobs', NULL::int); :code
SELECT xqueue.dig('jobs', 1); :code
SELECT xqueue.plow('jobs', -1); :code
SELECT xqueue.kick('jobs', NULL); :code
SELECT xqueue.plow('jobs', delay => '-1 s'); :code
-- a batch is dug out as a whole, or not
SELECT id FROM xqueue.take(NULL::jobs);
SELECT id FROM xqueue.bury(NULL::jobs, 1);
SELECT xqueue.dig('jobs', ARRAY[1, 2]); :code
SELECT id, status FROM jobs WHERE id <= 2 ORDER BY id;

-- With delay and ttl
SELECT xqueue.upgrade('jobs', '{"features": {"delayed": true, "ttl": true}}')->'features'->'ttl' AS ttl;
SELECT id, status, runat - now() > '1 hour' AS later, date_trunc('second', expires - runat + interval '0.5 s') AS ttl
FROM xqueue.dig(NULL::jobs, 1, '2 hours', '10 minutes');
UPDATE jobs SET status = 'B', runat = NULL WHERE id IN (1, 2);
SELECT id, status, expires > runat AS lives FROM xqueue.plow(NULL::jobs, delay => '2 hours', ttl => '1 s');
SELECT id, status, runat FROM xqueue.restart(NULL::jobs, 1);
SELECT id FROM xqueue.take(NULL::jobs);
SELECT id, expires > now() + '59 minutes' AS lives FROM xqueue.bury(NULL::jobs, 1, ttl => '1 hour');
SELECT xqueue.check('jobs') - 'mark' - 'buried_mark' AS "check";

-- The feature is off
SELECT xqueue.plow('jobs')->'id' AS id;
SELECT xqueue.upgrade('jobs', '{"features": {"buried": false}}')->'features'->'buried' AS buried;
SELECT count(*) AS indexes FROM pg_indexes WHERE indexname = 'xqueue_jobs_buried_idx';
SELECT xqueue.bury('jobs', 1); :code
SELECT xqueue.check('jobs') - 'mark' - 'buried_mark' AS "check";
DROP TABLE jobs;
