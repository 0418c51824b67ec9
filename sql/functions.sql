-- The functions, each in two forms: a queue named by text gives jsonb, a queue named by its row type
-- (NULL::jobs, or a row of it) gives rows of that type. With each its comment.

-- Trigger functions --------------------------------------------------------------------------------

CREATE FUNCTION xqueue.row_changed() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'row_changed';
COMMENT ON FUNCTION xqueue.row_changed() IS 'Trigger of a queue: keeps counters, wake-ups and due times right, whoever changes a row. Set by xqueue.upgrade().';

CREATE FUNCTION xqueue.row_delayed() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'row_delayed';
COMMENT ON FUNCTION xqueue.row_delayed() IS 'Trigger of a queue with feature delayed: a ready row whose runat lies in the future is inserted as waiting. Set by xqueue.upgrade().';

CREATE FUNCTION xqueue.truncated() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'truncated';
COMMENT ON FUNCTION xqueue.truncated() IS 'Trigger of a queue: TRUNCATE sets the counters to zero. Set by xqueue.upgrade().';

-- Creator ------------------------------------------------------------------------------------------

CREATE FUNCTION xqueue.upgrade(queue text, options jsonb DEFAULT '{}', dry_run boolean DEFAULT false)
RETURNS jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'upgrade';
COMMENT ON FUNCTION xqueue.upgrade(text, jsonb, boolean) IS
'Makes a table a queue, or switches features of a live one; what options do not name stays as it is. Returns the definition in force. dry_run: changes nothing and returns {"definition", "ddl"}, the statements it would run. Locks: SHARE ROW EXCLUSIVE while indexes and triggers are made, ACCESS EXCLUSIVE if columns are added; none that blocks if nothing is to be done. Errors: 42501 not the owner, 42P01 no such table, 42809 no ordinary table, 42P16 no key, 42701 a column has the name of a field, 42804 a column of the wrong type, 22023 bad options or foreign status values. After Tarantool''s xqueue.';

CREATE FUNCTION xqueue.upgrade(queue anyelement, options jsonb DEFAULT '{}', dry_run boolean DEFAULT false)
RETURNS jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'upgrade';
COMMENT ON FUNCTION xqueue.upgrade(anyelement, jsonb, boolean) IS 'As upgrade(text, …), the queue named by its row type: xqueue.upgrade(NULL::jobs).';

CREATE FUNCTION xqueue.create(queue text, options jsonb DEFAULT '{}', temporary boolean DEFAULT false, if_not_exists boolean DEFAULT false)
RETURNS jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'create';
COMMENT ON FUNCTION xqueue.create(text, jsonb, boolean, boolean) IS
'Creates a table (id bigint identity, payload jsonb) and makes it a queue. temporary: UNLOGGED, emptied by a crash. if_not_exists: an existing queue gets the options, as by upgrade. Returns the definition in force. Errors: 42P07 the table exists, and those of upgrade. After tarantool/queue''s create_tube.';

CREATE FUNCTION xqueue.downgrade(queue text, drop_columns boolean DEFAULT false)
RETURNS void LANGUAGE c AS 'MODULE_PATHNAME', 'downgrade';
COMMENT ON FUNCTION xqueue.downgrade(text, boolean) IS
'Makes a queue an ordinary table again: takes triggers and indexes away that upgrade has made, with drop_columns its columns too. Those who wait get an error. Lock: ACCESS EXCLUSIVE. Errors: 42501 not the owner, 55000 not a queue.';

CREATE FUNCTION xqueue.downgrade(queue anyelement, drop_columns boolean DEFAULT false)
RETURNS void LANGUAGE c AS 'MODULE_PATHNAME', 'downgrade';
COMMENT ON FUNCTION xqueue.downgrade(anyelement, boolean) IS 'As downgrade(text, …), the queue named by its row type.';

CREATE FUNCTION xqueue.drop(queue text)
RETURNS void LANGUAGE c AS 'MODULE_PATHNAME', 'drop_queue';
COMMENT ON FUNCTION xqueue.drop(text) IS
'Drops a queue''s table, unless tasks are taken or consumers wait (55006, with their number). DROP TABLE does not ask. After tarantool/queue''s drop.';

CREATE FUNCTION xqueue.drop(queue anyelement)
RETURNS void LANGUAGE c AS 'MODULE_PATHNAME', 'drop_queue';
COMMENT ON FUNCTION xqueue.drop(anyelement) IS 'As drop(text), the queue named by its row type.';

-- Producer -----------------------------------------------------------------------------------------

CREATE FUNCTION xqueue.put(queue text, task jsonb, delay interval DEFAULT NULL)
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'put';
COMMENT ON FUNCTION xqueue.put(text, jsonb, interval) IS
'Puts a task, an object whose members are columns of the table, or an array of such objects; columns left out get their defaults. delay: the task waits so long before it is ready (feature delayed). Returns the tasks as they are now. A plain INSERT or COPY does as well. Errors: 42703 no such column, 22P02 and others of class 22 for a value that is not of its column''s type, 22023 no object, negative delay, or a column that is the queue''s own, 0A000 feature delayed is off.';

CREATE FUNCTION xqueue.put(queue anyelement, task jsonb DEFAULT NULL, delay interval DEFAULT NULL)
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'put';
COMMENT ON FUNCTION xqueue.put(anyelement, jsonb, interval) IS
'As put(text, …), the queue named by its row type. Without task the row itself is put: its values that are not NULL, without the queue''s own columns.';

-- Consumer -----------------------------------------------------------------------------------------

CREATE FUNCTION xqueue.take(queue text, timeout interval DEFAULT '0', count integer DEFAULT 1)
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'take';
COMMENT ON FUNCTION xqueue.take(text, interval, integer) IS
'Takes up to count ready tasks, in the order of their keys, and waits up to timeout for the first; no row if there is none in time. They belong to this connection until it acks or releases them, or ends: then they are ready again. While it waits it holds no lock, but the snapshot of its statement: see next. Errors: 22023 negative or infinite timeout, count below 1; 22004 NULL; 0A000 waiting in repeatable read; 42P01 the queue was dropped meanwhile.';

CREATE FUNCTION xqueue.take(queue anyelement, timeout interval DEFAULT '0', count integer DEFAULT 1)
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'take';
COMMENT ON FUNCTION xqueue.take(anyelement, interval, integer) IS 'As take(text, …), the queue named by its row type, the tasks as its rows: SELECT * FROM xqueue.take(NULL::jobs, ''5s'').';

CREATE PROCEDURE xqueue.next(queue text, timeout interval DEFAULT NULL, INOUT task jsonb DEFAULT NULL)
LANGUAGE c AS 'MODULE_PATHNAME', 'next_json';
COMMENT ON PROCEDURE xqueue.next(text, interval, jsonb) IS
'The consumer''s loop in one call: acks task if one is given, takes the next one and commits. Waits up to timeout, without end if that is NULL, holding neither a snapshot nor a lock. task is NULL when the time is over. Errors: 2D000 inside a transaction block; those of ack and take.';

CREATE PROCEDURE xqueue.next(INOUT task anyelement, timeout interval DEFAULT NULL)
LANGUAGE c AS 'MODULE_PATHNAME', 'next_row';
COMMENT ON PROCEDURE xqueue.next(anyelement, interval) IS 'As next(text, …), the queue named by its row type: CALL xqueue.next(NULL::jobs).';

CREATE FUNCTION xqueue.ack(queue text, id anycompatible)
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'ack';
COMMENT ON FUNCTION xqueue.ack(text, anycompatible) IS
'A task that this session has taken is done: deletes it and returns it as it was. id: the key; an array is a batch, all or nothing; ROW(a, b) or a jsonb object for a key of several columns. Errors: P0002 not found, 55000 not taken by anybody, 55006 taken by another, 22P02 malformed id, 22004 NULL.';

CREATE FUNCTION xqueue.ack(queue anyelement, id anycompatible DEFAULT NULL)
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'ack';
COMMENT ON FUNCTION xqueue.ack(anyelement, anycompatible) IS 'As ack(text, …), the queue named by its row type. Without id the task is the row given.';

CREATE FUNCTION xqueue.release(queue text, id anycompatible, delay interval DEFAULT NULL)
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'release';
COMMENT ON FUNCTION xqueue.release(text, anycompatible, interval) IS
'Gives a task that this session has taken back: it is ready again, in its old place, or waits for delay (feature delayed). Returns it as it is now. Errors: those of ack, 22023 negative delay, 0A000 feature delayed is off.';

CREATE FUNCTION xqueue.release(queue anyelement, id anycompatible DEFAULT NULL, delay interval DEFAULT NULL)
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'release';
COMMENT ON FUNCTION xqueue.release(anyelement, anycompatible, interval) IS 'As release(text, …), the queue named by its row type. Without id the task is the row given.';

CREATE FUNCTION xqueue.peek(queue text, id anycompatible)
RETURNS SETOF jsonb LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'peek';
COMMENT ON FUNCTION xqueue.peek(text, anycompatible) IS 'Looks at a task in whatever state it is, without taking it; no row if there is none.';

CREATE FUNCTION xqueue.peek(queue anyelement, id anycompatible DEFAULT NULL)
RETURNS SETOF anyelement LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'peek';
COMMENT ON FUNCTION xqueue.peek(anyelement, anycompatible) IS 'As peek(text, …), the queue named by its row type. Without id the task is the row given.';

CREATE FUNCTION xqueue.identify()
RETURNS uuid LANGUAGE c AS 'MODULE_PATHNAME', 'identify';
COMMENT ON FUNCTION xqueue.identify() IS 'The uuid of this session, as it stands in the owner column of the tasks it has taken. Its first eight hexadecimal digits are the PID. DISCARD ALL ends the session and begins another.';

-- Monitor ------------------------------------------------------------------------------------------

CREATE FUNCTION xqueue.stats(queue text)
RETURNS jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'stats';
COMMENT ON FUNCTION xqueue.stats(text) IS
'Number of tasks by state, of tasks that went through each kind of call since the server started, and of consumers that wait, from shared memory: costs the same for any number of tasks. exact: the numbers by state are those of the table; false while they are counted anew or a prepared transaction has changed the table.';

CREATE FUNCTION xqueue.stats(queue anyelement)
RETURNS jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'stats';
COMMENT ON FUNCTION xqueue.stats(anyelement) IS 'As stats(text), the queue named by its row type.';

CREATE FUNCTION xqueue.stats()
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'stats_all';
COMMENT ON FUNCTION xqueue.stats() IS 'The same for each queue of this database that the caller may read.';

CREATE FUNCTION xqueue.check(queue text)
RETURNS jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'check';
COMMENT ON FUNCTION xqueue.check(text) IS
'Checks a queue: counters against the table, tasks taken by sessions that are gone, tasks that wait for nothing, triggers and indexes. Returns {"ok", "problems"}. Reads the whole table and blocks nobody; waits up to three seconds for what the worker is about to mend.';

CREATE FUNCTION xqueue.check(queue anyelement)
RETURNS jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'check';
COMMENT ON FUNCTION xqueue.check(anyelement) IS 'As check(text), the queue named by its row type.';

CREATE FUNCTION xqueue.state()
RETURNS text LANGUAGE c AS 'MODULE_PATHNAME', 'state';
COMMENT ON FUNCTION xqueue.state() IS 'RUNNING; STARTUP until the worker of this database runs; WAITING on a standby. After tarantool/queue''s state.';

CREATE FUNCTION xqueue.holders()
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'holders';
COMMENT ON FUNCTION xqueue.holders() IS 'The sessions that hold tasks: read the view xqueue.taken.';

CREATE FUNCTION xqueue.waiting_consumers()
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'waiting_consumers';
COMMENT ON FUNCTION xqueue.waiting_consumers() IS 'The consumers that wait for a task: read the view xqueue.consumers.';
