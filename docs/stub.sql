-- xqueue for tests of applications, on servers without the library: the functions of producers and consumers, in SQL. Run it
-- instead of CREATE EXTENSION xqueue. Its limits are in docs/testing-your-app.md, "Without the extension".

CREATE SCHEMA xqueue;

CREATE TABLE xqueue.stub_queues (
    name regclass PRIMARY KEY,
    key name NOT NULL,
    fields jsonb NOT NULL DEFAULT '{"status": "status", "owner": "owner", "runat": "runat", "priority": "priority", "tube": "tube", "attempts": "attempts", "expires": "expires", "ttr": "ttr", "reason": "reason"}',
    used jsonb NOT NULL DEFAULT '{}',    -- those of the fields that a feature has needed; other columns are the table's
    features jsonb NOT NULL DEFAULT '{}'
);

CREATE FUNCTION xqueue.identify() RETURNS uuid LANGUAGE sql AS $$
SELECT (lpad(to_hex(pg_backend_pid()), 8, '0') || '-0000-4000-8000-000000000000')::uuid
$$;

CREATE FUNCTION xqueue.has(features jsonb, feature text) RETURNS boolean LANGUAGE sql AS $$
SELECT coalesce(features->feature, 'false') <> 'false'
    OR feature = 'buried' AND features->'retry' ? 'limit'
$$;

CREATE FUNCTION xqueue.need(q xqueue.stub_queues, feature text, is_given boolean DEFAULT true) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF is_given AND NOT xqueue.has(q.features, feature) THEN
        RAISE 'feature % is not enabled', feature USING ERRCODE = '0A000', DETAIL = format('Queue "%s".', q.name);
    END IF;
END $$;

-- A test must not pass because the stub ignores an option or argument that has an effect in the extension.
CREATE FUNCTION xqueue.stub_lacks(what text, is_given boolean DEFAULT true) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF is_given THEN
        RAISE 'the stub does not do %', what USING ERRCODE = '0A000',
            HINT = 'Test this on a server with xqueue; what the stub does is in docs/testing-your-app.md.';
    END IF;
END $$;

-- The default time of a feature, given in seconds or as text; NULL without a default.
CREATE FUNCTION xqueue.stub_default(q xqueue.stub_queues, feature text) RETURNS interval LANGUAGE sql AS $$
SELECT CASE WHEN jsonb_typeof(q.features->feature) <> 'boolean' THEN (q.features->>feature)::interval END
$$;

CREATE FUNCTION xqueue.upgrade(queue text, options jsonb DEFAULT '{}', dry_run boolean DEFAULT false) RETURNS jsonb
LANGUAGE plpgsql SET client_min_messages = warning AS $$
DECLARE
    q xqueue.stub_queues;
    field text;
    type text;
    setting text;
    is_known boolean;
    is_done boolean;
BEGIN
    PERFORM xqueue.stub_lacks('dry_run', dry_run);
    FOR setting, is_known, is_done IN
        SELECT 'option ' || o, o = ANY ('{fields,states,features,existing,time_zone,tube_stats,convert}'), o = ANY ('{fields,features}') FROM jsonb_object_keys(options) AS o
        UNION ALL SELECT 'field ' || f, f = ANY ('{status,owner,runat,priority,tube,attempts,expires,ttr,reason,order}'), f <> 'order' FROM jsonb_object_keys(options->'fields') AS f
        UNION ALL SELECT 'feature ' || f.key, f.key = ANY ('{id,delayed,buried,keep,zombie,ttl,ttr,priority,tube,utube,retry,pick,capacity,on_task_change,guard}'),
            f.value = 'false' OR f.key = ANY ('{delayed,buried,keep,zombie,ttl,ttr,priority,tube,retry,guard}') FROM jsonb_each(options->'features') AS f
    LOOP
        IF NOT is_known THEN
            RAISE 'invalid options: unknown %', setting USING ERRCODE = '22023';
        END IF;
        PERFORM xqueue.stub_lacks(setting, NOT is_done);
    END LOOP;
    INSERT INTO xqueue.stub_queues (name, key)
    SELECT indrelid, attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
    WHERE indrelid = queue::regclass AND indisprimary AND indnkeyatts = 1
    ON CONFLICT DO NOTHING;
    UPDATE xqueue.stub_queues SET fields = stub_queues.fields || coalesce(options->'fields', '{}'), features = stub_queues.features || coalesce(options->'features', '{}')
    WHERE name = $1::regclass RETURNING * INTO q;
    IF q.name IS NULL THEN
        RAISE 'the stub needs a primary key of one column' USING ERRCODE = '42P16';
    END IF;
    FOR field, type IN SELECT c.field, c.type FROM (VALUES
        ('status', 'text NOT NULL DEFAULT ''R''', true),
        ('owner', 'uuid', true),
        ('runat', 'timestamptz', xqueue.has(q.features, 'delayed') OR xqueue.has(q.features, 'zombie') OR xqueue.has(q.features, 'ttr') OR q.features->'retry' ? 'backoff'),
        ('priority', 'integer NOT NULL DEFAULT 0', xqueue.has(q.features, 'priority')),
        ('tube', 'text', xqueue.has(q.features, 'tube')),
        ('attempts', 'integer NOT NULL DEFAULT 0', xqueue.has(q.features, 'retry')),
        ('expires', 'timestamptz', xqueue.has(q.features, 'ttl')),
        ('ttr', 'interval', xqueue.has(q.features, 'ttr')),
        ('reason', 'text', xqueue.has(q.features, 'retry'))
    ) AS c (field, type, is_needed) WHERE c.is_needed LOOP
        EXECUTE format('ALTER TABLE %s ADD COLUMN IF NOT EXISTS %I %s', q.name, q.fields->>field, type);
        PERFORM xqueue.stub_lacks('times of another type, or NOT NULL', type = 'timestamptz' AND EXISTS (SELECT FROM pg_attribute
            WHERE attrelid = q.name AND attname = q.fields->>field AND (atttypid <> 'timestamptz'::regtype OR attnotnull)));
        UPDATE xqueue.stub_queues SET used = used || jsonb_build_object(field, q.fields->>field) WHERE name = q.name;
    END LOOP;
    RETURN jsonb_build_object('queue', q.name, 'features', q.features);
END $$;

CREATE FUNCTION xqueue.create(queue text, options jsonb DEFAULT '{}', temporary boolean DEFAULT false, if_not_exists boolean DEFAULT false)
RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE %s TABLE %s %s (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, payload jsonb)',
                   CASE WHEN temporary THEN 'UNLOGGED' ELSE '' END, CASE WHEN if_not_exists THEN 'IF NOT EXISTS' ELSE '' END, queue);
    RETURN xqueue.upgrade(queue, options);
END $$;

CREATE FUNCTION xqueue.downgrade(queue text, drop_columns boolean DEFAULT false) RETURNS boolean
LANGUAGE plpgsql SET client_min_messages = warning AS $$
DECLARE
    q xqueue.stub_queues;
    field text;
BEGIN
    DELETE FROM xqueue.stub_queues WHERE name = queue::regclass RETURNING * INTO q;
    FOR field IN SELECT value FROM jsonb_each_text(q.used) WHERE drop_columns LOOP
        EXECUTE format('ALTER TABLE %s DROP COLUMN IF EXISTS %I', q.name, field);
    END LOOP;
    RETURN true;
END $$;

-- The definition of a queue. Also does the work of the worker: ends delays and lives, and returns tasks of ended sessions.
CREATE FUNCTION xqueue.stub(queue text) RETURNS xqueue.stub_queues LANGUAGE plpgsql AS $$
DECLARE
    q xqueue.stub_queues;
    change text;
BEGIN
    SELECT * INTO q FROM xqueue.stub_queues WHERE name = queue::regclass;
    IF NOT FOUND THEN
        RAISE '"%" is not a queue', queue USING ERRCODE = '55000';
    END IF;
    FOR change IN SELECT c.change FROM (VALUES
        (q.used ? 'runat', 'UPDATE %1$s SET %2$I = ''R'', %3$I = NULL WHERE %2$I = ''W'' AND %3$I <= clock_timestamp()'),
        (xqueue.has(q.features, 'zombie'), 'DELETE FROM %1$s WHERE %2$I = ''Z'' AND %3$I <= clock_timestamp()'),
        (xqueue.has(q.features, 'ttl'), 'DELETE FROM %1$s WHERE %2$I IN (''R'', ''W'', ''B'') AND %4$I <= clock_timestamp()'),
        (true, 'UPDATE %1$s SET %2$I = ''R'', %5$I = NULL WHERE %2$I = ''T'' AND (''x'' || left(%5$I::text, 8))::bit(32)::int NOT IN (SELECT pid FROM pg_stat_activity)')
    ) AS c (is_needed, change) WHERE c.is_needed LOOP
        EXECUTE format(change, q.name, q.fields->>'status', q.fields->>'runat', q.fields->>'expires', q.fields->>'owner');
    END LOOP;
    RETURN q;
END $$;

-- The keys in an id, as text. The id is a value, an array or an object, in any form that drivers send.
CREATE FUNCTION xqueue.stub_keys(q xqueue.stub_queues, id jsonb) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    is_text boolean = (SELECT atttypid IN ('text'::regtype, 'varchar'::regtype) FROM pg_attribute WHERE attrelid = q.name AND attname = q.key);
    raw text = id #>> '{}';
    keys text[];
BEGIN
    IF jsonb_typeof(id) = 'string' AND NOT is_text THEN
        IF raw ~ '^\s*(\[|\{\s*")' THEN
            id = raw::jsonb;
        ELSIF raw ~ '^\s*\{' THEN
            id = to_jsonb(raw::text[]);
        ELSIF raw ~ ',' THEN
            id = to_jsonb(string_to_array(raw, ','));
        END IF;
    END IF;
    IF id IS NULL OR id = 'null' THEN
        RAISE 'the id is NULL' USING ERRCODE = '22004';
    END IF;
    -- Refuses a value that is not of the key's type, and turns 07 into 7.
    EXECUTE format('SELECT ARRAY(SELECT (CASE jsonb_typeof(e) WHEN ''object'' THEN e->>%L ELSE e #>> ''{}'' END)::%s::text
                    FROM jsonb_array_elements($1) AS e)', q.key,
                   (SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = q.name AND attname = q.key))
        INTO keys USING CASE jsonb_typeof(id) WHEN 'array' THEN id ELSE jsonb_build_array(id) END;
    RETURN keys;
END $$;

-- Runs assignments on tasks that this session has taken: on all or none, or with if_held on the tasks still held.
CREATE FUNCTION xqueue.stub_settle(q xqueue.stub_queues, keys text[], change text, update jsonb, if_held boolean) RETURNS SETOF jsonb LANGUAGE plpgsql AS $$
DECLARE
    wanted text;
    status text;
    owner uuid;
BEGIN
    FOREACH wanted IN ARRAY keys LOOP
        EXECUTE format('SELECT %I, %I FROM %s WHERE %I::text = $1 FOR NO KEY UPDATE', q.fields->>'status', q.fields->>'owner', q.name, q.key)
            INTO status, owner USING wanted;
        IF if_held AND (status IS DISTINCT FROM 'T' OR owner IS DISTINCT FROM xqueue.identify()) THEN
            keys = array_remove(keys, wanted);
        ELSIF status IS NULL THEN
            RAISE 'task % was not found', wanted USING ERRCODE = 'P0002', DETAIL = format('Queue "%s".', q.name);
        ELSIF status <> 'T' THEN
            RAISE 'task % is not taken by anybody', wanted USING ERRCODE = '55000', DETAIL = format('Queue "%s".', q.name);
        ELSIF owner <> xqueue.identify() THEN
            RAISE 'task % is taken by %, not by you (%)', wanted, ('x' || left(owner::text, 8))::bit(32)::int, pg_backend_pid()
                USING ERRCODE = '55006', DETAIL = format('Queue "%s".', q.name);
        END IF;
    END LOOP;
    IF update IS NOT NULL THEN
        EXECUTE format('UPDATE %1$s AS t SET (%2$s) = (SELECT %2$s FROM jsonb_populate_record(NULL::%1$s, $1)) WHERE %3$I::text = ANY ($2)', q.name,
            (SELECT string_agg(quote_ident(k), ', ') || ', ' || quote_ident(q.fields->>'status') FROM jsonb_object_keys(update) AS k), q.key)
            USING update || jsonb_build_object(q.fields->>'status', 'T'), keys;
    END IF;
    RETURN QUERY EXECUTE format('%s WHERE t.%I::text = ANY ($1) RETURNING to_jsonb(t.*)',
        coalesce(format('UPDATE %s AS t SET %I = NULL, ', q.name, q.fields->>'owner') || change, format('DELETE FROM %s AS t', q.name)), q.key)
        USING keys;
END $$;

CREATE FUNCTION xqueue.put(queue text, task jsonb, delay interval DEFAULT NULL, ttl interval DEFAULT NULL, ttr interval DEFAULT NULL,
    priority bigint DEFAULT NULL, tube text DEFAULT NULL, front boolean DEFAULT false, timeout interval DEFAULT '0',
    on_conflict text DEFAULT 'error') RETURNS SETOF jsonb LANGUAGE plpgsql AS $$
DECLARE
    q xqueue.stub_queues = xqueue.stub(queue);
    one jsonb;
    given jsonb;
    columns text;
    updates text;
    result jsonb;
    life interval = coalesce(ttl, xqueue.stub_default(q, 'ttl'));
BEGIN
    PERFORM xqueue.need(q, feature, is_given) FROM (VALUES ('delayed', delay > '0'), ('ttl', ttl IS NOT NULL), ('ttr', ttr IS NOT NULL),
        ('priority', priority IS NOT NULL), ('tube', tube IS NOT NULL)) AS needed (feature, is_given);
    PERFORM xqueue.stub_lacks('front', front);
    IF on_conflict NOT IN ('error', 'nothing', 'update') THEN
        RAISE '"%" is no value of on_conflict', on_conflict USING ERRCODE = '22023';
    END IF;
    FOR one IN SELECT e FROM jsonb_array_elements(CASE jsonb_typeof(task) WHEN 'array' THEN task ELSE jsonb_build_array(task) END) AS e LOOP
        IF jsonb_typeof(one) <> 'object' THEN
            RAISE 'a task is an object' USING ERRCODE = '22023';
        ELSIF one ?| ARRAY(SELECT u.value FROM jsonb_each_text(q.used) AS u WHERE u.key NOT IN ('priority', 'tube', 'ttr')) THEN
            RAISE 'a task gives a column that is the queue''s own' USING ERRCODE = '22023';
        END IF;
        given = one || jsonb_strip_nulls(jsonb_build_object(
            q.fields->>'priority', priority, q.fields->>'tube', tube, q.fields->>'ttr', ttr,
            q.fields->>'expires', clock_timestamp() + life + coalesce(delay, '0')));
        IF xqueue.has(q.features, 'delayed') AND delay IS NOT NULL THEN
            given = given || jsonb_build_object(q.fields->>'status', CASE WHEN delay > '0' THEN 'W' ELSE 'R' END,
                                                q.fields->>'runat', CASE WHEN delay > '0' THEN clock_timestamp() + delay END);
        END IF;
        -- If the task is neither ready nor waiting, a conflict leaves the queue's own columns unchanged.
        SELECT string_agg(quote_ident(k), ', '),
            string_agg(format(CASE WHEN k IN (SELECT u.value FROM jsonb_each_text(q.used) AS u)
                THEN '%1$I = CASE WHEN t.%2$I IN (''R'', ''W'') THEN excluded.%1$I ELSE t.%1$I END' ELSE '%1$I = excluded.%1$I' END,
                k, q.fields->>'status'), ', ') FILTER (WHERE k <> q.fields->>'expires' OR ttl IS NOT NULL)
            INTO columns, updates FROM jsonb_object_keys(given) AS k;
        EXECUTE CASE WHEN columns IS NULL THEN format('INSERT INTO %1$s AS t DEFAULT VALUES RETURNING to_jsonb(t.*)', q.name)
            ELSE format('INSERT INTO %1$s AS t (%2$s) SELECT %2$s FROM jsonb_populate_record(NULL::%1$s, $1) %3$s RETURNING to_jsonb(t.*)', q.name, columns,
                CASE on_conflict WHEN 'nothing' THEN format('ON CONFLICT (%I) DO NOTHING', q.key)
                    WHEN 'update' THEN format('ON CONFLICT (%I) DO %s', q.key, coalesce('UPDATE SET ' || updates, 'NOTHING'))
                    ELSE '' END)
            END INTO result USING given;
        IF result IS NULL THEN
            EXECUTE format('SELECT to_jsonb(t.*) FROM %s AS t WHERE %I::text = $1', q.name, q.key) INTO result USING given->>q.key;
        END IF;
        RETURN NEXT result;
    END LOOP;
END $$;

CREATE FUNCTION xqueue.take(queue text, timeout interval DEFAULT '0', count integer DEFAULT 1, tube text DEFAULT NULL, ttr interval DEFAULT NULL,
    done anycompatible DEFAULT NULL, id anycompatible DEFAULT NULL) RETURNS SETOF jsonb LANGUAGE plpgsql AS $$
DECLARE
    q xqueue.stub_queues = xqueue.stub(queue);
    status text = q.fields->>'status';
BEGIN
    PERFORM xqueue.need(q, 'tube', tube IS NOT NULL);
    PERFORM xqueue.stub_lacks('ttr of take', ttr IS NOT NULL);
    IF done IS NOT NULL THEN
        PERFORM xqueue.ack(queue, to_jsonb(done));
    END IF;
    RETURN QUERY EXECUTE format(
        'WITH chosen AS (
             SELECT %1$I AS key FROM %2$s AS t WHERE %3$s %4$s %5$s ORDER BY %6$s %1$I LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED
         ), taken AS (
             UPDATE %2$s AS t SET %7$I = ''T'', %8$I = $2 %9$s FROM chosen WHERE t.%1$I = chosen.key RETURNING t.*
         )
         SELECT to_jsonb(t.*) FROM taken AS t ORDER BY %6$s %1$I', q.key, q.name,
        CASE WHEN id IS NULL THEN format('%I = ''R''', status) ELSE format('%I IN (''R'', ''W'', ''B'') AND %I::text = ANY ($4)', status, q.key) END,
        CASE WHEN tube IS NOT NULL THEN format('AND %I = $3', q.fields->>'tube') END,
        CASE WHEN xqueue.has(q.features, 'ttl') THEN format('AND (%1$I IS NULL OR %1$I > clock_timestamp())', q.fields->>'expires') END,
        CASE WHEN xqueue.has(q.features, 'priority') THEN format('%I,', q.fields->>'priority') END,
        status, q.fields->>'owner',
        concat(CASE WHEN xqueue.has(q.features, 'retry') THEN format(', %1$I = %1$I + 1', q.fields->>'attempts') END,
               CASE WHEN id IS NOT NULL AND q.used ? 'runat' THEN format(', %I = NULL', q.fields->>'runat') END,
               CASE WHEN id IS NOT NULL AND q.used ? 'reason' THEN format(', %I = NULL', q.fields->>'reason') END))
        USING CASE WHEN id IS NULL THEN count END, xqueue.identify(), tube, CASE WHEN id IS NOT NULL THEN xqueue.stub_keys(q, to_jsonb(id)) END;
END $$;

CREATE FUNCTION xqueue.ack(queue text, id anycompatible, update jsonb DEFAULT NULL, delay interval DEFAULT NULL, attempt integer DEFAULT NULL,
    if_held boolean DEFAULT false) RETURNS SETOF jsonb LANGUAGE plpgsql AS $$
DECLARE
    q xqueue.stub_queues = xqueue.stub(queue);
    pause interval = coalesce(delay, xqueue.stub_default(q, 'zombie'));
    change text = CASE WHEN xqueue.has(q.features, 'keep') THEN format('%I = ''D''', q.fields->>'status')
        WHEN xqueue.has(q.features, 'zombie') AND pause IS NOT NULL
            THEN format('%I = ''Z'', %I = clock_timestamp() + %L::interval', q.fields->>'status', q.fields->>'runat', pause) END;
BEGIN
    PERFORM xqueue.stub_lacks('attempt', attempt IS NOT NULL);
    PERFORM xqueue.need(q, 'zombie', delay IS NOT NULL);
    IF update IS NOT NULL AND change IS NULL THEN
        RAISE 'update for an ack that deletes' USING ERRCODE = '0A000';
    END IF;
    RETURN QUERY SELECT xqueue.stub_settle(q, xqueue.stub_keys(q, to_jsonb(id)), change, update, if_held);
END $$;

CREATE FUNCTION xqueue.release(queue text, id anycompatible, update jsonb DEFAULT NULL, delay interval DEFAULT NULL, ttl interval DEFAULT NULL,
    failed boolean DEFAULT true, error text DEFAULT NULL, if_held boolean DEFAULT false) RETURNS SETOF jsonb LANGUAGE plpgsql AS $$
DECLARE
    q xqueue.stub_queues = xqueue.stub(queue);
    retry jsonb = q.features->'retry';
    attempts text = format('%I', q.fields->>'attempts');
    is_last text = format('%s %% %s = 0', attempts, coalesce(retry->>'limit', '2147483647'));
    pause text = quote_nullable(delay) || '::interval';
BEGIN
    PERFORM xqueue.need(q, 'delayed', delay > '0');
    PERFORM xqueue.need(q, 'retry', error IS NOT NULL);
    PERFORM xqueue.need(q, 'ttl', ttl IS NOT NULL);
    IF delay IS NULL AND failed AND retry ? 'backoff' THEN
        -- A number means seconds.
        pause = format('least(%L::interval * power(%s, (%s - 1) %% %s), %L::interval)', retry->>'backoff', coalesce(retry->>'factor', '2'), attempts,
                       coalesce(retry->>'limit', '2147483647'), coalesce(retry->>'max', '1 h'));
    END IF;
    IF NOT failed OR NOT xqueue.has(q.features, 'retry') OR NOT retry ? 'limit' THEN
        is_last = 'false';
    END IF;
    RETURN QUERY SELECT xqueue.stub_settle(q, xqueue.stub_keys(q, to_jsonb(id)), concat_ws(', ',
        format('%I = CASE WHEN %s THEN ''B'' WHEN %s > ''0'' THEN ''W'' ELSE ''R'' END', q.fields->>'status', is_last, pause),
        CASE WHEN q.used ? 'runat' THEN format('%I = CASE WHEN NOT %s AND %s > ''0'' THEN clock_timestamp() + %3$s END', q.fields->>'runat', is_last, pause) END,
        CASE WHEN xqueue.has(q.features, 'retry') THEN
            format('%I = CASE WHEN %s THEN format(''released after attempt %%s, the limit is %s'', %s) || coalesce('': '' || %L, '''') ELSE %L END',
                   q.fields->>'reason', is_last, retry->>'limit', attempts, error, error) END,
        CASE WHEN xqueue.has(q.features, 'ttl') THEN format('%1$I = %2$s + %3$L::interval', q.fields->>'expires',
            CASE WHEN ttl IS NULL THEN quote_ident(q.fields->>'expires') ELSE format('(clock_timestamp() + %L::interval)', ttl) END, coalesce(delay, '0')) END,
        CASE WHEN xqueue.has(q.features, 'retry') AND NOT failed THEN format('%1$s = %1$s - 1', attempts) END), update, if_held);
END $$;

CREATE FUNCTION xqueue.bury(queue text, id anycompatible, update jsonb DEFAULT NULL, ttl interval DEFAULT NULL, if_held boolean DEFAULT false)
RETURNS SETOF jsonb LANGUAGE plpgsql AS $$
DECLARE
    q xqueue.stub_queues = xqueue.stub(queue);
BEGIN
    PERFORM xqueue.need(q, 'buried');
    PERFORM xqueue.need(q, 'ttl', ttl IS NOT NULL);
    RETURN QUERY SELECT xqueue.stub_settle(q, xqueue.stub_keys(q, to_jsonb(id)), concat_ws(', ', format('%I = ''B''', q.fields->>'status'),
        CASE WHEN ttl IS NOT NULL THEN format('%I = clock_timestamp() + %L::interval', q.fields->>'expires', ttl) END), update, if_held);
END $$;

CREATE FUNCTION xqueue.dig(queue text, id anycompatible) RETURNS SETOF jsonb LANGUAGE plpgsql AS $$
DECLARE
    q xqueue.stub_queues = xqueue.stub(queue);
    wanted text;
    result jsonb;
BEGIN
    PERFORM xqueue.need(q, 'buried');
    FOREACH wanted IN ARRAY xqueue.stub_keys(q, to_jsonb(id)) LOOP
        EXECUTE format('UPDATE %1$s AS t SET %2$I = ''R'' %4$s WHERE %3$I::text = $1 AND %2$I = ''B'' RETURNING to_jsonb(t.*)', q.name, q.fields->>'status', q.key,
                       CASE WHEN xqueue.has(q.features, 'retry') THEN format(', %I = NULL', q.fields->>'reason') END)
            INTO result USING wanted;
        IF result IS NULL THEN
            RAISE 'task % is not buried', wanted USING ERRCODE = '55000';
        END IF;
        RETURN NEXT result;
    END LOOP;
END $$;

CREATE FUNCTION xqueue.give_back(queue text) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    q xqueue.stub_queues = xqueue.stub(queue);
    number integer;
BEGIN
    EXECUTE format('UPDATE %s SET %I = ''R'', %I = NULL %s WHERE %2$I = ''T'' AND %3$I = $1', q.name, q.fields->>'status', q.fields->>'owner',
                   CASE WHEN xqueue.has(q.features, 'retry') THEN format(', %1$I = %1$I - 1', q.fields->>'attempts') END) USING xqueue.identify();
    GET DIAGNOSTICS number = ROW_COUNT;
    RETURN number;
END $$;

CREATE FUNCTION xqueue.give_back() RETURNS integer LANGUAGE sql AS $$
SELECT coalesce(sum(xqueue.give_back(name::text)), 0)::integer FROM xqueue.stub_queues
$$;

-- The row forms.

-- The values of a row that are not NULL, without the queue's own columns.
CREATE FUNCTION xqueue.stub_given(queue regtype, task jsonb) RETURNS jsonb LANGUAGE sql AS $$
SELECT jsonb_object_agg(m.key, m.value) FROM jsonb_each(task) AS m
WHERE m.value <> 'null' AND m.key NOT IN (
    SELECT u.value FROM xqueue.stub_queues AS q, jsonb_each_text(q.used) AS u
    WHERE q.name = queue::text::regclass AND u.key NOT IN ('priority', 'tube', 'ttr'))
$$;

CREATE FUNCTION xqueue.put(queue anyelement, task jsonb DEFAULT NULL, delay interval DEFAULT NULL, ttl interval DEFAULT NULL, ttr interval DEFAULT NULL,
    priority bigint DEFAULT NULL, tube text DEFAULT NULL, front boolean DEFAULT false, timeout interval DEFAULT '0',
    on_conflict text DEFAULT 'error') RETURNS SETOF anyelement LANGUAGE sql AS $$
SELECT jsonb_populate_record(queue, t)
FROM xqueue.put(pg_typeof(queue)::text, coalesce(task, xqueue.stub_given(pg_typeof(queue), to_jsonb(queue))),
                delay, ttl, ttr, priority, tube, front, timeout, on_conflict) AS t
$$;

CREATE FUNCTION xqueue.take(queue anyelement, timeout interval DEFAULT '0', count integer DEFAULT 1, tube text DEFAULT NULL, ttr interval DEFAULT NULL,
    done anycompatible DEFAULT NULL, id anycompatible DEFAULT NULL) RETURNS SETOF anyelement LANGUAGE sql AS $$
SELECT jsonb_populate_record(queue, t) FROM xqueue.take(pg_typeof(queue)::text, timeout, count, tube, ttr, to_jsonb(done), to_jsonb(id)) AS t
$$;

CREATE FUNCTION xqueue.ack(queue anyelement, id anycompatible DEFAULT NULL, update jsonb DEFAULT NULL, delay interval DEFAULT NULL, attempt integer DEFAULT NULL,
    if_held boolean DEFAULT false) RETURNS SETOF anyelement LANGUAGE sql AS $$
SELECT jsonb_populate_record(queue, t)
FROM xqueue.ack(pg_typeof(queue)::text, coalesce(to_jsonb(id), to_jsonb(queue)), update, delay, attempt, if_held) AS t
$$;

CREATE FUNCTION xqueue.release(queue anyelement, id anycompatible DEFAULT NULL, update jsonb DEFAULT NULL, delay interval DEFAULT NULL,
    ttl interval DEFAULT NULL, failed boolean DEFAULT true, error text DEFAULT NULL, if_held boolean DEFAULT false) RETURNS SETOF anyelement LANGUAGE sql AS $$
SELECT jsonb_populate_record(queue, t)
FROM xqueue.release(pg_typeof(queue)::text, coalesce(to_jsonb(id), to_jsonb(queue)), update, delay, ttl, failed, error, if_held) AS t
$$;

CREATE FUNCTION xqueue.bury(queue anyelement, id anycompatible DEFAULT NULL, update jsonb DEFAULT NULL, ttl interval DEFAULT NULL,
    if_held boolean DEFAULT false) RETURNS SETOF anyelement LANGUAGE sql AS $$
SELECT jsonb_populate_record(queue, t) FROM xqueue.bury(pg_typeof(queue)::text, coalesce(to_jsonb(id), to_jsonb(queue)), update, ttl, if_held) AS t
$$;

CREATE FUNCTION xqueue.dig(queue anyelement, id anycompatible DEFAULT NULL) RETURNS SETOF anyelement LANGUAGE sql AS $$
SELECT jsonb_populate_record(queue, t) FROM xqueue.dig(pg_typeof(queue)::text, coalesce(to_jsonb(id), to_jsonb(queue))) AS t
$$;
