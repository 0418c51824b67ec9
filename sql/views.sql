-- Monitoring views for psql. A view calls its function only for the queues of the registry that satisfy the query's
-- condition on the column `queue`.

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
FROM xqueue.queue AS q CROSS JOIN LATERAL xqueue_internal.condition(q.relation) AS c;
COMMENT ON VIEW xqueue.queues IS 'Queues of this database that you can monitor: tasks by state, age of the oldest ready task, tasks in and out, waiting consumers, and the current error.';
COMMENT ON COLUMN xqueue.queues.queue IS 'Table of the queue.';
COMMENT ON COLUMN xqueue.queues.ready IS 'Tasks that can be taken.';
COMMENT ON COLUMN xqueue.queues.taken IS 'Tasks that a session has taken.';
COMMENT ON COLUMN xqueue.queues.waiting IS 'Tasks whose delay has not ended yet.';
COMMENT ON COLUMN xqueue.queues.buried IS 'Tasks set aside by bury or after their last attempt.';
COMMENT ON COLUMN xqueue.queues.oldest_ready IS 'How long the oldest of the tasks that come next has been ready; NULL if no task is ready or the queue is busy.';
COMMENT ON COLUMN xqueue.queues.in_1m IS 'Tasks put in the last minute, in steps of five seconds.';
COMMENT ON COLUMN xqueue.queues.out_1m IS 'Tasks acked or deleted in the last minute, in steps of five seconds.';
COMMENT ON COLUMN xqueue.queues.consumers IS 'Number of consumers waiting for a task.';
COMMENT ON COLUMN xqueue.queues.error IS 'Failure of the worker, a task that calls pass over, or a missing part of the table; busy if another session has locked the table or an index; NULL if all is well.';

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
FROM xqueue.queue AS q CROSS JOIN LATERAL xqueue_internal.measures(q.relation) AS m;
COMMENT ON VIEW xqueue.latency IS 'How long tasks were ready before the take, and taken before the ack, since the server started or stats_reset. Each interval is the upper bound of a histogram bucket; NULL above 30,000 s.';
COMMENT ON COLUMN xqueue.latency.queue IS 'Table of the queue.';
COMMENT ON COLUMN xqueue.latency.taken IS 'Number of tasks taken.';
COMMENT ON COLUMN xqueue.latency.wait_p50 IS 'Median time from ready to taken.';
COMMENT ON COLUMN xqueue.latency.wait_p95 IS '95th percentile of the time from ready to taken.';
COMMENT ON COLUMN xqueue.latency.wait_p99 IS '99th percentile of the time from ready to taken.';
COMMENT ON COLUMN xqueue.latency.acked IS 'Number of tasks acked.';
COMMENT ON COLUMN xqueue.latency.work_p50 IS 'Median time from taken, or last changed, to acked.';
COMMENT ON COLUMN xqueue.latency.work_p95 IS '95th percentile of the time from taken to acked.';
COMMENT ON COLUMN xqueue.latency.work_p99 IS '99th percentile of the time from taken to acked.';

CREATE VIEW xqueue.metric AS
SELECT m->>'name' AS name,
       m->'labels' AS labels,
       (m->>'value')::double precision AS value
FROM xqueue_internal.metric_rows() AS m;
COMMENT ON VIEW xqueue.metric IS 'Metrics of xqueue.metrics() as rows, for exporters and dashboards that read SQL.';
COMMENT ON COLUMN xqueue.metric.name IS 'Name of the metric, for example xqueue_tasks.';
COMMENT ON COLUMN xqueue.metric.labels IS 'Labels of the sample: database, schema, queue and others.';
COMMENT ON COLUMN xqueue.metric.value IS 'Value of the sample; durations are in seconds.';

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
    -- A rename keeps the number of a column; dump and restore keep its name.
    SELECT array_agg(a.attname::text ORDER BY d.place) FILTER (WHERE d.field = 'key') AS key,
           jsonb_object_agg(d.field, a.attname) FILTER (WHERE d.field <> 'key') AS fields
    FROM (
        SELECT 'key' AS field, k.place, k.definition
        FROM jsonb_array_elements(q.definition->'key') WITH ORDINALITY AS k(definition, place)
        UNION ALL
        SELECT f.field, 0, f.definition
        FROM jsonb_each(q.definition->'fields') AS f(field, definition)
    ) AS d
    JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) q.relation::oid AND NOT a.attisdropped
        AND CASE WHEN q.incarnation OPERATOR(pg_catalog.=) q.relation::oid
                 THEN a.attnum = (d.definition->>'number')::smallint
                 ELSE a.attname = d.definition->>'name' END
) AS c
WHERE xqueue_internal.is_shown(q.relation);
COMMENT ON VIEW xqueue.definitions IS 'Definitions of the queues of this database that you can monitor.';
COMMENT ON COLUMN xqueue.definitions.queue IS 'Table of the queue.';
COMMENT ON COLUMN xqueue.definitions.key IS 'Columns of the key.';
COMMENT ON COLUMN xqueue.definitions.fields IS 'Column of each field.';
COMMENT ON COLUMN xqueue.definitions.features IS 'Features as upgrade was given them; false is off. Features that others imply, or that are on by default, can be missing.';
COMMENT ON COLUMN xqueue.definitions.states IS 'Value of the status column for each state.';
COMMENT ON COLUMN xqueue.definitions.paused_until IS 'End of the pause, infinity until resume; NULL if the queue is not paused.';

CREATE VIEW xqueue.taken AS
SELECT q.relation AS queue,
       (h->>'pid')::integer AS pid,
       (h->>'session')::uuid AS session,
       (h->>'tasks')::bigint AS tasks
FROM xqueue.queue AS q CROSS JOIN LATERAL xqueue_internal.holders(q.relation) AS h;
COMMENT ON VIEW xqueue.taken IS 'Sessions that hold tasks, with the number of tasks in each queue. Reads the taken tasks.';
COMMENT ON COLUMN xqueue.taken.queue IS 'Table of the queue.';
COMMENT ON COLUMN xqueue.taken.pid IS 'Process that holds the tasks; NULL for an identified session without a connection, and for tasks without an owner.';
COMMENT ON COLUMN xqueue.taken.session IS 'Session that holds the tasks, as in the owner column.';
COMMENT ON COLUMN xqueue.taken.tasks IS 'Number of tasks.';

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
FROM xqueue.queue AS q CROSS JOIN LATERAL xqueue_internal.in_flight(q.relation) AS t
LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = (t->>'pid')::integer;
COMMENT ON VIEW xqueue.tasks_in_flight IS 'Taken tasks with the connection that holds each, at most 10,000 of a queue. Reads the taken tasks.';
COMMENT ON COLUMN xqueue.tasks_in_flight.queue IS 'Table of the queue.';
COMMENT ON COLUMN xqueue.tasks_in_flight.key IS 'Key of the task in text form.';
COMMENT ON COLUMN xqueue.tasks_in_flight.attempts IS 'Number of this attempt; NULL without feature retry.';
COMMENT ON COLUMN xqueue.tasks_in_flight.pid IS 'Process that holds the task; NULL for an identified session without a connection, and for a task without an owner.';
COMMENT ON COLUMN xqueue.tasks_in_flight.application IS 'application_name of the connection.';
COMMENT ON COLUMN xqueue.tasks_in_flight.client IS 'Client address; NULL on a Unix socket, or for another role''s connection without pg_read_all_stats.';
COMMENT ON COLUMN xqueue.tasks_in_flight.taken_for IS 'Time since the task was taken, or last touched or changed.';
COMMENT ON COLUMN xqueue.tasks_in_flight.time_left IS 'Time to run that is left; NULL if the task has no time to run.';
COMMENT ON COLUMN xqueue.tasks_in_flight.session IS 'Identified session that holds the task; NULL if it is the connection''s own.';

CREATE VIEW xqueue.calls AS
SELECT q.relation AS queue,
       c->>'call' AS call,
       (c->>'tasks')::bigint AS tasks
FROM xqueue.queue AS q CROSS JOIN LATERAL xqueue_internal.call_counts(q.relation) AS c;
COMMENT ON VIEW xqueue.calls IS 'Tasks by kind of call since the server started or stats_reset. delay, session, ttr, ttl and zombie count the worker''s changes.';
COMMENT ON COLUMN xqueue.calls.queue IS 'Table of the queue.';
COMMENT ON COLUMN xqueue.calls.call IS 'Kind of call; kick includes dig and plow, snatch includes release_all, put includes INSERT.';
COMMENT ON COLUMN xqueue.calls.tasks IS 'Number of tasks.';

CREATE VIEW xqueue.workers AS
SELECT d.datname AS database,
       (w->>'pid')::integer AS pid,
       w->>'state' AS state,
       make_interval(secs => round((w->>'up')::numeric, 1)::double precision) AS uptime,
       make_interval(secs => round((w->>'since_round')::numeric, 1)::double precision) AS since_round,
       make_interval(secs => round((w->>'lag')::numeric, 1)::double precision) AS lag,
       w->>'error' AS error
FROM xqueue_internal.database_workers() AS w
LEFT JOIN pg_catalog.pg_database d ON d.oid = (w->>'database')::oid;
COMMENT ON VIEW xqueue.workers IS 'Background workers of all databases, including databases that need a worker but do not have one.';
COMMENT ON COLUMN xqueue.workers.database IS 'Database that the worker serves.';
COMMENT ON COLUMN xqueue.workers.pid IS 'Process of the worker; NULL if it does not run, for example while another database uses its worker slot.';
COMMENT ON COLUMN xqueue.workers.state IS 'State of the worker; see xqueue.state().';
COMMENT ON COLUMN xqueue.workers.uptime IS 'Time since the worker started.';
COMMENT ON COLUMN xqueue.workers.since_round IS 'Time since the worker last finished a round of all queues; it sleeps while there is nothing to do.';
COMMENT ON COLUMN xqueue.workers.lag IS 'How overdue the worker is; 0 if it is on time or not needed.';
COMMENT ON COLUMN xqueue.workers.error IS 'Why the worker is missing or does not work; NULL if all is well.';

CREATE VIEW xqueue.consumers AS
SELECT q.relation AS queue,
       (w->>'pid')::integer AS pid,
       (w->>'session')::uuid AS session,
       to_timestamp((w->>'since')::double precision) AS since,
       'waiting'::text AS state
FROM xqueue.queue AS q CROSS JOIN LATERAL xqueue_internal.waiting_consumers(q.relation) AS w;
COMMENT ON VIEW xqueue.consumers IS 'Consumers waiting for a task, first come first served.';
COMMENT ON COLUMN xqueue.consumers.queue IS 'Table of the queue.';
COMMENT ON COLUMN xqueue.consumers.pid IS 'Process that waits.';
COMMENT ON COLUMN xqueue.consumers.session IS 'Session of the process.';
COMMENT ON COLUMN xqueue.consumers.since IS 'When the wait began.';
COMMENT ON COLUMN xqueue.consumers.state IS 'Always waiting.';

CREATE VIEW xqueue.sessions WITH (security_barrier) AS
SELECT s.uuid AS session,
       s.role,
       s.grace,
       s.lease,
       coalesce(attached.pids, '{}') AS pids
FROM xqueue.session s
     LEFT JOIN (SELECT (c->>'session')::uuid AS uuid, array_agg((c->>'pid')::integer ORDER BY (c->>'pid')::integer) AS pids
                FROM xqueue_internal.session_connections() AS c GROUP BY 1) AS attached USING (uuid)
-- Since 16 there are members that neither inherit a role's privileges nor can SET ROLE to it.
WHERE pg_catalog.pg_has_role(s.role, CASE WHEN pg_catalog.current_setting('server_version_num')::integer < 160000
                                          THEN 'MEMBER' ELSE 'USAGE, SET' END);
COMMENT ON VIEW xqueue.sessions IS 'Identified sessions of roles that you can act as, with the processes attached to each.';
COMMENT ON COLUMN xqueue.sessions.session IS 'Identifies the session, as in the owner column of its tasks.';
COMMENT ON COLUMN xqueue.sessions.role IS 'Role that opened the session.';
COMMENT ON COLUMN xqueue.sessions.grace IS 'How long the session lives without a connection.';
COMMENT ON COLUMN xqueue.sessions.lease IS 'When the session ends if no connection is attached; infinity while one is.';
COMMENT ON COLUMN xqueue.sessions.pids IS 'Processes attached to the session.';

CREATE VIEW xqueue.producers AS
SELECT q.relation AS queue,
       (w->>'pid')::integer AS pid,
       (w->>'session')::uuid AS session,
       to_timestamp((w->>'since')::double precision) AS since,
       (w->>'tasks')::bigint AS tasks
FROM xqueue.queue AS q CROSS JOIN LATERAL xqueue_internal.waiting_producers(q.relation) AS w;
COMMENT ON VIEW xqueue.producers IS 'Producers waiting for room in a queue with feature capacity, first come first served.';
COMMENT ON COLUMN xqueue.producers.queue IS 'Table of the queue.';
COMMENT ON COLUMN xqueue.producers.pid IS 'Process that waits.';
COMMENT ON COLUMN xqueue.producers.session IS 'Session of the process.';
COMMENT ON COLUMN xqueue.producers.since IS 'When the wait began.';
COMMENT ON COLUMN xqueue.producers.tasks IS 'Number of tasks that the producer wants to put.';

CREATE VIEW xqueue.settings AS
SELECT name, setting, unit, short_desc AS description, context
FROM pg_catalog.pg_settings
WHERE name LIKE 'xqueue.%';
COMMENT ON VIEW xqueue.settings IS 'Settings of xqueue.';
COMMENT ON COLUMN xqueue.settings.name IS 'Name, as in postgresql.conf.';
COMMENT ON COLUMN xqueue.settings.setting IS 'Value in force.';
COMMENT ON COLUMN xqueue.settings.unit IS 'Unit of the value, if it has one.';
COMMENT ON COLUMN xqueue.settings.description IS 'Short description.';
COMMENT ON COLUMN xqueue.settings.context IS 'When a change takes effect, as in pg_settings.';

-- Default privileges of the role that creates the extension do not apply to its objects. A role that could write the
-- registry would choose functions that superusers call.
DO $$
DECLARE
    statement text;
BEGIN
    FOR statement IN
        SELECT DISTINCT pg_catalog.format('REVOKE ALL ON %s FROM %s', o.object,
                                          coalesce(pg_catalog.quote_ident(r.rolname), 'PUBLIC'))
        FROM (
            SELECT pg_catalog.format('TABLE xqueue.%I', c.relname), c.relowner, c.relacl FROM pg_catalog.pg_class c
            JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
            WHERE n.nspname OPERATOR(pg_catalog.=) 'xqueue'
            UNION ALL
            SELECT 'SCHEMA xqueue_internal', n.nspowner, n.nspacl FROM pg_catalog.pg_namespace n
            WHERE n.nspname OPERATOR(pg_catalog.=) 'xqueue_internal'
        ) AS o (object, owner, acl)
        CROSS JOIN LATERAL pg_catalog.aclexplode(o.acl) a
        LEFT JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) a.grantee
        WHERE a.grantee OPERATOR(pg_catalog.<>) o.owner
    LOOP
        EXECUTE statement;
    END LOOP;
END
$$;

GRANT USAGE ON SCHEMA xqueue, xqueue_internal TO PUBLIC;
GRANT SELECT ON xqueue.queue, xqueue.queues, xqueue.latency, xqueue.metric, xqueue.definitions, xqueue.taken, xqueue.tasks_in_flight, xqueue.calls, xqueue.workers, xqueue.consumers, xqueue.producers, xqueue.sessions, xqueue.settings TO PUBLIC;

