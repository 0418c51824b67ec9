Sub-queues: feature utube, functions that give rows.

-- install --
SELECT xqueue.create('measure.sub_queues', '{"features": {"utube": true}}')

-- tables --
measure.sub_queues

-- empty --
TRUNCATE measure.sub_queues RESTART IDENTITY

-- fill --
INSERT INTO measure.sub_queues (tube, payload) SELECT n % 10, '{"n": 1}' FROM generate_series(1, 10 * {count}) n

-- put --
\set tube random(0, 9)
SELECT id, payload FROM xqueue.put(NULL::measure.sub_queues, '{"payload": {"n": 1}}', tube => :tube::text)

-- take --
SELECT id, payload FROM xqueue.take(NULL::measure.sub_queues)

-- ack --
SELECT id FROM xqueue.ack(NULL::measure.sub_queues, :id::bigint)
