Priorities by hand: a partial index by priority and key, prepared statements.

-- install --
DROP TABLE IF EXISTS measure.hand_priorities;
CREATE TABLE measure.hand_priorities (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                                      priority int NOT NULL DEFAULT 0,
                                      payload jsonb, status "char" NOT NULL DEFAULT 'R', owner int);
CREATE INDEX ON measure.hand_priorities (priority, id) WHERE status = 'R'

-- tables --
measure.hand_priorities

-- empty --
TRUNCATE measure.hand_priorities RESTART IDENTITY

-- fill --
INSERT INTO measure.hand_priorities (priority, payload) SELECT n % {priorities}, '{"n": 1}' FROM generate_series(1, {count}) n

-- put --
\set priority random(0, {priorities} - 1)
INSERT INTO measure.hand_priorities (priority, payload) VALUES (:priority, '{"n": 1}') RETURNING id, payload

-- take --
UPDATE measure.hand_priorities SET status = 'T', owner = pg_backend_pid()
WHERE id = (SELECT id FROM measure.hand_priorities WHERE status = 'R' ORDER BY priority, id FOR UPDATE SKIP LOCKED LIMIT 1)
RETURNING id, payload

-- ack --
DELETE FROM measure.hand_priorities WHERE id = :id RETURNING id
