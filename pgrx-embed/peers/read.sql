No queue but a yardstick: in place of a take and an ack each client reads a row of its own by its key, and once more. What it
loses as clients grow is what the server and the processors lose with that many processes.

-- install --
CREATE TABLE measure.read (LIKE measure.hand INCLUDING ALL)

-- tables --
measure.read

-- empty --
TRUNCATE measure.read RESTART IDENTITY

-- fill --
INSERT INTO measure.read (payload) SELECT '{"n": 1}' FROM generate_series(1, {count})

-- only reads --
yes

-- take --
\set key random(1, 1000) * :clients - :client_id
SELECT id, payload FROM measure.read WHERE id = :key

-- ack --
SELECT id, payload FROM measure.read WHERE id = :id
