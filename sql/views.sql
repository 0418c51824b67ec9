-- What a DBA looks at in psql. A view calls its function for each queue of the registry that a condition on its column `queue`
-- leaves.

CREATE VIEW xqueue.queues AS
SELECT q.relation AS queue,
       (c->>'ready')::bigint AS ready,
       (c->>'taken')::bigint AS taken,
       (c->>'waiting')::bigint AS waiting,
       (c->>'buried')::bigint AS buried,
       make_interval(secs => round((c->>'oldest_ready')::numeric, 1)::double precision) AS oldest_ready,
       (c->>'put')::bigint AS in_1m,
       (c->>'done')::bigint AS out_1m,
       (c->>'consumers')::integer AS consumers,
       c->>'error' AS error
FROM xqueue.queue AS q CROSS JOIN LATERAL xqueue.condition(q.relation) AS c;
COMMENT ON VIEW xqueue.queues IS 'The queues of this database that you may read, but for those whose row security applies to you: tasks by state, how old the oldest ready one is, tasks in and out, consumers that wait, and what is wrong, if anything is.';
COMMENT ON COLUMN xqueue.queues.queue IS 'The table.';
COMMENT ON COLUMN xqueue.queues.ready IS 'Tasks that can be taken.';
COMMENT ON COLUMN xqueue.queues.taken IS 'Tasks that a session has taken.';
COMMENT ON COLUMN xqueue.queues.waiting IS 'Tasks whose delay is not over.';
COMMENT ON COLUMN xqueue.queues.buried IS 'Tasks put aside by bury, or after their last attempt.';
COMMENT ON COLUMN xqueue.queues.oldest_ready IS 'For how long the oldest of the tasks that come next has been ready: of each priority, the first hundred. Since the task was put, given back or changed; since the start of the server, if that was later. NULL if none is ready, or the queue is busy.';
COMMENT ON COLUMN xqueue.queues.in_1m IS 'Tasks put in the last minute, in steps of five seconds.';
COMMENT ON COLUMN xqueue.queues.out_1m IS 'Tasks acked, or deleted, in the last minute.';
COMMENT ON COLUMN xqueue.queues.consumers IS 'How many wait for a task.';
COMMENT ON COLUMN xqueue.queues.error IS 'What the worker could not do, or what the table lacks; busy, if another session has locked the table or an index of it; NULL if all is well.';

CREATE VIEW xqueue.latency AS
SELECT q.relation AS queue,
       (m->'waits'->>'count')::bigint AS taken,
       make_interval(secs => (m->'waits'->>'p50')::double precision) AS wait_p50,
       make_interval(secs => (m->'waits'->>'p95')::double precision) AS wait_p95,
       make_interval(secs => (m->'waits'->>'p99')::double precision) AS wait_p99,
       (m->'works'->>'count')::bigint AS acked,
       make_interval(secs => (m->'works'->>'p50')::double precision) AS work_p50,
       make_interval(secs => (m->'works'->>'p95')::double precision) AS work_p95,
       make_interval(secs => (m->'works'->>'p99')::double precision) AS work_p99
FROM xqueue.queue AS q CROSS JOIN LATERAL xqueue.measures(q.relation) AS m;
COMMENT ON VIEW xqueue.latency IS 'How long tasks had been ready when they were taken, and taken when they were acked, since the server started, or since stats_reset. Each interval is the upper bound of a bucket: one or three times a power of ten, from a millisecond to 30,000 seconds; NULL above that.';
COMMENT ON COLUMN xqueue.latency.queue IS 'The table.';
COMMENT ON COLUMN xqueue.latency.taken IS 'How many tasks were taken.';
COMMENT ON COLUMN xqueue.latency.wait_p50 IS 'Half of them had been ready for no longer.';
COMMENT ON COLUMN xqueue.latency.wait_p95 IS '95 of 100 had been ready for no longer.';
COMMENT ON COLUMN xqueue.latency.wait_p99 IS '99 of 100 had been ready for no longer.';
COMMENT ON COLUMN xqueue.latency.acked IS 'How many tasks were acked.';
COMMENT ON COLUMN xqueue.latency.work_p50 IS 'Half of them had been taken for no longer, counted from the last change of the task.';
COMMENT ON COLUMN xqueue.latency.work_p95 IS '95 of 100 had been taken for no longer.';
COMMENT ON COLUMN xqueue.latency.work_p99 IS '99 of 100 had been taken for no longer.';

CREATE VIEW xqueue.metric AS
SELECT m->>'name' AS name,
       m->'labels' AS labels,
       (m->>'value')::double precision AS value
FROM xqueue.metric_rows() AS m;
COMMENT ON VIEW xqueue.metric IS 'What xqueue.metrics() says, as rows: for exporters and boards that read SQL.';
COMMENT ON COLUMN xqueue.metric.name IS 'The metric, as xqueue_tasks.';
COMMENT ON COLUMN xqueue.metric.labels IS 'Database, schema and queue, and what else tells the samples of a metric apart.';
COMMENT ON COLUMN xqueue.metric.value IS 'Durations are in seconds.';

CREATE VIEW xqueue.definitions AS
SELECT q.relation AS queue,
       coalesce(c.key, '{}') AS key,
       c.fields,
       coalesce(q.definition->'options'->'features', '{}') AS features,
       '{"R": "R", "T": "T", "W": "W", "B": "B", "Z": "Z", "D": "D"}'::jsonb
           || coalesce(q.definition->'options'->'states', '{}') AS states,
       CASE WHEN q.paused_until > clock_timestamp() THEN q.paused_until END AS paused_until
FROM xqueue.queue q
CROSS JOIN LATERAL (
    -- A rename keeps a column's number, dump and restore keep its name.
    SELECT array_agg(a.attname::text ORDER BY d.place) FILTER (WHERE d.field = 'key') AS key,
           jsonb_object_agg(d.field, a.attname) FILTER (WHERE d.field <> 'key') AS fields
    FROM (
        SELECT 'key' AS field, k.place, k.definition
        FROM jsonb_array_elements(q.definition->'key') WITH ORDINALITY AS k(definition, place)
        UNION ALL
        SELECT f.field, 0, f.definition
        FROM jsonb_each(q.definition->'fields') AS f(field, definition)
    ) AS d
    JOIN pg_catalog.pg_attribute a ON a.attrelid = q.relation AND NOT a.attisdropped
        AND CASE WHEN q.incarnation = q.relation
                 THEN a.attnum = (d.definition->>'number')::smallint
                 ELSE a.attname = d.definition->>'name' END
) AS c
WHERE xqueue.is_shown(q.relation);
COMMENT ON VIEW xqueue.definitions IS 'How the queues of this database that you may read are defined.';
COMMENT ON COLUMN xqueue.definitions.queue IS 'The table.';
COMMENT ON COLUMN xqueue.definitions.key IS 'The columns of its key.';
COMMENT ON COLUMN xqueue.definitions.fields IS 'Which column each field is.';
COMMENT ON COLUMN xqueue.definitions.features IS 'The features that are on, with their options.';
COMMENT ON COLUMN xqueue.definitions.states IS 'The value of the status column for each state.';
COMMENT ON COLUMN xqueue.definitions.paused_until IS 'End of the pause, until which no task is taken; NULL if it is not paused.';

CREATE VIEW xqueue.taken AS
SELECT q.relation AS queue,
       (h->>'pid')::integer AS pid,
       (h->>'session')::uuid AS session,
       (h->>'tasks')::bigint AS tasks
FROM xqueue.queue AS q CROSS JOIN LATERAL xqueue.holders(q.relation) AS h;
COMMENT ON VIEW xqueue.taken IS 'Sessions with the number of tasks that they hold of each queue; pid is NULL for an identified session without a connection. Reads the taken tasks.';
COMMENT ON COLUMN xqueue.taken.queue IS 'The table.';
COMMENT ON COLUMN xqueue.taken.pid IS 'The process that has taken the tasks; NULL without a connection.';
COMMENT ON COLUMN xqueue.taken.session IS 'As it stands in the owner column.';
COMMENT ON COLUMN xqueue.taken.tasks IS 'How many.';

CREATE VIEW xqueue.tasks_in_flight AS
SELECT q.relation AS queue,
       t->>'key' AS key,
       (t->>'attempts')::bigint AS attempts,
       (t->>'pid')::integer AS pid,
       a.application_name AS application,
       a.client_addr AS client,
       make_interval(secs => round((t->>'taken_for')::numeric, 1)::double precision) AS taken_for,
       make_interval(secs => round((t->>'time_left')::numeric, 1)::double precision) AS time_left,
       (t->>'session')::uuid AS session
FROM xqueue.queue AS q CROSS JOIN LATERAL xqueue.in_flight(q.relation) AS t
LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = (t->>'pid')::integer;
COMMENT ON VIEW xqueue.tasks_in_flight IS 'The taken tasks, with the connection that has each; of a queue with very many, the first 10,000. Reads the taken tasks.';
COMMENT ON COLUMN xqueue.tasks_in_flight.queue IS 'The table.';
COMMENT ON COLUMN xqueue.tasks_in_flight.key IS 'The key of the task, as text.';
COMMENT ON COLUMN xqueue.tasks_in_flight.attempts IS 'Which attempt this is; NULL without feature retry.';
COMMENT ON COLUMN xqueue.tasks_in_flight.pid IS 'The process that has taken it; NULL for an identified session without a connection.';
COMMENT ON COLUMN xqueue.tasks_in_flight.application IS 'Its application_name.';
COMMENT ON COLUMN xqueue.tasks_in_flight.client IS 'Its address; NULL on a socket, or for another role''s connection without pg_read_all_stats.';
COMMENT ON COLUMN xqueue.tasks_in_flight.taken_for IS 'How long ago the task was taken, or last touched or changed.';
COMMENT ON COLUMN xqueue.tasks_in_flight.time_left IS 'Until it comes back if it is not done; NULL without a time to run.';
COMMENT ON COLUMN xqueue.tasks_in_flight.session IS 'The identified session that has it; NULL if it is the connection''s own.';

CREATE VIEW xqueue.calls AS
SELECT q.relation AS queue,
       c->>'call' AS call,
       (c->>'tasks')::bigint AS tasks
FROM xqueue.queue AS q CROSS JOIN LATERAL xqueue.call_counts(q.relation) AS c;
COMMENT ON VIEW xqueue.calls IS 'How many tasks went through each kind of call since the server started, or since stats_reset; delay, session, ttr, ttl and zombie are the worker''s.';
COMMENT ON COLUMN xqueue.calls.queue IS 'The table.';
COMMENT ON COLUMN xqueue.calls.call IS 'The kind of call; kick also stands for dig and plow, snatch for release_all, put for INSERT.';
COMMENT ON COLUMN xqueue.calls.tasks IS 'How many tasks.';

CREATE VIEW xqueue.workers AS
SELECT d.datname AS database,
       (w->>'pid')::integer AS pid,
       w->>'state' AS state,
       make_interval(secs => round((w->>'up')::numeric, 1)::double precision) AS uptime,
       make_interval(secs => round((w->>'since_round')::numeric, 1)::double precision) AS since_round,
       make_interval(secs => round((w->>'lag')::numeric, 1)::double precision) AS lag,
       w->>'error' AS error
FROM xqueue.database_workers() AS w
LEFT JOIN pg_catalog.pg_database d ON d.oid = (w->>'database')::oid;
COMMENT ON VIEW xqueue.workers IS 'The workers of all databases, each of which promotes tasks, gives them back and deletes them; also a database that has none and needs one.';
COMMENT ON COLUMN xqueue.workers.database IS 'The database.';
COMMENT ON COLUMN xqueue.workers.pid IS 'The process; NULL if there is none, as while another database uses its place.';
COMMENT ON COLUMN xqueue.workers.state IS 'As xqueue.state() gives it.';
COMMENT ON COLUMN xqueue.workers.uptime IS 'How long ago it began.';
COMMENT ON COLUMN xqueue.workers.since_round IS 'How long ago it last came round all queues; it sleeps while there is nothing to do.';
COMMENT ON COLUMN xqueue.workers.lag IS 'For how long it should have begun a round, or been there: 0 if it is in time, or not needed.';
COMMENT ON COLUMN xqueue.workers.error IS 'Why there is no worker, or none that works; NULL if all is well.';

CREATE VIEW xqueue.consumers AS
SELECT q.relation AS queue,
       (w->>'pid')::integer AS pid,
       (w->>'session')::uuid AS session,
       to_timestamp((w->>'since')::double precision) AS since,
       'waiting'::text AS state
FROM xqueue.queue AS q CROSS JOIN LATERAL xqueue.waiting_consumers(q.relation) AS w;
COMMENT ON VIEW xqueue.consumers IS 'The consumers that wait for a task, first come first served.';
COMMENT ON COLUMN xqueue.consumers.queue IS 'The table.';
COMMENT ON COLUMN xqueue.consumers.pid IS 'The process that waits.';
COMMENT ON COLUMN xqueue.consumers.session IS 'Its session.';
COMMENT ON COLUMN xqueue.consumers.since IS 'When it began to wait.';
COMMENT ON COLUMN xqueue.consumers.state IS 'waiting.';

CREATE VIEW xqueue.sessions WITH (security_barrier) AS
SELECT s.uuid AS session,
       s.role,
       s.grace,
       s.lease,
       coalesce(attached.pids, '{}') AS pids
FROM xqueue.session s
     LEFT JOIN (SELECT (c->>'session')::uuid AS uuid, array_agg((c->>'pid')::integer ORDER BY (c->>'pid')::integer) AS pids
                FROM xqueue.session_connections() AS c GROUP BY 1) AS attached USING (uuid)
WHERE pg_catalog.pg_has_role(s.role, 'MEMBER');
COMMENT ON VIEW xqueue.sessions IS 'The identified sessions of roles that you are a member of: how long each lives on without a connection, when it ends if none is attached (infinity while one is), and the processes that are.';
COMMENT ON COLUMN xqueue.sessions.session IS 'As it stands in the owner column.';
COMMENT ON COLUMN xqueue.sessions.role IS 'The role that has opened it.';
COMMENT ON COLUMN xqueue.sessions.grace IS 'How long it lives on without a connection.';
COMMENT ON COLUMN xqueue.sessions.lease IS 'When it ends, if no connection is attached to it; infinity while one is.';
COMMENT ON COLUMN xqueue.sessions.pids IS 'The processes that are attached to it.';

CREATE VIEW xqueue.producers AS
SELECT q.relation AS queue,
       (w->>'pid')::integer AS pid,
       (w->>'session')::uuid AS session,
       to_timestamp((w->>'since')::double precision) AS since,
       (w->>'tasks')::bigint AS tasks
FROM xqueue.queue AS q CROSS JOIN LATERAL xqueue.waiting_producers(q.relation) AS w;
COMMENT ON VIEW xqueue.producers IS 'Producers that wait for room under the capacity of a queue, with the number of tasks that each has to put; first come first served.';
COMMENT ON COLUMN xqueue.producers.queue IS 'The table.';
COMMENT ON COLUMN xqueue.producers.pid IS 'The process that waits.';
COMMENT ON COLUMN xqueue.producers.session IS 'Its session.';
COMMENT ON COLUMN xqueue.producers.since IS 'When it began to wait.';
COMMENT ON COLUMN xqueue.producers.tasks IS 'For how many tasks it wants room.';

CREATE VIEW xqueue.settings AS
SELECT name, setting, unit, short_desc AS description, context
FROM pg_catalog.pg_settings
WHERE name LIKE 'xqueue.%';
COMMENT ON VIEW xqueue.settings IS 'The settings of the extension.';
COMMENT ON COLUMN xqueue.settings.name IS 'As in postgresql.conf.';
COMMENT ON COLUMN xqueue.settings.setting IS 'The value in force.';
COMMENT ON COLUMN xqueue.settings.unit IS 'Of the value, if it has one.';
COMMENT ON COLUMN xqueue.settings.description IS 'What it is for.';
COMMENT ON COLUMN xqueue.settings.context IS 'When a change takes effect, as in pg_settings.';

GRANT SELECT ON xqueue.queues, xqueue.latency, xqueue.metric, xqueue.definitions, xqueue.taken, xqueue.tasks_in_flight, xqueue.calls, xqueue.workers, xqueue.consumers, xqueue.producers, xqueue.sessions, xqueue.settings TO PUBLIC;

