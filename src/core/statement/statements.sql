-- The SQL that this module writes for four queues. tests/golden.rs compares it.

-- Plain queue: {}

-- Index Ready []
CREATE INDEX ready_idx ON app."Jobs" (a)
    WHERE status OPERATOR(pg_catalog.=) 'R';

-- Index Taken []
CREATE INDEX taken_idx ON app."Jobs" (owner)
    WHERE status OPERATOR(pg_catalog.=) 'T';

-- Put [Column(7)]
INSERT INTO app."Jobs" AS task (status, progress) VALUES ('R', $1)
    RETURNING task.*::app."Jobs";

-- Take { within: Ready { tube: false, level: false }, ttr: false, marked: true, many: false } [Session, Mark(0), Limit, Skip]
UPDATE ONLY app."Jobs" AS task
    SET status = 'T', owner = $1
    WHERE task.a OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT task.a
    FROM ONLY app."Jobs" AS task
    WHERE task.status OPERATOR(pg_catalog.=) 'R'
    AND task.a OPERATOR(pg_catalog.>=) $2
    ORDER BY task.a LIMIT $3 OFFSET $4
    FOR NO KEY UPDATE SKIP LOCKED))
    RETURNING task.*::app."Jobs";

-- Reap [Sessions, Limit, Skip]
UPDATE ONLY app."Jobs" AS task
    SET status = 'R', owner = NULL
    WHERE task.a OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT task.a
    FROM ONLY app."Jobs" AS task
    WHERE task.status OPERATOR(pg_catalog.=) 'T'
    AND task.owner OPERATOR(pg_catalog.=) ANY ($1) LIMIT $2 OFFSET $3
    FOR NO KEY UPDATE SKIP LOCKED));

-- Ack [Key(0), Session]
DELETE FROM ONLY app."Jobs" AS task
    WHERE task.a OPERATOR(pg_catalog.=) $1
    AND coalesce(task.status OPERATOR(pg_catalog.=) 'T', false)
    AND coalesce(task.owner OPERATOR(pg_catalog.=) $2, false)
    RETURNING task.*::app."Jobs";

-- Release [Key(0), Session]
UPDATE ONLY app."Jobs" AS task
    SET status = 'R', owner = NULL
    WHERE task.a OPERATOR(pg_catalog.=) $1
    AND coalesce(task.status OPERATOR(pg_catalog.=) 'T', false)
    AND coalesce(task.owner OPERATOR(pg_catalog.=) $2, false)
    RETURNING task.*::app."Jobs";

-- Bury [Key(0), Session]
UPDATE ONLY app."Jobs" AS task
    SET status = 'B', owner = NULL
    WHERE task.a OPERATOR(pg_catalog.=) $1
    AND coalesce(task.status OPERATOR(pg_catalog.=) 'T', false)
    AND coalesce(task.owner OPERATOR(pg_catalog.=) $2, false)
    RETURNING task.*::app."Jobs";

-- Dig [Key(0)]
UPDATE ONLY app."Jobs" AS task
    SET status = 'R', owner = NULL
    WHERE task.a OPERATOR(pg_catalog.=) $1
    AND coalesce(task.status OPERATOR(pg_catalog.=) 'B', false)
    RETURNING task.*::app."Jobs";

-- Delete [Key(0)]
DELETE FROM ONLY app."Jobs" AS task
    WHERE task.a OPERATOR(pg_catalog.=) $1
    RETURNING task.*::app."Jobs";

-- Peek [Key(0)]
SELECT task.*::app."Jobs"
    FROM ONLY app."Jobs" AS task
    WHERE task.a OPERATOR(pg_catalog.=) $1;

-- First ready task [Mark(0)]
SELECT task.a, NULL::pg_catalog.int8
    FROM ONLY app."Jobs" AS task
    WHERE task.status OPERATOR(pg_catalog.=) 'R'
    AND task.a OPERATOR(pg_catalog.>=) $1
    ORDER BY task.a LIMIT 1;

-- Next instant for the worker []
SELECT NULL, NULL;

-- Queue with most features, and a key of two columns: {"delayed": true, "ttr": 60, "ttl": 3600, "priority": true, "tube": true, "retry": true}

-- Index Ready []
CREATE INDEX ready_idx ON app."Jobs" (priority, a, b)
    WHERE status OPERATOR(pg_catalog.=) 'R';

-- Index Tube []
CREATE INDEX tube_idx ON app."Jobs" (tube, priority, a, b)
    WHERE status OPERATOR(pg_catalog.=) 'R';

-- Index Taken []
CREATE INDEX taken_idx ON app."Jobs" (owner)
    WHERE status OPERATOR(pg_catalog.=) 'T';

-- Index Due []
CREATE INDEX due_idx ON app."Jobs" (runat)
    WHERE status OPERATOR(pg_catalog.=) ANY (ARRAY['T', 'W', 'Z']::"char"[])
    AND runat IS NOT NULL;

-- Index Expiry []
CREATE INDEX expiry_idx ON app."Jobs" (expires)
    WHERE status OPERATOR(pg_catalog.=) ANY (ARRAY['R', 'W', 'B']::"char"[])
    AND expires IS NOT NULL;

-- Put [Delay, Ttl, Priority, Tube, Column(7)]
INSERT INTO app."Jobs" AS task (status, runat, expires, priority, tube, progress) VALUES ('W', pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) $1, pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) $1 OPERATOR(pg_catalog.+) $2, $3, $4, $5)
    RETURNING task.*::app."Jobs";

-- Take { within: Ready { tube: true, level: false }, ttr: false, marked: false, many: false }, pick [Tube, Limit, Skip]
SELECT task.a, task.b
    FROM ONLY app."Jobs" AS task
    WHERE task.status OPERATOR(pg_catalog.=) 'R'
    AND task.tube OPERATOR(pg_catalog.=) ANY (ARRAY[$1])
    AND (task.expires IS NULL OR task.expires OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp())
    ORDER BY task.tube, task.priority, task.a, task.b LIMIT $2 OFFSET $3
    FOR NO KEY UPDATE SKIP LOCKED;

-- Take { within: Ready { tube: true, level: false }, ttr: false, marked: false, many: false }, change one [Session, Key(0), Key(1)]
UPDATE ONLY app."Jobs" AS task
    SET status = 'T', owner = $1, runat = pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) coalesce(CASE WHEN task.ttr OPERATOR(pg_catalog.<) '0 microseconds'::pg_catalog.interval THEN '0 microseconds'::pg_catalog.interval WHEN task.ttr OPERATOR(pg_catalog.>) '100 years'::pg_catalog.interval OR pg_catalog.abs(pg_catalog.date_part('year', task.ttr)) OPERATOR(pg_catalog.>) 100 OR pg_catalog.abs(pg_catalog.date_part('day', task.ttr)) OPERATOR(pg_catalog.>) 36000 THEN '100 years'::pg_catalog.interval ELSE task.ttr END, '60000000 microseconds'::pg_catalog.interval), attempts = LEAST(coalesce(task.attempts, 0), 2147483646) OPERATOR(pg_catalog.+) 1
    WHERE task.a OPERATOR(pg_catalog.=) $2
    AND task.b OPERATOR(pg_catalog.=) $3
    RETURNING task.*::app."Jobs";

-- Promote, pick [Now, Since, Limit, Skip]
SELECT task.a, task.b
    FROM ONLY app."Jobs" AS task
    WHERE task.status OPERATOR(pg_catalog.=) 'W'
    AND task.runat OPERATOR(pg_catalog.<=) $1
    AND task.runat OPERATOR(pg_catalog.>=) $2
    ORDER BY task.runat LIMIT $3 OFFSET $4
    FOR NO KEY UPDATE SKIP LOCKED;

-- Promote, change one [Key(0), Key(1)]
UPDATE ONLY app."Jobs" AS task
    SET status = 'R', runat = NULL
    WHERE task.a OPERATOR(pg_catalog.=) $1
    AND task.b OPERATOR(pg_catalog.=) $2;

-- Expire, pick [Now, Since, Limit, Skip]
SELECT task.a, task.b
    FROM ONLY app."Jobs" AS task
    WHERE task.status OPERATOR(pg_catalog.=) ANY (ARRAY['R', 'W', 'B']::"char"[])
    AND task.expires OPERATOR(pg_catalog.<=) $1
    AND task.expires OPERATOR(pg_catalog.>=) $2
    ORDER BY task.expires LIMIT $3 OFFSET $4
    FOR UPDATE SKIP LOCKED;

-- Expire, change one [Key(0), Key(1)]
DELETE FROM ONLY app."Jobs" AS task
    WHERE task.a OPERATOR(pg_catalog.=) $1
    AND task.b OPERATOR(pg_catalog.=) $2;

-- Reap, pick [Sessions, Limit, Skip]
SELECT task.a, task.b
    FROM ONLY app."Jobs" AS task
    WHERE task.status OPERATOR(pg_catalog.=) 'T'
    AND task.owner OPERATOR(pg_catalog.=) ANY ($1) LIMIT $2 OFFSET $3
    FOR NO KEY UPDATE SKIP LOCKED;

-- Reap, change one [Key(0), Key(1)]
UPDATE ONLY app."Jobs" AS task
    SET status = 'R', owner = NULL, runat = NULL, reason = NULL
    WHERE task.a OPERATOR(pg_catalog.=) $1
    AND task.b OPERATOR(pg_catalog.=) $2;

-- Ack [Key(0), Key(1), Session]
DELETE FROM ONLY app."Jobs" AS task
    WHERE task.a OPERATOR(pg_catalog.=) $1
    AND task.b OPERATOR(pg_catalog.=) $2
    AND coalesce(task.status OPERATOR(pg_catalog.=) 'T', false)
    AND coalesce(task.owner OPERATOR(pg_catalog.=) $3, false)
    RETURNING task.*::app."Jobs";

-- Release [Key(0), Key(1), Session]
UPDATE ONLY app."Jobs" AS task
    SET status = 'R', owner = NULL, runat = NULL, reason = NULL
    WHERE task.a OPERATOR(pg_catalog.=) $1
    AND task.b OPERATOR(pg_catalog.=) $2
    AND coalesce(task.status OPERATOR(pg_catalog.=) 'T', false)
    AND coalesce(task.owner OPERATOR(pg_catalog.=) $3, false)
    RETURNING task.*::app."Jobs";

-- Bury [Key(0), Key(1), Session]
UPDATE ONLY app."Jobs" AS task
    SET status = 'B', owner = NULL, runat = NULL
    WHERE task.a OPERATOR(pg_catalog.=) $1
    AND task.b OPERATOR(pg_catalog.=) $2
    AND coalesce(task.status OPERATOR(pg_catalog.=) 'T', false)
    AND coalesce(task.owner OPERATOR(pg_catalog.=) $3, false)
    RETURNING task.*::app."Jobs";

-- Dig [Key(0), Key(1)]
UPDATE ONLY app."Jobs" AS task
    SET status = 'R', owner = NULL, runat = NULL, reason = NULL
    WHERE task.a OPERATOR(pg_catalog.=) $1
    AND task.b OPERATOR(pg_catalog.=) $2
    AND coalesce(task.status OPERATOR(pg_catalog.=) 'B', false)
    RETURNING task.*::app."Jobs";

-- Touch [Increment, Key(0), Key(1), Session]
UPDATE ONLY app."Jobs" AS task
    SET runat = CASE WHEN task.runat OPERATOR(pg_catalog.>) '200000-01-01 00:00:00+00'::pg_catalog.timestamptz OR task.runat OPERATOR(pg_catalog.<) '2000-01-01 00:00:00+00 BC'::pg_catalog.timestamptz THEN task.runat ELSE task.runat OPERATOR(pg_catalog.+) $1 END, expires = CASE WHEN task.expires OPERATOR(pg_catalog.>) '200000-01-01 00:00:00+00'::pg_catalog.timestamptz OR task.expires OPERATOR(pg_catalog.<) '2000-01-01 00:00:00+00 BC'::pg_catalog.timestamptz THEN task.expires ELSE task.expires OPERATOR(pg_catalog.+) $1 END
    WHERE task.a OPERATOR(pg_catalog.=) $2
    AND task.b OPERATOR(pg_catalog.=) $3
    AND coalesce(task.status OPERATOR(pg_catalog.=) 'T', false)
    AND coalesce(task.owner OPERATOR(pg_catalog.=) $4, false)
    RETURNING task.*::app."Jobs";

-- Delete [Key(0), Key(1)]
DELETE FROM ONLY app."Jobs" AS task
    WHERE task.a OPERATOR(pg_catalog.=) $1
    AND task.b OPERATOR(pg_catalog.=) $2
    RETURNING task.*::app."Jobs";

-- Peek [Key(0), Key(1)]
SELECT task.*::app."Jobs"
    FROM ONLY app."Jobs" AS task
    WHERE task.a OPERATOR(pg_catalog.=) $1
    AND task.b OPERATOR(pg_catalog.=) $2;

-- Next instant for the worker [Since]
SELECT (SELECT task.runat
    FROM ONLY app."Jobs" AS task
    WHERE task.status OPERATOR(pg_catalog.=) ANY (ARRAY['T', 'W']::"char"[])
    AND task.runat OPERATOR(pg_catalog.>=) $1
    ORDER BY task.runat LIMIT 1), (SELECT task.expires
    FROM ONLY app."Jobs" AS task
    WHERE task.status OPERATOR(pg_catalog.=) ANY (ARRAY['R', 'W', 'B']::"char"[])
    AND task.expires OPERATOR(pg_catalog.>=) $1
    ORDER BY task.expires LIMIT 1);

-- Queue with sub-queues: {"utube": true}

-- Index Taken []
CREATE INDEX taken_idx ON app."Jobs" (owner)
    WHERE status OPERATOR(pg_catalog.=) 'T';

-- Index Subqueue []
CREATE INDEX subqueue_idx ON app."Jobs" (xqueue_internal.subqueue(tube), a)
    WHERE status OPERATOR(pg_catalog.=) 'R';

-- Index InFlight []
CREATE INDEX in_flight_idx ON app."Jobs" (xqueue_internal.subqueue(tube))
    WHERE status OPERATOR(pg_catalog.=) 'T';

-- Put [Tube, Column(7)]
INSERT INTO app."Jobs" AS task (status, tube, progress) VALUES ('R', $1, $2)
    RETURNING task.*::app."Jobs";

-- TakeInSubqueue { ttr: false, marked: true, limited: false } [Session, Subqueue, Mark(0)]
UPDATE ONLY app."Jobs" AS task
    SET status = 'T', owner = $1
    WHERE task.a OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT task.a
    FROM ONLY app."Jobs" AS task
    WHERE task.ctid OPERATOR(pg_catalog.=) (SELECT head.ctid
    FROM ONLY app."Jobs" AS head
    WHERE xqueue_internal.subqueue(head.tube) OPERATOR(pg_catalog.=) ANY (ARRAY[$2])
    AND head.status OPERATOR(pg_catalog.=) 'R'
    AND head.a OPERATOR(pg_catalog.>=) $3
    ORDER BY xqueue_internal.subqueue(head.tube), head.a LIMIT 1)
    AND coalesce(task.status OPERATOR(pg_catalog.=) 'R', false)
    FOR NO KEY UPDATE SKIP LOCKED))
    RETURNING task.*::app."Jobs";

-- Reap [Sessions, Limit, Skip]
UPDATE ONLY app."Jobs" AS task
    SET status = 'R', owner = NULL
    WHERE task.a OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT task.a
    FROM ONLY app."Jobs" AS task
    WHERE task.status OPERATOR(pg_catalog.=) 'T'
    AND task.owner OPERATOR(pg_catalog.=) ANY ($1) LIMIT $2 OFFSET $3
    FOR NO KEY UPDATE SKIP LOCKED));

-- Ack [Key(0), Session]
DELETE FROM ONLY app."Jobs" AS task
    WHERE task.a OPERATOR(pg_catalog.=) $1
    AND coalesce(task.status OPERATOR(pg_catalog.=) 'T', false)
    AND coalesce(task.owner OPERATOR(pg_catalog.=) $2, false)
    RETURNING task.*::app."Jobs";

-- Release [Key(0), Session]
UPDATE ONLY app."Jobs" AS task
    SET status = 'R', owner = NULL
    WHERE task.a OPERATOR(pg_catalog.=) $1
    AND coalesce(task.status OPERATOR(pg_catalog.=) 'T', false)
    AND coalesce(task.owner OPERATOR(pg_catalog.=) $2, false)
    RETURNING task.*::app."Jobs";

-- Bury [Key(0), Session]
UPDATE ONLY app."Jobs" AS task
    SET status = 'B', owner = NULL
    WHERE task.a OPERATOR(pg_catalog.=) $1
    AND coalesce(task.status OPERATOR(pg_catalog.=) 'T', false)
    AND coalesce(task.owner OPERATOR(pg_catalog.=) $2, false)
    RETURNING task.*::app."Jobs";

-- Dig [Key(0)]
UPDATE ONLY app."Jobs" AS task
    SET status = 'R', owner = NULL
    WHERE task.a OPERATOR(pg_catalog.=) $1
    AND coalesce(task.status OPERATOR(pg_catalog.=) 'B', false)
    RETURNING task.*::app."Jobs";

-- Delete [Key(0)]
DELETE FROM ONLY app."Jobs" AS task
    WHERE task.a OPERATOR(pg_catalog.=) $1
    RETURNING task.*::app."Jobs";

-- Peek [Key(0)]
SELECT task.*::app."Jobs"
    FROM ONLY app."Jobs" AS task
    WHERE task.a OPERATOR(pg_catalog.=) $1;

-- First ready task [Mark(0)]
SELECT task.a, NULL::pg_catalog.int8
    FROM ONLY app."Jobs" AS task
    WHERE task.status OPERATOR(pg_catalog.=) 'R'
    AND task.a OPERATOR(pg_catalog.>=) $1
    ORDER BY task.a LIMIT 1;

-- Next instant for the worker []
SELECT NULL, NULL;

-- Queue with an order: {"tube": true}

-- Index Ready []
CREATE INDEX ready_idx ON app."Jobs" (created, a)
    WHERE status OPERATOR(pg_catalog.=) 'R';

-- Index Tube []
CREATE INDEX tube_idx ON app."Jobs" (tube, created, a)
    WHERE status OPERATOR(pg_catalog.=) 'R';

-- Index Taken []
CREATE INDEX taken_idx ON app."Jobs" (owner)
    WHERE status OPERATOR(pg_catalog.=) 'T';

-- Put [Tube, Column(7)]
INSERT INTO app."Jobs" AS task (status, tube, progress) VALUES ('R', $1, $2)
    RETURNING task.*::app."Jobs";

-- Take { within: Ready { tube: true, level: false }, ttr: false, marked: true, many: false } [Session, Tube, Mark(0), Mark(1), Limit, Skip]
UPDATE ONLY app."Jobs" AS task
    SET status = 'T', owner = $1
    WHERE task.a OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT task.a
    FROM ONLY app."Jobs" AS task
    WHERE task.status OPERATOR(pg_catalog.=) 'R'
    AND task.tube OPERATOR(pg_catalog.=) ANY (ARRAY[$2])
    AND ROW(task.created, task.a) OPERATOR(pg_catalog.>=) ROW($3, $4)
    ORDER BY task.tube, task.created, task.a LIMIT $5 OFFSET $6
    FOR NO KEY UPDATE SKIP LOCKED))
    RETURNING task.*::app."Jobs";

-- Reap [Sessions, Limit, Skip]
UPDATE ONLY app."Jobs" AS task
    SET status = 'R', owner = NULL
    WHERE task.a OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT task.a
    FROM ONLY app."Jobs" AS task
    WHERE task.status OPERATOR(pg_catalog.=) 'T'
    AND task.owner OPERATOR(pg_catalog.=) ANY ($1) LIMIT $2 OFFSET $3
    FOR NO KEY UPDATE SKIP LOCKED));

-- Ack [Key(0), Session]
DELETE FROM ONLY app."Jobs" AS task
    WHERE task.a OPERATOR(pg_catalog.=) $1
    AND coalesce(task.status OPERATOR(pg_catalog.=) 'T', false)
    AND coalesce(task.owner OPERATOR(pg_catalog.=) $2, false)
    RETURNING task.*::app."Jobs";

-- Release [Key(0), Session]
UPDATE ONLY app."Jobs" AS task
    SET status = 'R', owner = NULL
    WHERE task.a OPERATOR(pg_catalog.=) $1
    AND coalesce(task.status OPERATOR(pg_catalog.=) 'T', false)
    AND coalesce(task.owner OPERATOR(pg_catalog.=) $2, false)
    RETURNING task.*::app."Jobs";

-- Bury [Key(0), Session]
UPDATE ONLY app."Jobs" AS task
    SET status = 'B', owner = NULL
    WHERE task.a OPERATOR(pg_catalog.=) $1
    AND coalesce(task.status OPERATOR(pg_catalog.=) 'T', false)
    AND coalesce(task.owner OPERATOR(pg_catalog.=) $2, false)
    RETURNING task.*::app."Jobs";

-- Dig [Key(0)]
UPDATE ONLY app."Jobs" AS task
    SET status = 'R', owner = NULL
    WHERE task.a OPERATOR(pg_catalog.=) $1
    AND coalesce(task.status OPERATOR(pg_catalog.=) 'B', false)
    RETURNING task.*::app."Jobs";

-- Delete [Key(0)]
DELETE FROM ONLY app."Jobs" AS task
    WHERE task.a OPERATOR(pg_catalog.=) $1
    RETURNING task.*::app."Jobs";

-- Peek [Key(0)]
SELECT task.*::app."Jobs"
    FROM ONLY app."Jobs" AS task
    WHERE task.a OPERATOR(pg_catalog.=) $1;

-- First ready task [Mark(0), Mark(1)]
SELECT task.created, task.a, NULL::pg_catalog.int8
    FROM ONLY app."Jobs" AS task
    WHERE task.status OPERATOR(pg_catalog.=) 'R'
    AND ROW(task.created, task.a) OPERATOR(pg_catalog.>=) ROW($1, $2)
    ORDER BY task.created, task.a LIMIT 1;

-- Next instant for the worker []
SELECT NULL, NULL;
