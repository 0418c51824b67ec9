Functions that give rows of the table: what an ORM or a typed driver calls.

-- put --
SELECT id, payload FROM xqueue.put(NULL::measure.queue, '{"payload": {"n": 1}}')

-- take --
SELECT id, payload FROM xqueue.take(NULL::measure.queue{tube})

-- ack --
SELECT id FROM xqueue.ack(NULL::measure.queue, :id::bigint)

-- put many --
SELECT id FROM xqueue.put(NULL::measure.queue, :tasks::jsonb)

-- take many --
SELECT array_agg(id) AS ids FROM xqueue.take(NULL::measure.queue, count => {many})

-- ack many --
SELECT id FROM xqueue.ack(NULL::measure.queue, :ids::bigint[])
