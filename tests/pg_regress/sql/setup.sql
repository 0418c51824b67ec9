-- What the other tests rely on: the extension is there and its worker runs.
SELECT extversion FROM pg_extension WHERE extname = 'xqueue';
SELECT xqueue.create('setup')->'queue' AS queue;
DO $$
BEGIN
    FOR attempt IN 1..1000 LOOP
        EXIT WHEN xqueue.state() = 'RUNNING';
        PERFORM pg_sleep(0.01);
    END LOOP;
END
$$;
SELECT xqueue.state();
SELECT xqueue.drop('setup');
