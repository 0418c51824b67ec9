Functions that give jsonb: what reads well in psql and needs no type.

-- put --
SELECT task->>'id' AS id, task->'payload' AS payload FROM xqueue.put('measure.queue', '{"payload": {"n": 1}}') task

-- take --
SELECT task->>'id' AS id, task->'payload' AS payload FROM xqueue.take('measure.queue') task

-- ack --
SELECT task->>'id' AS id FROM xqueue.ack('measure.queue', :id::bigint) task
