Sub-queues by hand: a row for each says whether a task of it is in flight and when it was served, and is locked, or
passed over, by a take. Prepared statements and a partial index, as without sub-queues. The task is locked as well, since
it may have gone after the snapshot was taken; the next one is found then.

-- install --
DROP TABLE IF EXISTS measure.hand_tubes, measure.hand_utube;
CREATE TABLE measure.hand_tubes (tube text PRIMARY KEY, is_busy boolean NOT NULL DEFAULT false,
                                 served timestamptz NOT NULL DEFAULT '-infinity');
CREATE TABLE measure.hand_utube (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tube text NOT NULL,
                                 payload jsonb, status "char" NOT NULL DEFAULT 'R', owner int);
CREATE INDEX ON measure.hand_utube (tube, id) WHERE status = 'R'

-- tables --
measure.hand_tubes, measure.hand_utube

-- empty --
TRUNCATE measure.hand_tubes, measure.hand_utube RESTART IDENTITY

-- fill --
INSERT INTO measure.hand_tubes (tube) SELECT generate_series(0, {tubes} - 1);
INSERT INTO measure.hand_utube (tube, payload) SELECT n % {tubes}, '{"n": 1}' FROM generate_series(1, {tubes} * {count}) n

-- put --
\set tube random(0, {tubes} - 1)
INSERT INTO measure.hand_utube (tube, payload) VALUES (:tube::text, '{"n": 1}') RETURNING id, payload

-- take --
WITH turn AS (SELECT tube FROM measure.hand_tubes AS candidate
              WHERE NOT is_busy
                    AND EXISTS (SELECT FROM measure.hand_utube WHERE tube = candidate.tube AND status = 'R')
              ORDER BY served FOR UPDATE SKIP LOCKED LIMIT 1),
     busy AS (UPDATE measure.hand_tubes SET is_busy = true, served = clock_timestamp()
              WHERE tube = (SELECT tube FROM turn))
UPDATE measure.hand_utube SET status = 'T', owner = pg_backend_pid()
WHERE id = (SELECT id FROM measure.hand_utube WHERE tube = (SELECT tube FROM turn) AND status = 'R'
            ORDER BY id FOR UPDATE LIMIT 1)
RETURNING id, payload

-- ack --
WITH acked AS (DELETE FROM measure.hand_utube WHERE id = :id RETURNING tube)
UPDATE measure.hand_tubes SET is_busy = false WHERE tube = (SELECT tube FROM acked)
