The fair one: a key, a status with a partial index, who holds the task; prepared statements. No waking, no counters, no
recovery of the tasks of a consumer that dies.

-- install --
CREATE TABLE measure.hand (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                           payload jsonb, status "char" NOT NULL DEFAULT 'R', owner int);
CREATE INDEX ON measure.hand (id) WHERE status = 'R'

-- tables --
measure.hand

-- empty --
TRUNCATE measure.hand RESTART IDENTITY CASCADE

-- fill --
INSERT INTO measure.hand (payload) SELECT '{"n": 1}' FROM generate_series(1, {count})

-- task --
{"n": 1}

-- put --
INSERT INTO measure.hand (payload) VALUES ('{"n": 1}') RETURNING id, payload

-- take --
UPDATE measure.hand SET status = 'T', owner = pg_backend_pid()
WHERE id = (SELECT id FROM measure.hand WHERE status = 'R' ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1)
RETURNING id, payload

-- ack --
DELETE FROM measure.hand WHERE id = :id RETURNING id

-- put many --
INSERT INTO measure.hand (payload) SELECT jsonb_array_elements(:tasks::jsonb) RETURNING id

-- take many --
WITH next AS (SELECT id FROM measure.hand WHERE status = 'R' ORDER BY id FOR UPDATE SKIP LOCKED LIMIT {many}),
     taken AS (UPDATE measure.hand AS task SET status = 'T', owner = pg_backend_pid()
               FROM next WHERE task.id = next.id RETURNING task.id, task.payload)
SELECT array_agg(id) AS ids FROM taken

-- ack many --
DELETE FROM measure.hand WHERE id = ANY (:ids::bigint[])
