-- What the other tests rely on: the extension is there and its worker runs.
DO $$
BEGIN
    WHILE xqueue.state() <> 'RUNNING' LOOP
        PERFORM pg_sleep(0.01);
    END LOOP;
END
$$;
SELECT extversion FROM pg_extension WHERE extname = 'xqueue';
SELECT xqueue.state();
