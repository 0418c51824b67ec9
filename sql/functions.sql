-- Most functions come in two forms. A queue named by text gives tasks as jsonb; a queue named by its row type
-- (NULL::jobs, or a row of the table) gives rows of that type. Every function has a COMMENT of at most two sentences.
-- sql_functions! declares names, types, defaults and results again, next to the Rust code of each function.
-- tests/tests/surface/declarations.rs compares the two declarations.

-- Trigger functions --------------------------------------------------------------------------------

CREATE FUNCTION xqueue_internal.row_changed() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'row_changed';
COMMENT ON FUNCTION xqueue_internal.row_changed() IS
'Trigger of queues that keeps counters, wake-ups and due times up to date after every change of a row, including changes by hand. Created by xqueue.upgrade().';

CREATE FUNCTION xqueue_internal.row_arrives() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'row_arrives';
COMMENT ON FUNCTION xqueue_internal.row_arrives() IS
'Trigger of queues that makes a new row with a future runat wait, and sets the default end of life. Created by xqueue.upgrade().';

CREATE FUNCTION xqueue_internal.truncated() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'truncated';
COMMENT ON FUNCTION xqueue_internal.truncated() IS
'Trigger of queues that sets the counters to zero after TRUNCATE. Created by xqueue.upgrade().';

CREATE FUNCTION xqueue_internal.subqueue(label anyelement)
RETURNS bigint LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'subqueue';
COMMENT ON FUNCTION xqueue_internal.subqueue(anyelement) IS
'Hash that identifies a sub-queue in the indexes of queues with feature utube. Roles that write to such a queue need EXECUTE.';

-- Creator ------------------------------------------------------------------------------------------

CREATE FUNCTION xqueue.upgrade(queue text, options jsonb DEFAULT '{}', dry_run boolean DEFAULT false)
RETURNS jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'upgrade';
COMMENT ON FUNCTION xqueue.upgrade(text, jsonb, boolean) IS
'Makes a table a queue, or changes a queue; options that are not given stay as they are. Returns the definition; dry_run only shows the statements it would run.';

CREATE FUNCTION xqueue.upgrade(queue anyelement, options jsonb DEFAULT '{}', dry_run boolean DEFAULT false)
RETURNS jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'upgrade';
COMMENT ON FUNCTION xqueue.upgrade(anyelement, jsonb, boolean) IS
'Row form of upgrade(text, …): names the queue by its row type, as in xqueue.upgrade(NULL::jobs).';

CREATE FUNCTION xqueue.create(queue text, options jsonb DEFAULT '{}', temporary boolean DEFAULT false, if_not_exists boolean DEFAULT false)
RETURNS jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'create';
COMMENT ON FUNCTION xqueue.create(text, jsonb, boolean, boolean) IS
'Creates a table (id, payload jsonb), makes it a queue and returns the definition. temporary makes the table UNLOGGED; if_not_exists applies the options to an existing queue.';

CREATE FUNCTION xqueue.downgrade(queue text, drop_columns boolean DEFAULT false)
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'downgrade';
COMMENT ON FUNCTION xqueue.downgrade(text, boolean) IS
'Makes a queue an ordinary table again: drops the triggers and indexes that upgrade made, and its columns with drop_columns. Returns true.';

CREATE FUNCTION xqueue.downgrade(queue anyelement, drop_columns boolean DEFAULT false)
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'downgrade';
COMMENT ON FUNCTION xqueue.downgrade(anyelement, boolean) IS
'Row form of downgrade(text, …): names the queue by its row type, as in NULL::jobs.';

CREATE FUNCTION xqueue.drop(queue text)
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'drop_queue';
COMMENT ON FUNCTION xqueue.drop(text) IS
'Drops the table of a queue, unless tasks are taken or consumers or producers wait. Returns true.';

CREATE FUNCTION xqueue.drop(queue anyelement)
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'drop_queue';
COMMENT ON FUNCTION xqueue.drop(anyelement) IS 'Row form of drop(text): names the queue by its row type, as in NULL::jobs.';

-- Producer -----------------------------------------------------------------------------------------

CREATE FUNCTION xqueue.put(queue text, task jsonb, delay interval DEFAULT NULL, ttl interval DEFAULT NULL, ttr interval DEFAULT NULL, priority bigint DEFAULT NULL, tube text DEFAULT NULL, front boolean DEFAULT false, timeout interval DEFAULT '0', on_conflict text DEFAULT 'error')
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'put';
COMMENT ON FUNCTION xqueue.put(text, jsonb, interval, interval, interval, bigint, text, boolean, interval, text) IS
'Puts a task (an object of column values) or an array of tasks, and returns them. If the queue has a capacity and is full, waits up to timeout and then returns no row.';

CREATE FUNCTION xqueue.put(queue anyelement, task jsonb DEFAULT NULL, delay interval DEFAULT NULL, ttl interval DEFAULT NULL, ttr interval DEFAULT NULL, priority bigint DEFAULT NULL, tube text DEFAULT NULL, front boolean DEFAULT false, timeout interval DEFAULT '0', on_conflict text DEFAULT 'error')
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'put';
COMMENT ON FUNCTION xqueue.put(anyelement, jsonb, interval, interval, interval, bigint, text, boolean, interval, text) IS
'Row form of put(text, …): names the queue by its row type and returns rows. Without task, puts the given row.';

CREATE PROCEDURE xqueue.put_wait(queue text, task jsonb, timeout interval DEFAULT NULL, INOUT outcome text DEFAULT NULL, INOUT id jsonb DEFAULT NULL)
LANGUAGE c AS 'MODULE_PATHNAME', 'put_wait';
COMMENT ON PROCEDURE xqueue.put_wait(text, jsonb, interval, text, jsonb) IS
'Puts a task, commits, and waits up to timeout until the task is processed. Gives the outcome as wait does, or full if the queue had no room, and the key of the task.';

CREATE PROCEDURE xqueue.put_wait(queue anyelement, task jsonb, timeout interval DEFAULT NULL, INOUT outcome text DEFAULT NULL, INOUT id jsonb DEFAULT NULL)
LANGUAGE c AS 'MODULE_PATHNAME', 'put_wait';
COMMENT ON PROCEDURE xqueue.put_wait(anyelement, jsonb, interval, text, jsonb) IS
'Row form of put_wait(text, …): names the queue by its row type, as in NULL::jobs.';

CREATE FUNCTION xqueue.time64(queue regclass)
RETURNS bigint LANGUAGE c AS 'MODULE_PATHNAME', 'time64';
COMMENT ON FUNCTION xqueue.time64(regclass) IS
'Returns microseconds since 1970, always more than it returned before for this queue. Default of the key with feature id = time64.';

CREATE FUNCTION xqueue.uuidv7()
RETURNS uuid LANGUAGE c AS 'MODULE_PATHNAME', 'uuidv7';
COMMENT ON FUNCTION xqueue.uuidv7() IS
'Returns a UUID of version 7 (RFC 9562), always greater than the last one of this connection. Default of the key with feature id = uuid before PostgreSQL 18.';

-- Consumer -----------------------------------------------------------------------------------------

CREATE FUNCTION xqueue.take(queue text, timeout interval DEFAULT '0', count integer DEFAULT 1, tube text DEFAULT NULL, ttr interval DEFAULT NULL, done anycompatible DEFAULT NULL, id anycompatible DEFAULT NULL)
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'take';
COMMENT ON FUNCTION xqueue.take(text, interval, integer, text, interval, anycompatible, anycompatible) IS
'Takes up to count ready tasks for this session, waiting up to timeout for the first; done acks earlier tasks in the same call. Finish each task with ack, release or bury.';

CREATE FUNCTION xqueue.take(queue anyelement, timeout interval DEFAULT '0', count integer DEFAULT 1, tube text DEFAULT NULL, ttr interval DEFAULT NULL, done anycompatible DEFAULT NULL, id anycompatible DEFAULT NULL)
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'take';
COMMENT ON FUNCTION xqueue.take(anyelement, interval, integer, text, interval, anycompatible, anycompatible) IS
'Row form of take(text, …): returns tasks as rows, as in SELECT * FROM xqueue.take(NULL::jobs, ''5s'').';

CREATE PROCEDURE xqueue.next(queue text, timeout interval DEFAULT NULL, tube text DEFAULT NULL, INOUT task jsonb DEFAULT NULL, count integer DEFAULT 1)
LANGUAGE c AS 'MODULE_PATHNAME', 'next_json';
COMMENT ON PROCEDURE xqueue.next(text, interval, text, jsonb, integer) IS
'Consumer loop in one call: acks task if one is given, waits up to timeout for the next one, takes it and commits. task is NULL on timeout, and an array if count is above 1.';

CREATE PROCEDURE xqueue.next(INOUT task anyelement, timeout interval DEFAULT NULL, tube text DEFAULT NULL)
LANGUAGE c AS 'MODULE_PATHNAME', 'next_row';
COMMENT ON PROCEDURE xqueue.next(anyelement, interval, text) IS
'Row form of next(text, …) for one task: names the queue by its row type, as in CALL xqueue.next(NULL::jobs).';

CREATE FUNCTION xqueue.ack(queue text, id anycompatible, update jsonb DEFAULT NULL, delay interval DEFAULT NULL, attempt integer DEFAULT NULL, if_held boolean DEFAULT false)
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'ack';
COMMENT ON FUNCTION xqueue.ack(text, anycompatible, jsonb, interval, integer, boolean) IS
'Finishes a task that this session has taken: deletes it, or keeps it with feature keep or zombie. Returns the task; if id is an array, acks all of its tasks or none, or with if_held those still held.';

CREATE FUNCTION xqueue.ack(queue anyelement, id anycompatible DEFAULT NULL, update jsonb DEFAULT NULL, delay interval DEFAULT NULL, attempt integer DEFAULT NULL, if_held boolean DEFAULT false)
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'ack';
COMMENT ON FUNCTION xqueue.ack(anyelement, anycompatible, jsonb, interval, integer, boolean) IS
'Row form of ack(text, …): names the queue by its row type and returns rows. Without id, acks the given row.';

CREATE FUNCTION xqueue.release(queue text, id anycompatible, update jsonb DEFAULT NULL, delay interval DEFAULT NULL, ttl interval DEFAULT NULL, failed boolean DEFAULT true, error text DEFAULT NULL, if_held boolean DEFAULT false)
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'release';
COMMENT ON FUNCTION xqueue.release(text, anycompatible, jsonb, interval, interval, boolean, text, boolean) IS
'Gives back a task that this session has taken: it is ready, waits or is buried, as delay and feature retry say. Returns the task; with if_held, no row if the session no longer holds it.';

CREATE FUNCTION xqueue.give_back(queue text)
RETURNS integer LANGUAGE c AS 'MODULE_PATHNAME', 'give_back';
COMMENT ON FUNCTION xqueue.give_back(text) IS
'Gives back all tasks of a queue that this session has taken, without using up an attempt. Returns their number; for consumers that stop early, for example on SIGTERM.';

CREATE FUNCTION xqueue.give_back(queue anyelement)
RETURNS integer LANGUAGE c AS 'MODULE_PATHNAME', 'give_back';
COMMENT ON FUNCTION xqueue.give_back(anyelement) IS
'Row form of give_back(text): names the queue by its row type, as in NULL::jobs.';

CREATE FUNCTION xqueue.give_back()
RETURNS integer LANGUAGE c AS 'MODULE_PATHNAME', 'give_back_all';
COMMENT ON FUNCTION xqueue.give_back() IS
'Gives back all tasks that this session has taken, in every queue of this database that the caller can update. Returns their number.';

CREATE FUNCTION xqueue.release(queue anyelement, id anycompatible DEFAULT NULL, update jsonb DEFAULT NULL, delay interval DEFAULT NULL, ttl interval DEFAULT NULL, failed boolean DEFAULT true, error text DEFAULT NULL, if_held boolean DEFAULT false)
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'release';
COMMENT ON FUNCTION xqueue.release(anyelement, anycompatible, jsonb, interval, interval, boolean, text, boolean) IS
'Row form of release(text, …): names the queue by its row type and returns rows. Without id, releases the given row.';

CREATE FUNCTION xqueue.bury(queue text, id anycompatible, update jsonb DEFAULT NULL, ttl interval DEFAULT NULL, if_held boolean DEFAULT false)
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'bury';
COMMENT ON FUNCTION xqueue.bury(text, anycompatible, jsonb, interval, boolean) IS
'Sets aside a task that this session has taken, until dig, plow or kick makes it ready again (feature buried). Returns the task; with if_held, no row for a task that the session no longer holds.';

CREATE FUNCTION xqueue.bury(queue anyelement, id anycompatible DEFAULT NULL, update jsonb DEFAULT NULL, ttl interval DEFAULT NULL, if_held boolean DEFAULT false)
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'bury';
COMMENT ON FUNCTION xqueue.bury(anyelement, anycompatible, jsonb, interval, boolean) IS
'Row form of bury(text, …): names the queue by its row type and returns rows. Without id, buries the given row.';

CREATE FUNCTION xqueue.touch(queue text, id anycompatible, increment interval DEFAULT NULL, if_held boolean DEFAULT false)
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'touch';
COMMENT ON FUNCTION xqueue.touch(text, anycompatible, interval, boolean) IS
'Adds increment to the time to run and the life of a task that this session has taken. Returns the task; no row without an increment, or with if_held if the session no longer holds it.';

CREATE FUNCTION xqueue.touch(queue anyelement, id anycompatible DEFAULT NULL, increment interval DEFAULT NULL, if_held boolean DEFAULT false)
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'touch';
COMMENT ON FUNCTION xqueue.touch(anyelement, anycompatible, interval, boolean) IS
'Row form of touch(text, …): names the queue by its row type and returns rows. Without id, touches the given row.';

CREATE FUNCTION xqueue.identify(session uuid DEFAULT NULL, grace interval DEFAULT NULL, local boolean DEFAULT false)
RETURNS uuid LANGUAGE c AS 'MODULE_PATHNAME', 'identify';
COMMENT ON FUNCTION xqueue.identify(uuid, interval, boolean) IS
'Returns the uuid of this connection''s session, or joins the given session. grace keeps the session alive without a connection; local joins until the end of the transaction.';

-- Administrator ------------------------------------------------------------------------------------

CREATE FUNCTION xqueue.peek(queue text, id anycompatible)
RETURNS SETOF jsonb LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'peek';
COMMENT ON FUNCTION xqueue.peek(text, anycompatible) IS
'Returns a task in any state without taking it; no row if the task does not exist. Row security applies.';

CREATE FUNCTION xqueue.peek(queue anyelement, id anycompatible DEFAULT NULL)
RETURNS SETOF anyelement LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'peek';
COMMENT ON FUNCTION xqueue.peek(anyelement, anycompatible) IS
'Row form of peek(text, …): names the queue by its row type and returns rows. Without id, looks up the given row.';

CREATE FUNCTION xqueue.tasks_by_state(queue text, status text, count integer DEFAULT NULL)
RETURNS SETOF jsonb LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'tasks_by_state';
COMMENT ON FUNCTION xqueue.tasks_by_state(text, text, integer) IS
'Returns at most count tasks in a state, in the order in which they leave it. status is a letter such as B, a word such as buried, or a value of the status column.';

CREATE FUNCTION xqueue.tasks_by_state(queue anyelement, status text, count integer DEFAULT NULL)
RETURNS SETOF anyelement LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'tasks_by_state';
COMMENT ON FUNCTION xqueue.tasks_by_state(anyelement, text, integer) IS
'Row form of tasks_by_state(text, …): names the queue by its row type and returns rows.';

CREATE FUNCTION xqueue.dig(queue text, id anycompatible, delay interval DEFAULT NULL, ttl interval DEFAULT NULL)
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'dig';
COMMENT ON FUNCTION xqueue.dig(text, anycompatible, interval, interval) IS
'Makes a buried task ready, or lets it wait for delay (feature buried). Returns the task.';

CREATE FUNCTION xqueue.dig(queue anyelement, id anycompatible DEFAULT NULL, delay interval DEFAULT NULL, ttl interval DEFAULT NULL)
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'dig';
COMMENT ON FUNCTION xqueue.dig(anyelement, anycompatible, interval, interval) IS
'Row form of dig(text, …): names the queue by its row type and returns rows. Without id, digs out the given row.';

CREATE FUNCTION xqueue.plow(queue text, n integer DEFAULT NULL, delay interval DEFAULT NULL, ttl interval DEFAULT NULL)
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'plow';
COMMENT ON FUNCTION xqueue.plow(text, integer, interval, interval) IS
'Makes the first n buried tasks ready, in the order of a take, or all if n is NULL. Returns the tasks; passes over locked ones.';

CREATE FUNCTION xqueue.plow(queue anyelement, n integer DEFAULT NULL, delay interval DEFAULT NULL, ttl interval DEFAULT NULL)
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'plow';
COMMENT ON FUNCTION xqueue.plow(anyelement, integer, interval, interval) IS
'Row form of plow(text, …): names the queue by its row type and returns rows.';

CREATE FUNCTION xqueue.kick(queue text, n integer)
RETURNS integer LANGUAGE c AS 'MODULE_PATHNAME', 'kick';
COMMENT ON FUNCTION xqueue.kick(text, integer) IS 'Makes the first n buried tasks ready, like plow, but returns only their number.';

CREATE FUNCTION xqueue.kick(queue anyelement, n integer)
RETURNS integer LANGUAGE c AS 'MODULE_PATHNAME', 'kick';
COMMENT ON FUNCTION xqueue.kick(anyelement, integer) IS
'Row form of kick(text, …): names the queue by its row type, as in NULL::jobs.';

CREATE FUNCTION xqueue.switch(queue text, id anycompatible, status text, delay interval DEFAULT NULL)
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'switch_task';
COMMENT ON FUNCTION xqueue.switch(text, anycompatible, text, interval) IS
'Moves a task that is not taken to state R, W, B, Z or D: a letter, a word such as ready, or a status value. Returns the task; delay is how long it stays in W or Z.';

CREATE FUNCTION xqueue.switch(queue anyelement, id anycompatible DEFAULT NULL, status text DEFAULT NULL, delay interval DEFAULT NULL)
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'switch_task';
COMMENT ON FUNCTION xqueue.switch(anyelement, anycompatible, text, interval) IS
'Row form of switch(text, …): names the queue by its row type and returns rows. Without id, switches the given row.';

CREATE FUNCTION xqueue.snatch(queue text, id anycompatible, delay interval DEFAULT NULL)
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'snatch';
COMMENT ON FUNCTION xqueue.snatch(text, anycompatible, interval) IS
'Takes a task away from its session: it becomes ready, or waits for delay, and uses up no attempt. Returns the task.';

CREATE FUNCTION xqueue.snatch(queue anyelement, id anycompatible DEFAULT NULL, delay interval DEFAULT NULL)
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'snatch';
COMMENT ON FUNCTION xqueue.snatch(anyelement, anycompatible, interval) IS
'Row form of snatch(text, …): names the queue by its row type and returns rows. Without id, snatches the given row.';

CREATE FUNCTION xqueue.release_all(queue text)
RETURNS integer LANGUAGE c AS 'MODULE_PATHNAME', 'release_all';
COMMENT ON FUNCTION xqueue.release_all(text) IS
'Takes all taken tasks of a queue away from their sessions, like snatch, and passes over locked ones. Returns their number.';

CREATE FUNCTION xqueue.release_all(queue anyelement)
RETURNS integer LANGUAGE c AS 'MODULE_PATHNAME', 'release_all';
COMMENT ON FUNCTION xqueue.release_all(anyelement) IS
'Row form of release_all(text): names the queue by its row type, as in NULL::jobs.';

CREATE FUNCTION xqueue.restart(queue text, id anycompatible, delay interval DEFAULT NULL)
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'restart';
COMMENT ON FUNCTION xqueue.restart(text, anycompatible, interval) IS
'Makes a waiting, done or zombie task ready, or lets it wait for delay. Returns the task.';

CREATE FUNCTION xqueue.restart(queue anyelement, id anycompatible DEFAULT NULL, delay interval DEFAULT NULL)
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'restart';
COMMENT ON FUNCTION xqueue.restart(anyelement, anycompatible, interval) IS
'Row form of restart(text, …): names the queue by its row type and returns rows. Without id, restarts the given row.';

CREATE FUNCTION xqueue.delete(queue text, id anycompatible)
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'delete_task';
COMMENT ON FUNCTION xqueue.delete(text, anycompatible) IS
'Deletes a task in any state, even a taken one. Returns the task as it was.';

CREATE FUNCTION xqueue.delete(queue anyelement, id anycompatible DEFAULT NULL)
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'delete_task';
COMMENT ON FUNCTION xqueue.delete(anyelement, anycompatible) IS
'Row form of delete(text, …): names the queue by its row type and returns rows. Without id, deletes the given row.';

CREATE FUNCTION xqueue.pause(queue text, duration interval DEFAULT NULL)
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'pause_queue';
COMMENT ON FUNCTION xqueue.pause(text, interval) IS
'Pauses a queue for duration, or until resume if duration is NULL: consumers get no tasks, and everything else continues. Returns true.';

CREATE FUNCTION xqueue.pause(queue anyelement, duration interval DEFAULT NULL)
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'pause_queue';
COMMENT ON FUNCTION xqueue.pause(anyelement, interval) IS
'Row form of pause(text, …): names the queue by its row type, as in NULL::jobs.';

CREATE FUNCTION xqueue.resume(queue text)
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'resume_queue';
COMMENT ON FUNCTION xqueue.resume(text) IS
'Ends the pause of a queue, if it is paused; waiting consumers get its tasks. Returns true.';

CREATE FUNCTION xqueue.resume(queue anyelement)
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'resume_queue';
COMMENT ON FUNCTION xqueue.resume(anyelement) IS 'Row form of resume(text): names the queue by its row type, as in NULL::jobs.';

CREATE FUNCTION xqueue.truncate(queue text)
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'truncate_queue';
COMMENT ON FUNCTION xqueue.truncate(text) IS
'Deletes all tasks of a queue, with the lock and privilege of TRUNCATE. Returns true.';

CREATE FUNCTION xqueue.truncate(queue anyelement)
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'truncate_queue';
COMMENT ON FUNCTION xqueue.truncate(anyelement) IS
'Row form of truncate(text): names the queue by its row type, as in NULL::jobs.';

CREATE FUNCTION xqueue.wait(queue text, id anycompatible, timeout interval DEFAULT NULL)
RETURNS text LANGUAGE c AS 'MODULE_PATHNAME', 'wait_task';
COMMENT ON FUNCTION xqueue.wait(text, anycompatible, interval) IS
'Waits up to timeout, or without limit if it is NULL, until a task is processed. Returns acked, buried, expired, deleted or gone; NULL on timeout.';

CREATE FUNCTION xqueue.wait(queue anyelement, id anycompatible DEFAULT NULL, timeout interval DEFAULT NULL)
RETURNS text LANGUAGE c AS 'MODULE_PATHNAME', 'wait_task';
COMMENT ON FUNCTION xqueue.wait(anyelement, anycompatible, interval) IS
'Row form of wait(text, …): names the queue by its row type. Without id, waits for the given row.';

-- Monitor ------------------------------------------------------------------------------------------

CREATE FUNCTION xqueue.stats(queue text)
RETURNS jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'stats';
COMMENT ON FUNCTION xqueue.stats(text) IS
'Returns the counters of a queue: tasks by state, calls, transitions, waiting consumers and producers. exact is true if the task counts equal those of the table.';

CREATE FUNCTION xqueue.stats(queue anyelement)
RETURNS jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'stats';
COMMENT ON FUNCTION xqueue.stats(anyelement) IS 'Row form of stats(text): names the queue by its row type, as in NULL::jobs.';

CREATE FUNCTION xqueue.stats()
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'stats_all';
COMMENT ON FUNCTION xqueue.stats() IS 'Returns the counters of each queue of this database that the caller can monitor.';

CREATE FUNCTION xqueue.stats(queue text, id anycompatible)
RETURNS SETOF jsonb LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'stats_task';
COMMENT ON FUNCTION xqueue.stats(text, anycompatible) IS
'Returns the state of a task and, if it has them, its session, attempts, remaining times, priority and tube. No row if the task does not exist.';

CREATE FUNCTION xqueue.stats(queue anyelement, id anycompatible)
RETURNS SETOF jsonb LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'stats_task';
COMMENT ON FUNCTION xqueue.stats(anyelement, anycompatible) IS
'Row form of stats(text, anycompatible): names the queue by its row type, as in NULL::jobs.';

CREATE FUNCTION xqueue.stats_reset(queue text)
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'stats_reset';
COMMENT ON FUNCTION xqueue.stats_reset(text) IS
'Resets the calls, transitions, failed attempts and latencies of a queue, even if the transaction rolls back. Returns true.';

CREATE FUNCTION xqueue.stats_reset(queue anyelement)
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'stats_reset';
COMMENT ON FUNCTION xqueue.stats_reset(anyelement) IS
'Row form of stats_reset(text): names the queue by its row type, as in NULL::jobs.';

CREATE FUNCTION xqueue.stats_reset()
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'stats_reset_all';
COMMENT ON FUNCTION xqueue.stats_reset() IS
'Applies stats_reset(text) to each queue of this database that the caller owns. Returns true.';

CREATE FUNCTION xqueue.check(queue text)
RETURNS jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'check';
COMMENT ON FUNCTION xqueue.check(text) IS
'Checks the tasks, counters, columns, indexes and triggers of a queue, without blocking others. Returns {"queue", "ok", "problems", "advice"}; reads the whole table.';

CREATE FUNCTION xqueue.check(queue anyelement)
RETURNS jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'check';
COMMENT ON FUNCTION xqueue.check(anyelement) IS 'Row form of check(text): names the queue by its row type, as in NULL::jobs.';

CREATE FUNCTION xqueue.state()
RETURNS text LANGUAGE c AS 'MODULE_PATHNAME', 'state';
COMMENT ON FUNCTION xqueue.state() IS
'Returns the state of this database''s worker: INIT, STARTUP, RUNNING, RESTING, ENDING, NO_WORKER (raise max_worker_processes), STALLED, or WAITING on a standby.';

CREATE FUNCTION xqueue.metrics()
RETURNS text LANGUAGE c AS 'MODULE_PATHNAME', 'metrics';
COMMENT ON FUNCTION xqueue.metrics() IS
'Returns the metrics of the worker and of each queue that the caller can monitor, in OpenMetrics text format for Prometheus. The view xqueue.metric has them as rows.';

CREATE FUNCTION xqueue_internal.is_shown(queue regclass)
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'is_shown';
COMMENT ON FUNCTION xqueue_internal.is_shown(regclass) IS 'Whether the views show this queue to the caller.';

CREATE FUNCTION xqueue_internal.condition(queue regclass)
RETURNS SETOF jsonb LANGUAGE c ROWS 1 AS 'MODULE_PATHNAME', 'condition';
COMMENT ON FUNCTION xqueue_internal.condition(regclass) IS 'Read the view xqueue.queues instead.';

CREATE FUNCTION xqueue_internal.call_counts(queue regclass)
RETURNS SETOF jsonb LANGUAGE c ROWS 18 AS 'MODULE_PATHNAME', 'call_counts';
COMMENT ON FUNCTION xqueue_internal.call_counts(regclass) IS 'Read the view xqueue.calls instead.';

CREATE FUNCTION xqueue_internal.holders(queue regclass)
RETURNS SETOF jsonb LANGUAGE c ROWS 1 AS 'MODULE_PATHNAME', 'holders';
COMMENT ON FUNCTION xqueue_internal.holders(regclass) IS 'Read the view xqueue.taken instead.';

CREATE FUNCTION xqueue_internal.measures(queue regclass)
RETURNS SETOF jsonb LANGUAGE c ROWS 1 AS 'MODULE_PATHNAME', 'measures';
COMMENT ON FUNCTION xqueue_internal.measures(regclass) IS 'Read the view xqueue.latency instead.';

CREATE FUNCTION xqueue_internal.metric_rows()
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'metric_rows';
COMMENT ON FUNCTION xqueue_internal.metric_rows() IS 'Read the view xqueue.metric instead.';

CREATE FUNCTION xqueue_internal.in_flight(queue regclass)
RETURNS SETOF jsonb LANGUAGE c ROWS 10 AS 'MODULE_PATHNAME', 'in_flight';
COMMENT ON FUNCTION xqueue_internal.in_flight(regclass) IS 'Read the view xqueue.tasks_in_flight instead.';

CREATE FUNCTION xqueue_internal.buried(queue regclass, count integer)
RETURNS SETOF jsonb LANGUAGE c ROWS 50 AS 'MODULE_PATHNAME', 'buried';
COMMENT ON FUNCTION xqueue_internal.buried(regclass, integer) IS
'The first buried tasks of a queue with their columns as text, for the board. Use xqueue.tasks_by_state() instead.';

CREATE FUNCTION xqueue_internal.database_workers()
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'database_workers';
COMMENT ON FUNCTION xqueue_internal.database_workers() IS 'Read the view xqueue.workers instead.';

CREATE FUNCTION xqueue_internal.session_connections()
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'session_connections';
COMMENT ON FUNCTION xqueue_internal.session_connections() IS 'Read the view xqueue.sessions instead.';

CREATE FUNCTION xqueue_internal.waiting_consumers(queue regclass)
RETURNS SETOF jsonb LANGUAGE c ROWS 1 AS 'MODULE_PATHNAME', 'waiting_consumers';
COMMENT ON FUNCTION xqueue_internal.waiting_consumers(regclass) IS 'Read the view xqueue.consumers instead.';

CREATE FUNCTION xqueue_internal.waiting_producers(queue regclass)
RETURNS SETOF jsonb LANGUAGE c ROWS 1 AS 'MODULE_PATHNAME', 'waiting_producers';
COMMENT ON FUNCTION xqueue_internal.waiting_producers(regclass) IS 'Read the view xqueue.producers instead.';
