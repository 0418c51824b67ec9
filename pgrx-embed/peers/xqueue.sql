What all ways to call xqueue have in common.

-- install --
SELECT xqueue.create('measure.queue', if_not_exists => true)

-- tables --
measure.queue

-- empty --
TRUNCATE measure.queue RESTART IDENTITY CASCADE

-- fill --
INSERT INTO measure.queue (payload) SELECT '{"n": 1}' FROM generate_series(1, {count})

-- task --
{"payload": {"n": 1}}
