No queue but a yardstick: the changes that a lifecycle makes of the hand-written table, without a search for the next task
and without a rival for it. Each client takes by their keys tasks that are its own, and acks in the same statement: the
limit of what one statement for both can reach. In a lifecycle it takes the task that it has just put.

-- install --
CREATE TABLE measure.keyed (LIKE measure.hand INCLUDING ALL)

-- tables --
measure.keyed

-- empty --
TRUNCATE measure.keyed RESTART IDENTITY

-- fill --
INSERT INTO measure.keyed (payload) SELECT '{"n": 1}' FROM generate_series(1, {count})

-- lifecycle --
\if :started
\else
\set id 0
\set started 1
\endif
INSERT INTO measure.keyed (payload) VALUES ('{"n": 1}') RETURNING id AS next, payload \gset
WITH acked AS (DELETE FROM measure.keyed WHERE id = :id)
UPDATE measure.keyed SET status = 'T', owner = pg_backend_pid() WHERE id = :next RETURNING id, payload \gset

-- take and ack --
\if :started
\set next :next + :clients
\else
\set id 0
\set next :client_id + 1
\set started 1
\endif
WITH acked AS (DELETE FROM measure.keyed WHERE id = :id)
UPDATE measure.keyed SET status = 'T', owner = pg_backend_pid() WHERE id = :next RETURNING id, payload \gset
