Priorities: feature priority. What the ways to call xqueue have in common then.

-- install --
SELECT xqueue.create('measure.priorities', '{"features": {"priority": true}}', if_not_exists => true)

-- tables --
measure.priorities

-- empty --
TRUNCATE measure.priorities RESTART IDENTITY

-- fill --
INSERT INTO measure.priorities (priority, payload) SELECT n % {priorities}, '{"n": 1}' FROM generate_series(1, {count}) n

-- put --
\set priority random(0, {priorities} - 1)
SELECT id, payload FROM xqueue.put(NULL::measure.priorities, '{"payload": {"n": 1}}', priority => :priority::bigint)
