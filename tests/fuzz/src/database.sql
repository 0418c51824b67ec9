-- Objects and roles for the queues, the random calls and sqlsmith.

CREATE EXTENSION IF NOT EXISTS amcheck;
CREATE TYPE label AS ENUM ('new', 'run', 'later', 'bad', 'gone', 'done');
CREATE SCHEMA "Odd schema";

CREATE ROLE fuzz_owner LOGIN;
CREATE ROLE fuzz_other LOGIN;
CREATE ROLE fuzz_consumer LOGIN;
CREATE ROLE fuzz_reader LOGIN;
CREATE ROLE fuzz_smith LOGIN;
CREATE ROLE fuzz_super LOGIN SUPERUSER;
GRANT CREATE ON SCHEMA public TO fuzz_owner, fuzz_other;
GRANT USAGE ON SCHEMA "Odd schema" TO PUBLIC;
GRANT fuzz_owner TO fuzz_consumer;

-- Queues that the random calls drop and create again get the same privileges.
ALTER DEFAULT PRIVILEGES GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO fuzz_consumer, fuzz_smith;
ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO fuzz_reader;
ALTER DEFAULT PRIVILEGES GRANT USAGE ON SEQUENCES TO fuzz_consumer, fuzz_smith;
ALTER DEFAULT PRIVILEGES FOR ROLE fuzz_owner GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO fuzz_consumer, fuzz_smith;

CREATE TABLE notes (n bigint GENERATED ALWAYS AS IDENTITY, event text, task jsonb);
-- The random calls can make this the on_task_change of any queue. The worker calls it as the queue's owner.
GRANT SELECT, INSERT, DELETE ON notes TO PUBLIC;
CREATE FUNCTION note(task jsonb, event text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF random() < 0.02 THEN
        RAISE EXCEPTION 'this note is not taken';
    END IF;
    INSERT INTO public.notes (event, task) VALUES (event, task);
    DELETE FROM public.notes WHERE n < (SELECT max(n) - 500 FROM public.notes);
END $$;
CREATE FUNCTION pick_last(count integer) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT id FROM public.picked WHERE status = 'R' ORDER BY id DESC LIMIT count
                 FOR NO KEY UPDATE SKIP LOCKED;
END $$;
CREATE FUNCTION sometimes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    CASE trunc(random() * 40)
        WHEN 0 THEN RETURN NULL;
        WHEN 1 THEN RAISE EXCEPTION 'not now';
        ELSE new.t := 'changed'; RETURN new;
    END CASE;
END $$;

-- Runs a statement in its own subtransaction.
CREATE FUNCTION attempt(sql text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE answer text;
BEGIN
    EXECUTE sql INTO answer;
    RETURN answer;
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE;
END $$;
