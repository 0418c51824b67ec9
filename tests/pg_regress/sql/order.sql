-- The option order: accepted columns, messages, the definition and a dry run.
\set SHOW_CONTEXT never
\set code '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
CREATE TABLE jobs (id uuid PRIMARY KEY, "at" timestamptz NOT NULL, later timestamptz, place point NOT NULL, rank int NOT NULL, "No." int NOT NULL);
SELECT xqueue.upgrade('jobs', '{"fields": {"order": "later"}}'); :code
SELECT xqueue.upgrade('jobs', '{"fields": {"order": ["at", "gone"]}}'); :code
SELECT xqueue.upgrade('jobs', '{"fields": {"order": "ctid"}}'); :code
SELECT xqueue.upgrade('jobs', '{"fields": {"order": "place"}}'); :code
SELECT xqueue.upgrade('jobs', '{"fields": {"order": {"at": "desc"}}}'); :code
SELECT xqueue.upgrade('jobs', '{"fields": {"priority": "rank", "order": ["at", "rank"]}, "features": {"priority": true}}');
:code
SELECT xqueue.upgrade('jobs', '{"fields": {"order": "status"}}'); :code
SELECT jsonb_array_elements_text(xqueue.upgrade('jobs', '{"fields": {"order": ["No.", "at"]}, "features": {"buried": true}}', true)->'ddl') AS ddl;
SELECT xqueue.upgrade('jobs', '{"fields": {"order": ["No.", "at"]}}')->'fields' AS fields;
SELECT xqueue.upgrade('jobs')->'fields'->'order' AS stays;
SELECT jsonb_array_elements_text(xqueue.upgrade('jobs', '{"fields": {"order": "at"}}', true)->'ddl') AS ddl;
SELECT jsonb_array_elements_text(xqueue.upgrade('jobs', '{"fields": {"order": []}}', true)->'ddl') AS ddl;
-- A column of the key comes first
CREATE TABLE pairs (tenant int, no int, PRIMARY KEY (tenant, no));
SELECT xqueue.upgrade('pairs', '{"fields": {"order": "no"}}')->'fields' AS fields;
SELECT indexdef FROM pg_indexes WHERE indexname = 'xqueue_pairs_ready_idx';
SELECT xqueue.put('pairs', '[{"tenant": 1, "no": 2}, {"tenant": 2, "no": 1}, {"tenant": 1, "no": 1}]');
SELECT tenant, no FROM xqueue.take(NULL::pairs, count => 3);
DROP TABLE jobs, pairs;

-- Advice for a table whose keys are random or text
CREATE TABLE jobs (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), note text);
SELECT xqueue.upgrade('jobs', dry_run => true) IS NOT NULL AS planned;
ALTER TABLE jobs ADD COLUMN "Seen" timestamp DEFAULT (now() AT TIME ZONE 'utc'), ADD COLUMN at timestamptz NOT NULL DEFAULT now(),
    ADD COLUMN until timestamptz DEFAULT 'infinity', ADD COLUMN no bigserial, ADD COLUMN n int GENERATED ALWAYS AS IDENTITY;
SELECT xqueue.upgrade('jobs') IS NOT NULL AS upgraded;
-- Only once, and not if there is an order
SELECT xqueue.upgrade('jobs', '{"features": {"buried": true}}') IS NOT NULL AS upgraded;
SELECT xqueue.downgrade('jobs', drop_columns => true);
SELECT xqueue.upgrade('jobs', '{"fields": {"order": "at"}}') IS NOT NULL AS upgraded;
DROP TABLE jobs;
CREATE TABLE jobs (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), created_at timestamp(6) NOT NULL, updated_at timestamp(6) NOT NULL);
SELECT xqueue.upgrade('jobs') IS NOT NULL AS upgraded;
DROP TABLE jobs;
CREATE TABLE words (word varchar(20) PRIMARY KEY);
SELECT xqueue.upgrade('words') IS NOT NULL AS upgraded;
DROP TABLE words;
CREATE TABLE words (word text PRIMARY KEY);
SELECT xqueue.upgrade('words', '{"features": {"id": "uuid"}}') IS NOT NULL AS upgraded;
DROP TABLE words;
SELECT xqueue.create('words', '{"features": {"id": "gen_random_uuid"}}') IS NOT NULL AS created;
-- create makes the column
SELECT xqueue.create('letters', '{"features": {"id": "gen_random_uuid"}, "fields": {"order": "Sent"}}')->'fields' AS fields;
SELECT xqueue.put('letters', '[{"payload": 1}, {"payload": 2}, {"payload": 3}]') IS NOT NULL AS put;
SELECT payload FROM xqueue.take(NULL::letters, count => 3);
SELECT xqueue.create('lost', '{"fields": {"order": ["a", "b"]}}'); :code
DROP TABLE words, letters;
