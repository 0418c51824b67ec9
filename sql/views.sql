-- What a DBA looks at in psql.

CREATE VIEW xqueue.queues AS
SELECT (s->>'relation')::oid::regclass AS queue,
       ARRAY(SELECT k->>'name' FROM jsonb_array_elements(q.definition->'key') k) AS key,
       q.definition->'options'->'features' AS features,
       (s->'tasks'->>'ready')::bigint AS ready,
       (s->'tasks'->>'taken')::bigint AS taken,
       (s->'tasks'->>'waiting')::bigint AS waiting,
       (s->'tasks'->>'buried')::bigint AS buried,
       (s->'tasks'->>'zombie')::bigint AS zombie,
       (s->'tasks'->>'done')::bigint AS done,
       (s->>'consumers')::integer AS consumers,
       (s->>'exact')::boolean AS exact,
       s->>'error' AS error,
       to_timestamp((s->>'error_at')::double precision) AS error_at
FROM xqueue.stats() AS s
JOIN xqueue.queue q ON q.relation = (s->>'relation')::oid;
COMMENT ON VIEW xqueue.queues IS 'The queues of this database that you may read: tasks by state, consumers that wait, and the last error of the worker, if it has one with the queue.';

CREATE VIEW xqueue.taken AS
SELECT (h->>'relation')::oid::regclass AS queue,
       (h->>'pid')::integer AS pid,
       (h->>'session')::uuid AS session,
       (h->>'tasks')::bigint AS tasks
FROM xqueue.holders() AS h;
COMMENT ON VIEW xqueue.taken IS 'Who has taken how many tasks of which queue. Reads the tasks that are taken.';

CREATE VIEW xqueue.consumers AS
SELECT (w->>'relation')::oid::regclass AS queue,
       (w->>'pid')::integer AS pid,
       (w->>'session')::uuid AS session,
       to_timestamp((w->>'since')::double precision) AS since,
       'waiting'::text AS state
FROM xqueue.waiting_consumers() AS w;
COMMENT ON VIEW xqueue.consumers IS 'The consumers that wait for a task, first come first served.';

CREATE VIEW xqueue.settings AS
SELECT name, setting, unit, short_desc AS description, context
FROM pg_catalog.pg_settings
WHERE name LIKE 'xqueue.%';
COMMENT ON VIEW xqueue.settings IS 'The settings of the extension.';

GRANT SELECT ON xqueue.queues, xqueue.taken, xqueue.consumers, xqueue.settings TO PUBLIC;

