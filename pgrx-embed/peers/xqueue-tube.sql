Tubes: feature tube, each take of one tube. What the ways to call xqueue have in common then.

-- install --
SELECT xqueue.create('measure.tubes', '{"features": {"tube": true}}', if_not_exists => true)

-- tables --
measure.tubes

-- empty --
TRUNCATE measure.tubes RESTART IDENTITY

-- fill --
INSERT INTO measure.tubes (tube, payload) SELECT n % {tubes}, '{"n": 1}' FROM generate_series(1, {tubes} * {count}) n

-- begin --
\set tube random(0, {tubes} - 1)

-- of a tube --
, tube => :tube::text

-- put --
SELECT id, payload FROM xqueue.put(NULL::measure.tubes, '{"payload": {"n": 1}}', tube => :tube::text)
