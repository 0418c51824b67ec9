CALL xqueue.next acks a task and takes the next one in one call and one commit.

-- put --
SELECT task->>'id' AS id, task->'payload' AS payload FROM xqueue.put('measure.queue', '{"payload": {"n": 1}}') task

-- first --
CALL xqueue.next('measure.queue', '0'{tube})

-- next --
CALL xqueue.next('measure.queue', '0'{tube}, task => :task)

-- first many --
CALL xqueue.next('measure.queue', '0', count => {many})

-- next many --
CALL xqueue.next('measure.queue', '0', task => :task, count => {many})
