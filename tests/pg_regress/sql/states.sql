-- Status columns of other types and with other values.
\set SHOW_CONTEXT never
\set code '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'

-- A user's enum
CREATE TYPE progress AS ENUM ('new', 'running', 'later', 'stuck', 'dead', 'over');
CREATE TABLE orders (id int PRIMARY KEY, progress progress NOT NULL DEFAULT 'new');
INSERT INTO orders VALUES (1, 'new'), (2, 'over'), (3, 'stuck'), (4, 'new');
SELECT xqueue.upgrade('orders', '{"fields": {"status": "progress"}}'); :code
SELECT xqueue.upgrade('orders', '{"fields": {"status": "progress"}, "states": {"R": "new", "T": "running", "W": "later", "B": "stuck", "Z": "dead", "D": "finished"}}');
:code
SELECT jsonb_array_elements_text(xqueue.upgrade('orders', '{"fields": {"status": "progress"}, "features": {"delayed": true},
    "states": {"R": "new", "T": "running", "W": "later", "B": "stuck", "Z": "dead", "D": "over"}}', true)->'ddl') AS ddl;
SELECT xqueue.upgrade('orders', '{"fields": {"status": "progress"}, "features": {"delayed": true},
    "states": {"R": "new", "T": "running", "W": "later", "B": "stuck", "Z": "dead", "D": "over"}}');
SELECT xqueue.upgrade('orders', dry_run => true)->'ddl' AS ddl;
SELECT id, progress FROM xqueue.take(NULL::orders, count => 5);
SELECT id, progress FROM xqueue.release(NULL::orders, 1, delay => '1 day');
SELECT id, progress FROM xqueue.ack(NULL::orders, 4);
SELECT id, progress FROM orders ORDER BY id;
SELECT xqueue.stats('orders')->'tasks' AS tasks;
SELECT xqueue.check('orders');
DROP TABLE orders;
DROP TYPE progress;

-- Text of each kind
CREATE TABLE texts (id int PRIMARY KEY, a text, b varchar(20), c char(1));
INSERT INTO texts VALUES (1, 'to do', 'to do', 'R'), (2, 'done', 'done', 'D');
SET client_min_messages = warning;
SELECT xqueue.upgrade('texts', '{"fields": {"status": "a"}, "states": {"R": "to do", "D": "done"}}')->'states' AS states;
SELECT indexdef FROM pg_indexes WHERE tablename = 'texts' ORDER BY indexname COLLATE "C";
SELECT xqueue.upgrade('texts', dry_run => true)->'ddl' AS ddl;
SELECT id, a FROM xqueue.take(NULL::texts);
SELECT id, a FROM xqueue.release(NULL::texts, 1);
SELECT xqueue.stats('texts')->'tasks' AS tasks;
SELECT xqueue.check('texts');
SELECT xqueue.downgrade('texts', true);
SELECT xqueue.upgrade('texts', '{"fields": {"status": "b"}, "states": {"R": "to do", "D": "done"}}')->'states' AS states;
SELECT indexdef FROM pg_indexes WHERE tablename = 'texts' ORDER BY indexname COLLATE "C";
SELECT xqueue.upgrade('texts', dry_run => true)->'ddl' AS ddl;
SELECT xqueue.downgrade('texts', true);
SELECT xqueue.upgrade('texts', '{"fields": {"status": "c"}, "states": {}}')->'states' AS states;
SELECT indexdef FROM pg_indexes WHERE tablename = 'texts' ORDER BY indexname COLLATE "C";
SELECT xqueue.upgrade('texts', dry_run => true)->'ddl' AS ddl;
SELECT xqueue.downgrade('texts', true);
DROP TABLE texts;

-- Integers, which enums of Rails, Laravel and Django use
CREATE DOMAIN step AS smallint CHECK (VALUE >= -1);
CREATE TABLE numbers (id int PRIMARY KEY, a smallint NOT NULL DEFAULT 0, b int, c bigint, d step);
INSERT INTO numbers VALUES (1, 0, 0, 0, 0), (2, 3, 3, 3, 3), (3, 2, 2, 2, 2), (4, 0, 0, 0, 0);
SELECT xqueue.upgrade('numbers', '{"fields": {"status": "a"}}'); :code
SELECT xqueue.upgrade('numbers', '{"fields": {"status": "a"}, "states": {"R": 0, "T": 1, "W": 2, "B": 3, "Z": 4, "D": 40000}}');
:code
SELECT xqueue.upgrade('numbers', '{"fields": {"status": "a"}, "states": {"R": "00", "T": 1, "W": 2, "B": 3, "Z": 4, "D": 5}}');
:code
SELECT xqueue.upgrade('numbers', '{"fields": {"status": "a"}, "states": {"R": 0, "T": 0}}'); :code
SELECT xqueue.upgrade('numbers', '{"fields": {"status": "a"}, "states": {"R": 0.5}}'); :code
CREATE FUNCTION pg_temp.works(name text) RETURNS TABLE (step text, result text) LANGUAGE plpgsql AS $$
BEGIN
    step := 'states'; result := xqueue.upgrade('numbers', format('{"fields": {"status": %s}, "features": {"delayed": true, "keep": true},
        "states": {"R": 0, "T": 1, "W": 2, "B": 3, "Z": -1, "D": 5}}', to_json(name))::jsonb)->'states'; RETURN NEXT;
    FOR result IN SELECT indexdef FROM pg_indexes WHERE tablename = 'numbers' ORDER BY indexname COLLATE "C" LOOP
        step := 'index'; RETURN NEXT;
    END LOOP;
    step := 'again'; result := xqueue.upgrade('numbers', dry_run => true)->'ddl'; RETURN NEXT;
    step := 'taken'; result := (SELECT string_agg(id::text, ', ') FROM xqueue.take(NULL::numbers, count => 5)); RETURN NEXT;
    PERFORM xqueue.release(NULL::numbers, 1, delay => '1 day'), xqueue.ack(NULL::numbers, 4);
    step := 'rows'; result := (SELECT json_agg(to_jsonb(n)->name ORDER BY id) FROM numbers n); RETURN NEXT;
    step := 'buried'; result := (SELECT string_agg(id::text, ', ') FROM xqueue.tasks_by_state(NULL::numbers, '3')); RETURN NEXT;
    PERFORM xqueue.downgrade('numbers', true);
    EXECUTE format('UPDATE numbers SET %I = 0 WHERE id IN (1, 4)', name);
END $$;
SELECT * FROM pg_temp.works('a');
SELECT * FROM pg_temp.works('b') WHERE step <> 'states';
SELECT * FROM pg_temp.works('d') WHERE step <> 'states';
SELECT xqueue.upgrade('numbers', '{"fields": {"status": "b"}, "features": {"buried": true}, "states": {"R": 0, "T": 1, "W": 2, "B": 3, "Z": -1, "D": 5}}')->'states' AS states;
SELECT column_default FROM information_schema.columns WHERE table_name = 'numbers' AND column_name = 'b';
INSERT INTO numbers (id) VALUES (5);
INSERT INTO numbers (id, b) VALUES (6, 7); :code
SELECT xqueue.stats('numbers')->'tasks' AS tasks;
SELECT xqueue.check('numbers');
DROP TABLE numbers;
DROP DOMAIN step;

-- Other values without an existing column: the new column is text
CREATE TABLE words (id int PRIMARY KEY);
SELECT xqueue.upgrade('words', '{"states": {"R": "ready", "T": "it''s taken"}}')->'states' AS states;
INSERT INTO words (id) VALUES (1);
SELECT * FROM words;
SELECT xqueue.take('words') - 'owner' AS taken;
DROP TABLE words;

-- Existing rows get the state that `existing` names
CREATE TABLE archive (id int PRIMARY KEY);
INSERT INTO archive VALUES (1), (2);
SELECT jsonb_array_elements_text(xqueue.upgrade('archive', '{"existing": "D"}', true)->'ddl') AS ddl LIMIT 3;
SELECT xqueue.upgrade('archive', '{"existing": "D"}')->'existing' AS existing;
INSERT INTO archive (id) VALUES (3);
SELECT id, status FROM archive ORDER BY id;
SELECT xqueue.stats('archive')->'tasks' AS tasks;

-- rows without a state, too
CREATE TABLE gaps (id int PRIMARY KEY, state text);
INSERT INTO gaps VALUES (1, NULL), (2, 'R');
SELECT xqueue.upgrade('gaps', '{"fields": {"status": "state"}, "existing": "B"}')->'existing' AS existing;
SELECT * FROM gaps ORDER BY id;
DROP TABLE gaps;

-- Other values are refused, also by hand, and no row changes
INSERT INTO archive (id, status) VALUES (4, 'X'); :code
UPDATE archive SET status = 'X' WHERE id = 1; :code
UPDATE archive SET status = NULL WHERE id = 1; :code
SELECT id, status FROM archive ORDER BY id;
-- each state by hand
UPDATE archive SET status = 'B' WHERE id = 1;
UPDATE archive SET status = 'Z' WHERE id = 2;
SELECT xqueue.stats('archive')->'tasks' AS tasks;
SELECT xqueue.check('archive');
DROP TABLE archive;
