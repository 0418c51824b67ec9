Tubes by hand: a partial index by tube and key, each take of one tube, prepared statements.

-- install --
DROP TABLE IF EXISTS measure.hand_tube;
CREATE TABLE measure.hand_tube (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tube text NOT NULL,
                                payload jsonb, status "char" NOT NULL DEFAULT 'R', owner int);
CREATE INDEX ON measure.hand_tube (tube, id) WHERE status = 'R'

-- tables --
measure.hand_tube

-- empty --
TRUNCATE measure.hand_tube RESTART IDENTITY

-- fill --
INSERT INTO measure.hand_tube (tube, payload) SELECT n % {tubes}, '{"n": 1}' FROM generate_series(1, {tubes} * {count}) n

-- begin --
\set tube random(0, {tubes} - 1)

-- put --
INSERT INTO measure.hand_tube (tube, payload) VALUES (:tube::text, '{"n": 1}') RETURNING id, payload

-- take --
UPDATE measure.hand_tube SET status = 'T', owner = pg_backend_pid()
WHERE id = (SELECT id FROM measure.hand_tube WHERE tube = :tube::text AND status = 'R' ORDER BY id
            FOR UPDATE SKIP LOCKED LIMIT 1)
RETURNING id, payload

-- ack --
DELETE FROM measure.hand_tube WHERE id = :id RETURNING id
