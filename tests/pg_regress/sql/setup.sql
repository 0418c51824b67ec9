-- until() waits for the worker; said() returns an error without PIDs.
CREATE OR REPLACE FUNCTION until(condition text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    holds boolean;
BEGIN
    FOR attempt IN 1..1000 LOOP
        EXECUTE 'SELECT ' || condition INTO holds;
        EXIT WHEN holds;
        PERFORM pg_sleep(0.01);
    END LOOP;
    RETURN holds;
END
$$;
CREATE OR REPLACE FUNCTION said(command text) RETURNS TABLE (code text, message text, hint text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE command;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
    message := regexp_replace(message, '\m\d{3,}\M', 'PID', 'g');
    RETURN NEXT;
END
$$;

-- Preconditions of the other tests: the extension exists, and its worker runs.
SELECT extversion FROM pg_extension WHERE extname = 'xqueue';
SELECT xqueue.create('setup')->'queue' AS queue;
SELECT until($$xqueue.state() = 'RUNNING'$$);
SELECT xqueue.drop('setup');
