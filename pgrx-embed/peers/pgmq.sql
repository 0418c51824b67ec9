Its functions as its clients call them; a message that was read is invisible for 30 s, then anybody's again.

-- install --
SELECT pgmq.create('measure')

-- tables --
pgmq.q_measure

-- empty --
TRUNCATE pgmq.q_measure RESTART IDENTITY

-- fill --
INSERT INTO pgmq.q_measure (vt, message) SELECT clock_timestamp(), '{"n": 1}' FROM generate_series(1, {count})

-- task --
{"n": 1}

-- put --
SELECT * FROM pgmq.send('measure', '{"n": 1}'::jsonb)

-- take --
SELECT msg_id AS id, message FROM pgmq.read('measure', 30, 1)

-- ack --
SELECT pgmq.delete('measure', :id::bigint)

-- put many --
SELECT pgmq.send_batch('measure', ARRAY(SELECT jsonb_array_elements(:tasks::jsonb)))

-- take many --
SELECT array_agg(msg_id) AS ids FROM pgmq.read('measure', 30, {many})

-- ack many --
SELECT pgmq.delete('measure', :ids::bigint[])
