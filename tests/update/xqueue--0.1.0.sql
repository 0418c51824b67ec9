-- sql/schema.sql

-- What has to be so before anything is made: names and values pass through in UTF-8, and the owner of the
-- schema could put its own functions beside ours.
DO $$
DECLARE
    owner text := (SELECT r.rolname FROM pg_catalog.pg_namespace n
                   JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) n.nspowner
                   WHERE n.nspname OPERATOR(pg_catalog.=) 'xqueue' AND NOT r.rolsuper);
BEGIN
    IF pg_catalog.getdatabaseencoding() OPERATOR(pg_catalog.<>) 'UTF8' THEN
        RAISE EXCEPTION 'xqueue needs a database with encoding UTF8, not %', pg_catalog.getdatabaseencoding()
            USING ERRCODE = 'feature_not_supported',
                  HINT = 'CREATE DATABASE jobs ENCODING ''UTF8'' LOCALE ''C.UTF-8'' TEMPLATE template0 makes one, for example.';
    END IF;
    IF owner IS NOT NULL THEN
        RAISE EXCEPTION 'schema xqueue belongs to "%", who is no superuser', owner
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'ALTER SCHEMA xqueue OWNER TO a superuser, or drop it: CREATE EXTENSION makes its own.';
    END IF;
    IF EXISTS (SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n
               ON n.oid OPERATOR(pg_catalog.=) p.pronamespace WHERE n.nspname OPERATOR(pg_catalog.=) 'xqueue') THEN
        RAISE EXCEPTION 'schema xqueue has functions already'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Move them: one of them might be called in place of the extension''s own.';
    END IF;
END
$$;

-- The registry: which tables are queues. Written only by the extension's own functions, after they
-- have checked that the caller owns the table; readable by all.

CREATE TABLE xqueue.queue (
    relation regclass PRIMARY KEY,
    -- The table's oid when this row was written: differs from `relation` after dump and restore,
    -- when the numbers of columns in `definition` no longer hold.
    incarnation oid NOT NULL,
    definition jsonb NOT NULL,
    paused_until timestamptz
);

COMMENT ON TABLE xqueue.queue IS 'The tables that are queues, and how. Read the view xqueue.queues; change with xqueue.upgrade(), xqueue.downgrade(), xqueue.pause() and xqueue.resume().';
COMMENT ON COLUMN xqueue.queue.relation IS 'The table.';
COMMENT ON COLUMN xqueue.queue.incarnation IS 'The oid that the table had when this was written.';
COMMENT ON COLUMN xqueue.queue.definition IS 'Options, and the columns they were resolved to.';
COMMENT ON COLUMN xqueue.queue.paused_until IS 'End of the pause, until which no task is taken; NULL or past: not paused.';

CREATE FUNCTION xqueue.registry_changed() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'registry_changed';
COMMENT ON FUNCTION xqueue.registry_changed() IS 'Trigger of the registry: tells the worker of queues that come with a restored dump.';
CREATE TRIGGER registry_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON xqueue.queue
FOR EACH STATEMENT EXECUTE FUNCTION xqueue.registry_changed();
COMMENT ON TRIGGER registry_changed ON xqueue.queue IS 'Tells the worker of queues that come with a restored dump.';

CREATE FUNCTION xqueue.queue_arrives() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'queue_arrives';
COMMENT ON FUNCTION xqueue.queue_arrives() IS 'Trigger of the registry: the row of a dump is left out if its table is a queue here already.';
CREATE TRIGGER queue_arrives BEFORE INSERT ON xqueue.queue FOR EACH ROW EXECUTE FUNCTION xqueue.queue_arrives();
ALTER TABLE xqueue.queue ENABLE ALWAYS TRIGGER queue_arrives;
COMMENT ON TRIGGER queue_arrives ON xqueue.queue IS 'Leaves out the row of a dump if its table is a queue here already.';

SELECT pg_catalog.pg_extension_config_dump('xqueue.queue', '');

GRANT USAGE ON SCHEMA xqueue TO PUBLIC;
GRANT SELECT ON xqueue.queue TO PUBLIC;

-- The identified sessions: they own tasks, and outlive their connections. Written by identify() and
-- the worker only; see the view xqueue.sessions.

CREATE TABLE xqueue.session (
    uuid uuid PRIMARY KEY,
    role regrole NOT NULL,
    grace interval NOT NULL,
    lease timestamptz NOT NULL
);
CREATE INDEX session_lease_idx ON xqueue.session (lease);
CREATE INDEX session_role_idx ON xqueue.session (role);

COMMENT ON INDEX xqueue.session_lease_idx IS 'The sessions that end next, for the worker.';
COMMENT ON INDEX xqueue.session_role_idx IS 'How many sessions a role has, for the setting xqueue.max_sessions_per_role.';
COMMENT ON TABLE xqueue.session IS 'The identified sessions, which own tasks and outlive their connections. Read the view xqueue.sessions; change with xqueue.identify().';
COMMENT ON COLUMN xqueue.session.uuid IS 'As it stands in the owner column of the tasks that it has taken.';
COMMENT ON COLUMN xqueue.session.role IS 'The role that has opened it: only its members may join it.';
COMMENT ON COLUMN xqueue.session.grace IS 'How long it lives on without a connection.';
COMMENT ON COLUMN xqueue.session.lease IS 'When it ends, if no connection is attached to it; infinity while one is.';

-- The key of the hash that tells sub-queues apart. Indexes are made of it, so it is never changed; a dump leaves it out, as
-- the restored database has a key of its own and makes its indexes anew. Row security holds for whoever is granted all tables.

CREATE TABLE xqueue.secret (key uuid NOT NULL);
INSERT INTO xqueue.secret VALUES (pg_catalog.gen_random_uuid());
REVOKE ALL ON xqueue.secret FROM PUBLIC;
ALTER TABLE xqueue.secret ENABLE ROW LEVEL SECURITY;

COMMENT ON TABLE xqueue.secret IS 'The secret that sub-queues are told apart by. Never change it: the indexes of queues with feature utube are made of it.';
COMMENT ON COLUMN xqueue.secret.key IS 'Drawn by CREATE EXTENSION.';

-- sql/functions.sql

-- The functions, each in two forms: a queue named by text gives jsonb, a queue named by its row type
-- (NULL::jobs, or a row of it) gives rows of that type. With each its comment.
-- What each says of names, types, defaults and results is said in Rust as well, in sql_functions! beside the code that
-- does it; tests/tests/surface/declarations.rs compares the two.

-- Trigger functions --------------------------------------------------------------------------------

CREATE FUNCTION xqueue.row_changed() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'row_changed';
COMMENT ON FUNCTION xqueue.row_changed() IS 'Trigger of a queue: keeps counters, wake-ups and due times right, by whatever means a row is changed. Set by xqueue.upgrade().';

CREATE FUNCTION xqueue.row_arrives() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'row_arrives';
COMMENT ON FUNCTION xqueue.row_arrives() IS 'Trigger of a queue with feature delayed, or ttl with a default: a ready row whose runat lies in the future is inserted as waiting, one without an end of life gets the default. Set by xqueue.upgrade().';

CREATE FUNCTION xqueue.truncated() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'truncated';
COMMENT ON FUNCTION xqueue.truncated() IS 'Trigger of a queue: TRUNCATE sets the counters to zero. Set by xqueue.upgrade().';

CREATE FUNCTION xqueue.subqueue(label anyelement)
RETURNS bigint LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'subqueue';
COMMENT ON FUNCTION xqueue.subqueue(anyelement) IS 'The sub-queue of a label: its hash with a secret of this database. Indexes of queues with feature utube are made of it, so whoever writes to such a queue needs EXECUTE.';

-- Creator ------------------------------------------------------------------------------------------

CREATE FUNCTION xqueue.upgrade(queue text, options jsonb DEFAULT '{}', dry_run boolean DEFAULT false)
RETURNS jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'upgrade';
COMMENT ON FUNCTION xqueue.upgrade(text, jsonb, boolean) IS
'Makes a table a queue, or switches features of a live one; what options do not name stays as it is. Returns the definition in force. dry_run: changes nothing and returns {"definition", "ddl"}, the statements it would run. Tasks in a state that the new features do not have: refused with their number (55006), unless options say what becomes of them: {"convert": {"B": "R"}}. Locks: SHARE ROW EXCLUSIVE while indexes and triggers are made, ACCESS EXCLUSIVE if columns are added; none that blocks if nothing is to be done. Errors: 42501 not the owner, 42P01 no such table, 42809 no ordinary table, 42P16 no key, or the column of a field is NOT NULL, 42701 a column has the name of a field, 42804 a column of the wrong type, 22023 bad options or foreign status values. After Tarantool''s xqueue.';

CREATE FUNCTION xqueue.upgrade(queue anyelement, options jsonb DEFAULT '{}', dry_run boolean DEFAULT false)
RETURNS jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'upgrade';
COMMENT ON FUNCTION xqueue.upgrade(anyelement, jsonb, boolean) IS 'As upgrade(text, …), the queue named by its row type: xqueue.upgrade(NULL::jobs).';

CREATE FUNCTION xqueue.create(queue text, options jsonb DEFAULT '{}', temporary boolean DEFAULT false, if_not_exists boolean DEFAULT false)
RETURNS jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'create';
COMMENT ON FUNCTION xqueue.create(text, jsonb, boolean, boolean) IS
'Creates a table (id, payload jsonb) and makes it a queue; id is a bigint identity, or what feature id says. temporary: UNLOGGED, emptied by a crash. if_not_exists: an existing queue gets the options, as by upgrade. Returns the definition in force. Errors: 42P07 the table exists, and those of upgrade. After tarantool/queue''s create_tube.';

CREATE FUNCTION xqueue.downgrade(queue text, drop_columns boolean DEFAULT false)
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'downgrade';
COMMENT ON FUNCTION xqueue.downgrade(text, boolean) IS
'Makes a queue an ordinary table again: drops the triggers and indexes that upgrade has made, with drop_columns its columns too. Waiting consumers and producers get an error. Lock: ACCESS EXCLUSIVE. Returns true. Errors: 42501 not the owner, 55000 not a queue.';

CREATE FUNCTION xqueue.downgrade(queue anyelement, drop_columns boolean DEFAULT false)
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'downgrade';
COMMENT ON FUNCTION xqueue.downgrade(anyelement, boolean) IS 'As downgrade(text, …), the queue named by its row type.';

CREATE FUNCTION xqueue.drop(queue text)
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'drop_queue';
COMMENT ON FUNCTION xqueue.drop(text) IS
'Drops a queue''s table, unless tasks are taken, or consumers or producers wait (55006, with their number). DROP TABLE does not ask. Returns true. Errors: 42501 not the owner, 55000 no queue. After tarantool/queue''s drop.';

CREATE FUNCTION xqueue.drop(queue anyelement)
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'drop_queue';
COMMENT ON FUNCTION xqueue.drop(anyelement) IS 'As drop(text), the queue named by its row type.';

-- Producer -----------------------------------------------------------------------------------------

CREATE FUNCTION xqueue.put(queue text, task jsonb, delay interval DEFAULT NULL, ttl interval DEFAULT NULL, ttr interval DEFAULT NULL, priority bigint DEFAULT NULL, tube text DEFAULT NULL, front boolean DEFAULT false, timeout interval DEFAULT '0', on_conflict text DEFAULT 'error')
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'put';
COMMENT ON FUNCTION xqueue.put(text, jsonb, interval, interval, interval, bigint, text, boolean, interval, text) IS
'Puts a task, an object whose members are columns of the table, or an array of such objects; columns left out get their defaults. delay: the task waits so long before it is ready (feature delayed). ttl: it vanishes if it has not been taken for so long, counted from the end of the delay (feature ttl). ttr: how long a consumer may have it (feature ttr). priority: smaller numbers are taken first; within the range of its column, which may be a bigint (feature priority). tube: its label (feature tube). front: ahead of all ready tasks, by a priority one less than their least and at most -1 (feature priority). timeout: how long to wait for room under the queue''s capacity (feature capacity), first come first served; while it waits it holds no lock, but the snapshot of its statement. on_conflict: what becomes of a task whose key is there already: error, nothing (it stays as it is), or update (it gets the columns that the task gives, and what the call gives of delay, ttl, ttr, priority and tube if no consumer has begun with it; a delay of zero makes it ready). All tasks of a call are put together, or none. Returns the tasks as they are now, those that were there among them; no row if there was no room in time. A plain INSERT or COPY does as well, but does not wait for room. Errors: 23505 a task with the key is there, 42703 no such column, 22P02 and others of class 22 for a value that is not of its column''s type, 22004 no key (feature id is required), 22023 no object, negative time, a column that is the queue''s own or given twice, front with a priority, no such value of on_conflict, 22003 a priority that its column cannot hold, or no priority is less, 0A000 the feature is off, or waiting in repeatable read, 53400 more tasks than the capacity, 55000 the tasks have not been counted since the server started, 42P01 the queue was dropped meanwhile. After tarantool/queue''s limfifottl, and its predecessor''s push.';

CREATE FUNCTION xqueue.put(queue anyelement, task jsonb DEFAULT NULL, delay interval DEFAULT NULL, ttl interval DEFAULT NULL, ttr interval DEFAULT NULL, priority bigint DEFAULT NULL, tube text DEFAULT NULL, front boolean DEFAULT false, timeout interval DEFAULT '0', on_conflict text DEFAULT 'error')
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'put';
COMMENT ON FUNCTION xqueue.put(anyelement, jsonb, interval, interval, interval, bigint, text, boolean, interval, text) IS
'As put(text, …), the queue named by its row type. Without task the row itself is put: its values that are not NULL, without the queue''s own columns.';

CREATE PROCEDURE xqueue.put_wait(queue text, task jsonb, timeout interval DEFAULT NULL, INOUT outcome text DEFAULT NULL, INOUT id jsonb DEFAULT NULL)
LANGUAGE c AS 'MODULE_PATHNAME', 'put_wait';
COMMENT ON PROCEDURE xqueue.put_wait(text, jsonb, interval, text, jsonb) IS
'Puts a task, commits, and waits up to timeout, without end if that is NULL, until it is processed; misses nothing. Room under the queue''s capacity is waited for within the same time. outcome: as wait gives it, NULL when the time is over, or full: there was no room in time, and the task was not put. id: the key of the task that was put, an object for a key of several columns, so that one can wait for it again: SELECT xqueue.wait(queue, id). Holds neither a snapshot nor a lock while it waits. Errors: 2D000 inside a transaction block; those of put. After xqueue''s put with wait.';

CREATE PROCEDURE xqueue.put_wait(queue anyelement, task jsonb, timeout interval DEFAULT NULL, INOUT outcome text DEFAULT NULL, INOUT id jsonb DEFAULT NULL)
LANGUAGE c AS 'MODULE_PATHNAME', 'put_wait';
COMMENT ON PROCEDURE xqueue.put_wait(anyelement, jsonb, interval, text, jsonb) IS 'As put_wait(text, …), the queue named by its row type.';

CREATE FUNCTION xqueue.time64(queue regclass)
RETURNS bigint LANGUAGE c AS 'MODULE_PATHNAME', 'time64';
COMMENT ON FUNCTION xqueue.time64(regclass) IS 'Microseconds since 1970-01-01, greater than what any connection got before for this queue, also when the clock has been set back: the default of a key with feature id = time64. After a restart it goes on after the greatest key that is there, but for keys more than a hundred years ahead of the clock. Errors: 55000 not a queue, 25006 on a standby.';

CREATE FUNCTION xqueue.uuidv7()
RETURNS uuid LANGUAGE c AS 'MODULE_PATHNAME', 'uuidv7';
COMMENT ON FUNCTION xqueue.uuidv7() IS 'A UUID of version 7 (RFC 9562): the time in steps of 1/4096 ms, then random bits; greater than those that this connection got before, also when the clock has been set back. Before PostgreSQL 18, which has pg_catalog.uuidv7(), the default of a key with feature id = uuid.';

-- Consumer -----------------------------------------------------------------------------------------

CREATE FUNCTION xqueue.take(queue text, timeout interval DEFAULT '0', count integer DEFAULT 1, tube text DEFAULT NULL, ttr interval DEFAULT NULL, done anycompatible DEFAULT NULL, id anycompatible DEFAULT NULL)
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'take';
COMMENT ON FUNCTION xqueue.take(text, interval, integer, text, interval, anycompatible, anycompatible) IS
'Takes up to count ready tasks, in the order of priority (feature priority) and key, or as the function of feature pick says, and waits up to timeout for the first; no row if there is none in time. tube: only tasks of this tube (feature tube). ttr: how long they may be out before they are ready again (feature ttr); else the task''s own, else the default. done: the key of a task that this session has taken, or an array of keys: acks these first, all or nothing, in the same call and commit; then it does not wait, whatever the timeout, so that the ack is not held up: the next call does. id: takes just this task, or those of an array, if it is ready, waits or is buried, whatever the order; no row if it cannot be taken now; goes without timeout and count. A task that jsonb cannot hold or that no UPDATE can write is passed over, and named in queues.error. They belong to this connection until it acks, releases or buries them, or ends: then they are ready again. While it waits it holds no lock, but the snapshot of its statement: see next. Errors: 22023 negative or infinite timeout, count below 1, timeout or count with id; 22004 NULL; those of ack; 0A000 waiting in repeatable read, or a feature that is off; 42P01 the queue was dropped meanwhile. id is beanstalkd''s reserve-job.';

CREATE FUNCTION xqueue.take(queue anyelement, timeout interval DEFAULT '0', count integer DEFAULT 1, tube text DEFAULT NULL, ttr interval DEFAULT NULL, done anycompatible DEFAULT NULL, id anycompatible DEFAULT NULL)
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'take';
COMMENT ON FUNCTION xqueue.take(anyelement, interval, integer, text, interval, anycompatible, anycompatible) IS 'As take(text, …), the queue named by its row type, the tasks as its rows: SELECT * FROM xqueue.take(NULL::jobs, ''5s'').';

CREATE PROCEDURE xqueue.next(queue text, timeout interval DEFAULT NULL, tube text DEFAULT NULL, INOUT task jsonb DEFAULT NULL, count integer DEFAULT 1)
LANGUAGE c AS 'MODULE_PATHNAME', 'next_json';
COMMENT ON PROCEDURE xqueue.next(text, interval, text, jsonb, integer) IS
'The consumer''s loop in one call: acks task if one is given, or an array of tasks, takes the next one, of one tube where that is given, and commits. count: with more than one it takes up to that many, and task becomes an array. Waits up to timeout, without end if that is NULL, holding neither a snapshot nor a lock. task is NULL when the time is over. Errors: 2D000 inside a transaction block; those of ack and take.';

CREATE PROCEDURE xqueue.next(INOUT task anyelement, timeout interval DEFAULT NULL, tube text DEFAULT NULL)
LANGUAGE c AS 'MODULE_PATHNAME', 'next_row';
COMMENT ON PROCEDURE xqueue.next(anyelement, interval, text) IS 'As next(text, …), the queue named by its row type: CALL xqueue.next(NULL::jobs).';

CREATE FUNCTION xqueue.ack(queue text, id anycompatible, update jsonb DEFAULT NULL, delay interval DEFAULT NULL, attempt integer DEFAULT NULL)
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'ack';
COMMENT ON FUNCTION xqueue.ack(text, anycompatible, jsonb, interval, integer) IS
'A task that this session has taken is done: it is deleted, or stays as done (feature keep), or as a zombie for delay or the feature''s default (feature zombie). Returns it as it was, or as it is now. id: the key; an array is a batch, all or nothing; ROW(a, b) or a jsonb object for a key of several columns. update: columns to set in the same statement, if the task stays. attempt: must be the task''s number of attempts (feature retry), so that a consumer that has lost its task and got it again does not ack for the earlier attempt. Errors: P0002 not found, 55000 not taken by anybody, or in another attempt, 55006 taken by another (with a WARNING where that one looks like another connection of a pool, and the queue has no time to run), 22P02 malformed id, 22004 NULL, 22023 a column that cannot be updated, 0A000 the feature is off.';

CREATE FUNCTION xqueue.ack(queue anyelement, id anycompatible DEFAULT NULL, update jsonb DEFAULT NULL, delay interval DEFAULT NULL, attempt integer DEFAULT NULL)
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'ack';
COMMENT ON FUNCTION xqueue.ack(anyelement, anycompatible, jsonb, interval, integer) IS 'As ack(text, …), the queue named by its row type. Without id the task is the row given.';

CREATE FUNCTION xqueue.release(queue text, id anycompatible, update jsonb DEFAULT NULL, delay interval DEFAULT NULL, ttl interval DEFAULT NULL, failed boolean DEFAULT true, error text DEFAULT NULL)
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'release';
COMMENT ON FUNCTION xqueue.release(text, anycompatible, jsonb, interval, interval, boolean, text) IS
'Gives a task that this session has taken back: it is ready again, in its old place, or waits for delay (feature delayed) or, without one, as feature retry says (zero: not at all); after its last attempt it is buried. update: columns to set in the same statement. ttl: it vanishes if it has not been taken for so long, counted from the end of the delay; a delay without ttl puts the end of its life off. failed: false for a task that was not tried, as when the consumer shuts down: it uses up no attempt (feature retry), so the next take has the same number. error: what went wrong, kept in the field reason (feature retry) until the task is released again or acked. Returns it as it is now. Errors: those of ack, 22023 negative delay, 0A000 the feature is off.';

CREATE FUNCTION xqueue.give_back(queue text)
RETURNS integer LANGUAGE c AS 'MODULE_PATHNAME', 'give_back';
COMMENT ON FUNCTION xqueue.give_back(text) IS
'Gives back all tasks of a queue that this session has taken, as release with failed => false: they are ready again and have used up no attempt. For a consumer that ends its work early: before the connection goes back to a pool, in a finally block, on SIGTERM. Returns how many there were. NULL: of all queues. Passes over those that no UPDATE can write, which queues.error names. Each counts as give_back. Errors: 42501 no SELECT and UPDATE on the table, 55000 no queue, 25006 on a standby.';

CREATE FUNCTION xqueue.give_back(queue anyelement)
RETURNS integer LANGUAGE c AS 'MODULE_PATHNAME', 'give_back';
COMMENT ON FUNCTION xqueue.give_back(anyelement) IS 'As give_back(text), the queue named by its row type.';

CREATE FUNCTION xqueue.give_back()
RETURNS integer LANGUAGE c AS 'MODULE_PATHNAME', 'give_back_all';
COMMENT ON FUNCTION xqueue.give_back() IS 'The same for all queues of this database that the caller may update.';

CREATE FUNCTION xqueue.release(queue anyelement, id anycompatible DEFAULT NULL, update jsonb DEFAULT NULL, delay interval DEFAULT NULL, ttl interval DEFAULT NULL, failed boolean DEFAULT true, error text DEFAULT NULL)
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'release';
COMMENT ON FUNCTION xqueue.release(anyelement, anycompatible, jsonb, interval, interval, boolean, text) IS 'As release(text, …), the queue named by its row type. Without id the task is the row given.';

CREATE FUNCTION xqueue.bury(queue text, id anycompatible, update jsonb DEFAULT NULL, ttl interval DEFAULT NULL)
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'bury';
COMMENT ON FUNCTION xqueue.bury(text, anycompatible, jsonb, interval) IS
'Puts a task that this session has taken aside: it is buried, and no take finds it until it is dug out (feature buried). update: columns to set in the same statement. ttl: it vanishes after so long. Returns it as it is now. Errors: those of ack. After beanstalkd.';

CREATE FUNCTION xqueue.bury(queue anyelement, id anycompatible DEFAULT NULL, update jsonb DEFAULT NULL, ttl interval DEFAULT NULL)
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'bury';
COMMENT ON FUNCTION xqueue.bury(anyelement, anycompatible, jsonb, interval) IS 'As bury(text, …), the queue named by its row type. Without id the task is the row given.';

CREATE FUNCTION xqueue.touch(queue text, id anycompatible, increment interval DEFAULT NULL)
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'touch';
COMMENT ON FUNCTION xqueue.touch(text, anycompatible, interval) IS
'More time for a task that this session has taken: puts off the end of its time to run and of its life (features ttr and ttl). Returns it as it is now; no row for an increment of zero or NULL. Errors: those of ack, 22023 negative increment, 0A000 both features are off. After tarantool/queue.';

CREATE FUNCTION xqueue.touch(queue anyelement, id anycompatible DEFAULT NULL, increment interval DEFAULT NULL)
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'touch';
COMMENT ON FUNCTION xqueue.touch(anyelement, anycompatible, interval) IS 'As touch(text, …), the queue named by its row type. Without id the task is the row given.';

CREATE FUNCTION xqueue.identify(session uuid DEFAULT NULL, grace interval DEFAULT NULL, local boolean DEFAULT false)
RETURNS uuid LANGUAGE c AS 'MODULE_PATHNAME', 'identify';
COMMENT ON FUNCTION xqueue.identify(uuid, interval, boolean) IS
'The uuid of the session that this connection acts for, as it stands in the owner column of the tasks it has taken. Without session: its own, whose first eight hexadecimal digits are the PID, unless it has joined another. With session: joins that one; several connections may share it. grace: the session lives on for so long without a connection, through a restart and a failover, before its tasks are ready again (default: the setting xqueue.session_grace, unless that is zero). local: until the end of the transaction only, for pools that give a transaction any connection; without session a new one is opened. Tasks stay with the session that took them: joining another while the connection''s own holds some gives a WARNING. DISCARD ALL leaves a joined session and ends the connection''s own. A rollback undoes the opening of a session, not the joining of one. Errors: 42704 no such session, or its time is over; 42501 not a member of the role that opened it, in a security-restricted operation, or to change anything in a SECURITY DEFINER function; 22P02 no uuid; 22023 negative or infinite grace, one above xqueue.max_session_grace, or none for a new local session; 53400 more than xqueue.max_sessions_per_role; 0A000 joining in repeatable read, in a background process; 25006 on a standby. After tarantool/queue.';

-- Administrator ------------------------------------------------------------------------------------

CREATE FUNCTION xqueue.peek(queue text, id anycompatible)
RETURNS SETOF jsonb LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'peek';
COMMENT ON FUNCTION xqueue.peek(text, anycompatible) IS
'Looks at a task in whatever state it is, without taking it; no row if there is none. A SELECT of the caller''s: row security applies. id: the key; an array is a batch. Errors: 42501 no SELECT on the table, 55000 no queue, 42804 or 22P02 an id that is no key.';

CREATE FUNCTION xqueue.peek(queue anyelement, id anycompatible DEFAULT NULL)
RETURNS SETOF anyelement LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'peek';
COMMENT ON FUNCTION xqueue.peek(anyelement, anycompatible) IS 'As peek(text, …), the queue named by its row type. Without id the task is the row given.';

CREATE FUNCTION xqueue.tasks_by_state(queue text, status text, count integer DEFAULT NULL)
RETURNS SETOF jsonb LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'tasks_by_state';
COMMENT ON FUNCTION xqueue.tasks_by_state(text, text, integer) IS
'The tasks in a state, at most count of them, all if that is NULL, in the order in which they leave it: ready and buried ones by priority (feature priority) and key, as they are taken and dug out; those that wait, zombies, and taken ones with feature ttr by the instant at which that ends, those without such an instant last; the others by key. status: R, T, W, B, Z or D, a word such as buried, or the value of the status column. With count => 1 the next one, as by beanstalkd''s peek-ready, peek-delayed and peek-buried. Errors: 22023 no such state, negative count. After tarantool/queue.';

CREATE FUNCTION xqueue.tasks_by_state(queue anyelement, status text, count integer DEFAULT NULL)
RETURNS SETOF anyelement LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'tasks_by_state';
COMMENT ON FUNCTION xqueue.tasks_by_state(anyelement, text, integer) IS 'As tasks_by_state(text, …), the queue named by its row type.';

CREATE FUNCTION xqueue.dig(queue text, id anycompatible, delay interval DEFAULT NULL, ttl interval DEFAULT NULL)
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'dig';
COMMENT ON FUNCTION xqueue.dig(text, anycompatible, interval, interval) IS
'Digs a buried task out: it is ready again, or waits for delay (features buried, delayed). ttl: it vanishes if it has not been taken for so long. Returns it as it is now. Errors: P0002 not found, 55000 not buried, 0A000 the feature is off. After xqueue.';

CREATE FUNCTION xqueue.dig(queue anyelement, id anycompatible DEFAULT NULL, delay interval DEFAULT NULL, ttl interval DEFAULT NULL)
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'dig';
COMMENT ON FUNCTION xqueue.dig(anyelement, anycompatible, interval, interval) IS 'As dig(text, …), the queue named by its row type. Without id the task is the row given.';

CREATE FUNCTION xqueue.plow(queue text, n integer DEFAULT NULL, delay interval DEFAULT NULL, ttl interval DEFAULT NULL)
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'plow';
COMMENT ON FUNCTION xqueue.plow(text, integer, interval, interval) IS
'Digs the first n buried tasks out, in the order of priority (feature priority) and key, all if n is NULL, as dig does with one; passes over those that another transaction has locked, and those that no UPDATE can write, which queues.error names. Returns them as they are now, in this order. Errors: 22023 negative n, 0A000 the feature is off. After xqueue.';

CREATE FUNCTION xqueue.plow(queue anyelement, n integer DEFAULT NULL, delay interval DEFAULT NULL, ttl interval DEFAULT NULL)
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'plow';
COMMENT ON FUNCTION xqueue.plow(anyelement, integer, interval, interval) IS 'As plow(text, …), the queue named by its row type.';

CREATE FUNCTION xqueue.kick(queue text, n integer)
RETURNS integer LANGUAGE c AS 'MODULE_PATHNAME', 'kick';
COMMENT ON FUNCTION xqueue.kick(text, integer) IS
'Digs the first n buried tasks out, as plow, and returns how many there were. Errors: those of plow. After beanstalkd.';

CREATE FUNCTION xqueue.kick(queue anyelement, n integer)
RETURNS integer LANGUAGE c AS 'MODULE_PATHNAME', 'kick';
COMMENT ON FUNCTION xqueue.kick(anyelement, integer) IS 'As kick(text, …), the queue named by its row type.';

CREATE FUNCTION xqueue.switch(queue text, id anycompatible, status text, delay interval DEFAULT NULL)
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'switch_task';
COMMENT ON FUNCTION xqueue.switch(text, anycompatible, text, interval) IS
'Brings a task that is not taken to a state that the queue has: R, W, B, Z or D, a word such as ready, or the value of the status column. delay: how long it stays in W or Z. Returns it as it is now. Errors: P0002 not found, 55006 taken, 22023 no such state, T, or no delay where one is needed, 0A000 the state''s feature is off.';

CREATE FUNCTION xqueue.switch(queue anyelement, id anycompatible DEFAULT NULL, status text DEFAULT NULL, delay interval DEFAULT NULL)
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'switch_task';
COMMENT ON FUNCTION xqueue.switch(anyelement, anycompatible, text, interval) IS 'As switch(text, …), the queue named by its row type. Without id the task is the row given.';

CREATE FUNCTION xqueue.snatch(queue text, id anycompatible, delay interval DEFAULT NULL)
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'snatch';
COMMENT ON FUNCTION xqueue.snatch(text, anycompatible, interval) IS
'Takes a task away from the session that has taken it: it is ready again, or waits for delay (feature delayed). It uses up no attempt (feature retry). Returns it as it is now. Errors: P0002 not found, 55000 not taken, 0A000 the feature is off.';

CREATE FUNCTION xqueue.snatch(queue anyelement, id anycompatible DEFAULT NULL, delay interval DEFAULT NULL)
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'snatch';
COMMENT ON FUNCTION xqueue.snatch(anyelement, anycompatible, interval) IS 'As snatch(text, …), the queue named by its row type. Without id the task is the row given.';

CREATE FUNCTION xqueue.release_all(queue text)
RETURNS integer LANGUAGE c AS 'MODULE_PATHNAME', 'release_all';
COMMENT ON FUNCTION xqueue.release_all(text) IS
'Takes all taken tasks away from the sessions that have taken them: they are ready again. Returns how many. They use up no attempt (feature retry); each counts as a snatch. Passes over those that another transaction has locked, as they are being acked or released, and those that no UPDATE can write, which queues.error names. Errors: 42501 no SELECT and UPDATE on the table, 55000 no queue, 25006 on a standby. After tarantool/queue.';

CREATE FUNCTION xqueue.release_all(queue anyelement)
RETURNS integer LANGUAGE c AS 'MODULE_PATHNAME', 'release_all';
COMMENT ON FUNCTION xqueue.release_all(anyelement) IS 'As release_all(text), the queue named by its row type.';

CREATE FUNCTION xqueue.restart(queue text, id anycompatible, delay interval DEFAULT NULL)
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'restart';
COMMENT ON FUNCTION xqueue.restart(text, anycompatible, interval) IS
'Brings a task that waits, or was acked and kept (W, Z, D), back: it is ready, or waits for delay (feature delayed). One that was acked gets the default time to live. Returns it as it is now. Errors: P0002 not found, 55000 in another state, 0A000 the feature is off.';

CREATE FUNCTION xqueue.restart(queue anyelement, id anycompatible DEFAULT NULL, delay interval DEFAULT NULL)
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'restart';
COMMENT ON FUNCTION xqueue.restart(anyelement, anycompatible, interval) IS 'As restart(text, …), the queue named by its row type. Without id the task is the row given.';

CREATE FUNCTION xqueue.delete(queue text, id anycompatible)
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'delete_task';
COMMENT ON FUNCTION xqueue.delete(text, anycompatible) IS
'Deletes a task in whatever state it is, also if it is taken. Returns it as it was. Errors: P0002 not found. xqueue''s kill.';

CREATE FUNCTION xqueue.delete(queue anyelement, id anycompatible DEFAULT NULL)
RETURNS SETOF anyelement LANGUAGE c AS 'MODULE_PATHNAME', 'delete_task';
COMMENT ON FUNCTION xqueue.delete(anyelement, anycompatible) IS 'As delete(text, …), the queue named by its row type. Without id the task is the row given.';

CREATE FUNCTION xqueue.pause(queue text, duration interval DEFAULT NULL)
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'pause_queue';
COMMENT ON FUNCTION xqueue.pause(text, interval) IS
'Pauses a queue for duration, from now, or until resume if that is NULL: take and next find nothing and wait on, a take of given tasks as well; all else goes on, also work on tasks that are taken. In place of an earlier pause; zero: none. It ends by itself, and waiting consumers take then, first come first served; it outlasts a restart of the server. Returns true. Errors: 42501 not the owner, 22023 negative or infinite duration. After beanstalkd''s pause-tube.';

CREATE FUNCTION xqueue.pause(queue anyelement, duration interval DEFAULT NULL)
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'pause_queue';
COMMENT ON FUNCTION xqueue.pause(anyelement, interval) IS 'As pause(text, …), the queue named by its row type.';

CREATE FUNCTION xqueue.resume(queue text)
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'resume_queue';
COMMENT ON FUNCTION xqueue.resume(text) IS
'Ends the pause of a queue; waiting consumers take what is there, first come first served. Does nothing if it is not paused. Returns true. Errors: 42501 not the owner.';

CREATE FUNCTION xqueue.resume(queue anyelement)
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'resume_queue';
COMMENT ON FUNCTION xqueue.resume(anyelement) IS 'As resume(text), the queue named by its row type.';

CREATE FUNCTION xqueue.truncate(queue text)
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'truncate_queue';
COMMENT ON FUNCTION xqueue.truncate(text) IS 'Deletes all tasks at once, as TRUNCATE does, with its lock (ACCESS EXCLUSIVE) and privilege. The table''s triggers run as its owner if the caller is a superuser or a member of that role. Returns true. Errors: 42501 no TRUNCATE on the table, 55000 no queue, 25006 on a standby.';

CREATE FUNCTION xqueue.truncate(queue anyelement)
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'truncate_queue';
COMMENT ON FUNCTION xqueue.truncate(anyelement) IS 'As truncate(text), the queue named by its row type.';

CREATE FUNCTION xqueue.wait(queue text, id anycompatible, timeout interval DEFAULT NULL)
RETURNS text LANGUAGE c AS 'MODULE_PATHNAME', 'wait_task';
COMMENT ON FUNCTION xqueue.wait(text, anycompatible, interval) IS
'Waits up to timeout, without end if that is NULL, until a task is processed, and returns what has become of it: acked, buried, expired (its ttl was over) or deleted; gone if it was not there (any more); NULL when the time is over. A task that is buried, done or a zombie already does not wait. While it waits it holds no lock, but the snapshot of its statement. Errors: 22023 more than one task, 0A000 in repeatable read, 42P01 the queue was dropped meanwhile. After xqueue.';

CREATE FUNCTION xqueue.wait(queue anyelement, id anycompatible DEFAULT NULL, timeout interval DEFAULT NULL)
RETURNS text LANGUAGE c AS 'MODULE_PATHNAME', 'wait_task';
COMMENT ON FUNCTION xqueue.wait(anyelement, anycompatible, interval) IS 'As wait(text, …), the queue named by its row type. Without id the task is the row given.';

-- Monitor ------------------------------------------------------------------------------------------

CREATE FUNCTION xqueue.stats(queue text)
RETURNS jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'stats';
COMMENT ON FUNCTION xqueue.stats(text) IS
'Number of tasks by state, of tasks that went through each kind of call and each transition between states since the server started (X: nowhere, S: another tube), and of consumers that wait; of a queue with a capacity that, the room reserved by open transactions, and how many producers wait for room; the same by tube for the tubes of option tube_stats; from shared memory: costs the same for any number of tasks. exact: the numbers by state are those of the table; false while they are counted anew or a prepared transaction has changed the table. Errors: 42501 no SELECT on the table, or row security applies to the role: the counts are of all rows.';

CREATE FUNCTION xqueue.stats(queue anyelement)
RETURNS jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'stats';
COMMENT ON FUNCTION xqueue.stats(anyelement) IS 'As stats(text), the queue named by its row type.';

CREATE FUNCTION xqueue.stats()
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'stats_all';
COMMENT ON FUNCTION xqueue.stats() IS 'The same for each queue of this database that the caller may read, unless row security applies to it.';

CREATE FUNCTION xqueue.stats(queue text, id anycompatible)
RETURNS SETOF jsonb LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'stats_task';
COMMENT ON FUNCTION xqueue.stats(text, anycompatible) IS
'What is known of a task, no row if there is none: queue, key, state; session and pid that have taken it; attempts, how often it was taken, without what used up no attempt (feature retry); ttr, its time to run in seconds; time_left, seconds until its delay, its time to run or its time as a zombie is over; life_left, seconds of its life; priority; tube; age in seconds (feature id is time64). What the queue or the task does not have is left out. id: the key; an array is a batch. Runs no code of the table''s owner with the caller''s rights. Errors: 42501 no SELECT on the table, or row security applies to the role: see peek. After beanstalkd''s stats-job.';

CREATE FUNCTION xqueue.stats(queue anyelement, id anycompatible)
RETURNS SETOF jsonb LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'stats_task';
COMMENT ON FUNCTION xqueue.stats(anyelement, anycompatible) IS 'As stats(text, anycompatible), the queue named by its row type.';

CREATE FUNCTION xqueue.stats_reset(queue text)
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'stats_reset';
COMMENT ON FUNCTION xqueue.stats_reset(text) IS
'Sets calls and transitions of a queue and its tubes, the causes of failed attempts, and the times of view latency, to zero: at once, also if the transaction is rolled back. The numbers of tasks stay. Returns true. Errors: 42501 not the owner. After tarantool/queue''s statistics.';

CREATE FUNCTION xqueue.stats_reset(queue anyelement)
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'stats_reset';
COMMENT ON FUNCTION xqueue.stats_reset(anyelement) IS 'As stats_reset(text), the queue named by its row type.';

CREATE FUNCTION xqueue.stats_reset()
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'stats_reset_all';
COMMENT ON FUNCTION xqueue.stats_reset() IS 'The same for each queue of this database that the caller owns.';

CREATE FUNCTION xqueue.check(queue text)
RETURNS jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'check';
COMMENT ON FUNCTION xqueue.check(text) IS
'Checks a queue: counters against the table, tasks taken by sessions that are gone, tasks that wait for nothing, ready and buried ones before their low-water marks, sub-queues of which several tasks are in flight or whose first task no take would find, tasks that the calling session has taken and does not know of, the key, columns, triggers and indexes. Returns {"queue", "ok", "problems"}, and the marks where there are such: {"mark", "buried_mark"}. Reads the whole table and blocks no other transaction; waits up to three seconds for what the worker is about to repair, and for no lock: the problem is then "busy". Runs no code of the table''s owner. Errors: 42501 no SELECT on the table, or row security applies to the role, 55000 no queue.';

CREATE FUNCTION xqueue.check(queue anyelement)
RETURNS jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'check';
COMMENT ON FUNCTION xqueue.check(anyelement) IS 'As check(text), the queue named by its row type.';

CREATE FUNCTION xqueue.state()
RETURNS text LANGUAGE c AS 'MODULE_PATHNAME', 'state';
COMMENT ON FUNCTION xqueue.state() IS 'State of this database''s worker. INIT: no worker has been asked for yet, as before CREATE EXTENSION commits; STARTUP: one is asked for, or has not been round the queues yet; RUNNING; RESTING: there was nothing to do for it, and another database needed its place, it is started when there is; ENDING: a command such as DROP DATABASE needs the database for itself, and the worker leaves; NO_WORKER: it has been needed for seconds, and the server has no place for one (max_worker_processes); STALLED: it has not come round for 10 seconds though it had to; WAITING: this server is a standby. Error: 55000 the library was not loaded at server start. After tarantool/queue''s state.';

CREATE FUNCTION xqueue.metrics()
RETURNS text LANGUAGE c AS 'MODULE_PATHNAME', 'metrics';
COMMENT ON FUNCTION xqueue.metrics() IS 'What is measured of each queue of this database that the caller may read, unless row security applies to it, and of the worker, in the text format of OpenMetrics, for Prometheus: xqueue_tasks by state, xqueue_calls by kind of call, xqueue_failed_attempts by cause, the histograms xqueue_wait_seconds and xqueue_work_seconds, xqueue_oldest_ready_seconds, xqueue_consumers and others; labels database, schema, queue. The view xqueue.metric has the same as rows. Costs the same for any number of tasks.';

CREATE FUNCTION xqueue.is_shown(queue regclass)
RETURNS boolean LANGUAGE c AS 'MODULE_PATHNAME', 'is_shown';
COMMENT ON FUNCTION xqueue.is_shown(regclass) IS 'Whether the views show this queue to the caller.';

CREATE FUNCTION xqueue.condition(queue regclass)
RETURNS SETOF jsonb LANGUAGE c ROWS 1 AS 'MODULE_PATHNAME', 'condition';
COMMENT ON FUNCTION xqueue.condition(regclass) IS 'The condition of a queue: read the view xqueue.queues.';

CREATE FUNCTION xqueue.call_counts(queue regclass)
RETURNS SETOF jsonb LANGUAGE c ROWS 18 AS 'MODULE_PATHNAME', 'call_counts';
COMMENT ON FUNCTION xqueue.call_counts(regclass) IS 'How many tasks went through each kind of call: read the view xqueue.calls.';

CREATE FUNCTION xqueue.holders(queue regclass)
RETURNS SETOF jsonb LANGUAGE c ROWS 1 AS 'MODULE_PATHNAME', 'holders';
COMMENT ON FUNCTION xqueue.holders(regclass) IS 'The sessions that hold tasks of a queue: read the view xqueue.taken.';

CREATE FUNCTION xqueue.measures(queue regclass)
RETURNS SETOF jsonb LANGUAGE c ROWS 1 AS 'MODULE_PATHNAME', 'measures';
COMMENT ON FUNCTION xqueue.measures(regclass) IS 'How long the tasks of a queue wait, and are worked on: read the view xqueue.latency.';

CREATE FUNCTION xqueue.metric_rows()
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'metric_rows';
COMMENT ON FUNCTION xqueue.metric_rows() IS 'The metrics as rows: read the view xqueue.metric.';

CREATE FUNCTION xqueue.in_flight(queue regclass)
RETURNS SETOF jsonb LANGUAGE c ROWS 10 AS 'MODULE_PATHNAME', 'in_flight';
COMMENT ON FUNCTION xqueue.in_flight(regclass) IS 'The taken tasks of a queue, 10,000 at most: read the view xqueue.tasks_in_flight.';

CREATE FUNCTION xqueue.buried(queue regclass, count integer)
RETURNS SETOF jsonb LANGUAGE c ROWS 50 AS 'MODULE_PATHNAME', 'buried';
COMMENT ON FUNCTION xqueue.buried(regclass, integer) IS 'The first buried tasks of a queue, their columns as text: read by the board. tasks_by_state gives them as they are.';

CREATE FUNCTION xqueue.database_workers()
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'database_workers';
COMMENT ON FUNCTION xqueue.database_workers() IS 'The workers of all databases: read the view xqueue.workers.';

CREATE FUNCTION xqueue.session_connections()
RETURNS SETOF jsonb LANGUAGE c AS 'MODULE_PATHNAME', 'session_connections';
COMMENT ON FUNCTION xqueue.session_connections() IS 'The connections of sessions: read the view xqueue.sessions.';

CREATE FUNCTION xqueue.waiting_consumers(queue regclass)
RETURNS SETOF jsonb LANGUAGE c ROWS 1 AS 'MODULE_PATHNAME', 'waiting_consumers';
COMMENT ON FUNCTION xqueue.waiting_consumers(regclass) IS 'The consumers that wait for a task of a queue: read the view xqueue.consumers.';

CREATE FUNCTION xqueue.waiting_producers(queue regclass)
RETURNS SETOF jsonb LANGUAGE c ROWS 1 AS 'MODULE_PATHNAME', 'waiting_producers';
COMMENT ON FUNCTION xqueue.waiting_producers(regclass) IS 'The producers that wait for room under the capacity of a queue: read the view xqueue.producers.';

-- sql/views.sql

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


