CALL xqueue.next acks a task and takes the next one in one call and one commit.

-- lifecycle --
SELECT task->>'id' AS id, task->'payload' AS payload FROM xqueue.put('measure.queue', '{"payload": {"n": 1}}') task;
\if :started
CALL xqueue.next('measure.queue', '0', task => :task) \gset
\else
CALL xqueue.next('measure.queue', '0') \gset
\set started 1
\endif

-- take and ack --
\if :started
CALL xqueue.next('measure.queue', '0', task => :task) \gset
\else
CALL xqueue.next('measure.queue', '0') \gset
\set started 1
\endif

-- take and ack many --
\if :started
CALL xqueue.next('measure.queue', '0', task => :task, count => {many}) \gset
\else
CALL xqueue.next('measure.queue', '0', count => {many}) \gset
\set started 1
\endif
