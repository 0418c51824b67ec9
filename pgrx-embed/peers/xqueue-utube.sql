Sub-queues: feature utube. What the ways to call xqueue have in common then.

-- install --
SELECT xqueue.create('measure.sub_queues', '{"features": {"utube": true}}', if_not_exists => true)

-- tables --
measure.sub_queues

-- empty --
TRUNCATE measure.sub_queues RESTART IDENTITY

-- fill --
INSERT INTO measure.sub_queues (tube, payload) SELECT n % {tubes}, '{"n": 1}' FROM generate_series(1, {tubes} * {count}) n

-- put --
\set tube random(0, {tubes} - 1)
SELECT id, payload FROM xqueue.put(NULL::measure.sub_queues, '{"payload": {"n": 1}}', tube => :tube::text)
