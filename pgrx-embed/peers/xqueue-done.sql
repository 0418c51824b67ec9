take with done acks a task, or a batch, and takes the next in one statement.

-- put --
SELECT id FROM xqueue.put(NULL::measure.queue, '{"payload": {"n": 1}}')

-- first --
SELECT id, payload FROM xqueue.take(NULL::measure.queue{tube})

-- next --
SELECT id, payload FROM xqueue.take(NULL::measure.queue{tube}, done => :id::bigint)

-- first many --
SELECT array_agg(id) AS ids FROM xqueue.take(NULL::measure.queue, count => {many})

-- next many --
SELECT array_agg(id) AS ids FROM xqueue.take(NULL::measure.queue, count => {many}, done => :ids::bigint[])
