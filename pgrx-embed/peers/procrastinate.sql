Its functions as its client calls them (sql/queries.sql in its package), with a registered worker, done jobs deleted. It
takes one job at a time. Every status of a job is an event, every new job a NOTIFY.

-- install --
INSERT INTO procrastinate_workers DEFAULT VALUES

-- tables --
procrastinate_jobs, procrastinate_events

-- count --
SELECT count(*) FROM procrastinate_jobs

-- empty --
TRUNCATE procrastinate_jobs, procrastinate_events, procrastinate_periodic_defers RESTART IDENTITY

-- fill --
SELECT count(procrastinate_defer_jobs_v1(ARRAY[('measure', 'measure', 0, NULL, NULL, '{"n": 1}', NULL)
                                               ::procrastinate_job_to_defer_v1])) FROM generate_series(1, {count})

-- task --
{"n": 1}

-- put --
SELECT unnest(procrastinate_defer_jobs_v1(ARRAY[('measure', 'measure', 0, NULL, NULL, '{"n": 1}', NULL)
                                                ::procrastinate_job_to_defer_v1])) AS id

-- take --
SELECT id, status, task_name, priority, lock, queueing_lock, args, scheduled_at, queue_name, attempts, worker_id
FROM procrastinate_fetch_job_v2(ARRAY['measure']::varchar[], 1)

-- ack --
SELECT procrastinate_finish_job_v1(:id, 'succeeded', true)

-- put many --
SELECT unnest(procrastinate_defer_jobs_v1(
    ARRAY(SELECT ('measure', 'measure', 0, NULL, NULL, args, NULL)::procrastinate_job_to_defer_v1
          FROM jsonb_array_elements(:tasks::jsonb) args))) AS id
