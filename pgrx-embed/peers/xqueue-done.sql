take with done acks a task, or a batch, and takes the next in one statement.

-- lifecycle --
SELECT id AS new FROM xqueue.put(NULL::measure.queue, '{"payload": {"n": 1}}');
\if :started
SELECT id, payload FROM xqueue.take(NULL::measure.queue, done => :id::bigint) \gset
\else
SELECT id, payload FROM xqueue.take(NULL::measure.queue) \gset
\set started 1
\endif

-- take and ack --
\if :started
SELECT id, payload FROM xqueue.take(NULL::measure.queue, done => :id::bigint) \gset
\else
SELECT id, payload FROM xqueue.take(NULL::measure.queue) \gset
\set started 1
\endif

-- take and ack many --
\if :started
SELECT array_agg(id) AS ids FROM xqueue.take(NULL::measure.queue, count => {many}, done => :ids::bigint[]) \gset
\else
SELECT array_agg(id) AS ids FROM xqueue.take(NULL::measure.queue, count => {many}) \gset
\set started 1
\endif
