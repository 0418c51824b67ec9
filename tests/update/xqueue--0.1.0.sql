-- sql/schema.sql

-- Names without a schema are the server's own, whatever the schema of the extension holds.
SET LOCAL search_path TO pg_catalog, pg_temp;

-- Preconditions: the extension passes names and values through in UTF-8. An object that another role has put into the
-- schema could be used in place of the extension's own. A call such as xqueue.stats('jobs') can even mean a type.
DO $$
DECLARE
    owner text := (SELECT r.rolname FROM pg_catalog.pg_namespace n
                   JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) n.nspowner
                   WHERE n.nspname OPERATOR(pg_catalog.=) 'xqueue' AND NOT r.rolsuper);
    creator text := (SELECT coalesce(pg_catalog.quote_ident(r.rolname), 'PUBLIC') FROM pg_catalog.pg_namespace n
                     CROSS JOIN LATERAL pg_catalog.aclexplode(n.nspacl) a
                     LEFT JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) a.grantee
                     WHERE n.nspname OPERATOR(pg_catalog.=) 'xqueue'
                     AND a.privilege_type OPERATOR(pg_catalog.=) 'CREATE' AND r.rolsuper IS NOT TRUE LIMIT 1);
    -- Each object of a schema depends on it normally, and so does the extension itself.
    planted text := (SELECT pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid) FROM pg_catalog.pg_depend d
                     JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) d.refobjid
                     WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass::pg_catalog.oid
                     AND d.classid OPERATOR(pg_catalog.<>) 'pg_catalog.pg_extension'::pg_catalog.regclass::pg_catalog.oid
                     AND d.deptype OPERATOR(pg_catalog.=) 'n' AND n.nspname OPERATOR(pg_catalog.=) 'xqueue'
                     ORDER BY d.classid, d.objid LIMIT 1);
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
    IF creator IS NOT NULL THEN
        RAISE EXCEPTION 'schema xqueue lets % create objects', creator
            USING ERRCODE = 'insufficient_privilege',
                  HINT = pg_catalog.format('CREATE SCHEMA IF NOT EXISTS xqueue; REVOKE CREATE ON SCHEMA xqueue FROM %s; leaves the schema to superusers.', creator);
    END IF;
    IF planted IS NOT NULL THEN
        RAISE EXCEPTION 'schema xqueue is not empty: it has %', planted
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Drop its objects, or move them: one of them might be used in place of the extension''s own.';
    END IF;
END
$$;

-- Functions that users do not call: triggers, the hash in indexes, and the functions behind the views. The schema belongs to
-- the extension; CREATE EXTENSION fails if there is one of this name already, so every function in it is the extension's own.
-- Every role can name the functions, because queues' owners create triggers and indexes, and takes call the hash.
CREATE SCHEMA xqueue_internal;
COMMENT ON SCHEMA xqueue_internal IS 'Functions of the extension xqueue that users do not call: triggers, the hash of sub-queues, and the functions behind the views.';

-- The registry of queues. Only the extension's functions write it, after checking that the caller owns the table.
-- Every role can read it. The privileges are at the end of views.sql.

CREATE TABLE xqueue.queue (
    relation regclass PRIMARY KEY,
    -- The table's oid when this row was written. After dump and restore it differs from `relation`,
    -- and the column numbers in `definition` no longer apply.
    incarnation oid NOT NULL,
    definition jsonb NOT NULL,
    paused_until timestamptz
);

COMMENT ON TABLE xqueue.queue IS 'Registry of queues. Read the view xqueue.queues; change it with xqueue.upgrade(), xqueue.downgrade(), xqueue.pause() and xqueue.resume().';
COMMENT ON COLUMN xqueue.queue.relation IS 'Table of the queue.';
COMMENT ON COLUMN xqueue.queue.incarnation IS 'Oid of the table when this row was written; 0 after dump and restore.';
COMMENT ON COLUMN xqueue.queue.definition IS 'Options and the columns that they were resolved to.';
COMMENT ON COLUMN xqueue.queue.paused_until IS 'End of the pause; NULL or a past time if the queue is not paused.';

CREATE FUNCTION xqueue_internal.registry_changed() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'registry_changed';
COMMENT ON FUNCTION xqueue_internal.registry_changed() IS 'Trigger of the registry that informs the worker of queues in a restored dump.';
CREATE TRIGGER registry_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON xqueue.queue
FOR EACH STATEMENT EXECUTE FUNCTION xqueue_internal.registry_changed();
COMMENT ON TRIGGER registry_changed ON xqueue.queue IS 'Informs the worker of queues in a restored dump.';

CREATE FUNCTION xqueue_internal.queue_arrives() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'queue_arrives';
COMMENT ON FUNCTION xqueue_internal.queue_arrives() IS 'Trigger of the registry that skips a restored row if its table is already a queue.';
CREATE TRIGGER queue_arrives BEFORE INSERT ON xqueue.queue FOR EACH ROW EXECUTE FUNCTION xqueue_internal.queue_arrives();
ALTER TABLE xqueue.queue ENABLE ALWAYS TRIGGER queue_arrives;
COMMENT ON TRIGGER queue_arrives ON xqueue.queue IS 'Skips a restored row if its table is already a queue.';

SELECT pg_catalog.pg_extension_config_dump('xqueue.queue', '');

-- Identified sessions own tasks and outlive their connections. Only identify() and the worker write this table;
-- the view xqueue.sessions shows it.

CREATE TABLE xqueue.session (
    uuid uuid PRIMARY KEY,
    role regrole NOT NULL,
    grace interval NOT NULL,
    lease timestamptz NOT NULL
);
CREATE INDEX session_lease_idx ON xqueue.session (lease);
CREATE INDEX session_role_idx ON xqueue.session (role);

COMMENT ON INDEX xqueue.session_lease_idx IS 'Finds the sessions that end next, for the worker.';
COMMENT ON INDEX xqueue.session_role_idx IS 'Counts the sessions of a role, for the setting xqueue.max_sessions_per_role.';
COMMENT ON TABLE xqueue.session IS 'Identified sessions, which own tasks and outlive their connections. Read the view xqueue.sessions; change it with xqueue.identify().';
COMMENT ON COLUMN xqueue.session.uuid IS 'Identifies the session, as in the owner column of its tasks.';
COMMENT ON COLUMN xqueue.session.role IS 'Role that opened the session; only its members can join.';
COMMENT ON COLUMN xqueue.session.grace IS 'How long the session lives without a connection.';
COMMENT ON COLUMN xqueue.session.lease IS 'When the session ends if no connection is attached; infinity while one is.';

-- The key of the hash that identifies sub-queues. It never changes, because indexes contain the hash. Dumps omit it: the
-- restored database has its own key and builds its indexes with that. Row security hides the key even from roles with
-- SELECT on all tables.

CREATE TABLE xqueue.secret (key uuid NOT NULL);
INSERT INTO xqueue.secret VALUES (pg_catalog.gen_random_uuid());
ALTER TABLE xqueue.secret ENABLE ROW LEVEL SECURITY;

COMMENT ON TABLE xqueue.secret IS 'Secret key of the hash that identifies sub-queues. Never change it: the indexes of queues with feature utube contain the hash.';
COMMENT ON COLUMN xqueue.secret.key IS 'Drawn at random by CREATE EXTENSION.';

-- sql/functions.sql

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

-- sql/views.sql

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
WHERE pg_catalog.pg_has_role(s.role, 'MEMBER');
COMMENT ON VIEW xqueue.sessions IS 'Identified sessions of roles that you are a member of, with the processes attached to each.';
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


