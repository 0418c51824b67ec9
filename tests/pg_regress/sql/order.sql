-- The option order: accepted columns, messages, the definition and a dry run.
\set SHOW_CONTEXT never
\set code '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
CREATE TABLE jobs (id uuid PRIMARY KEY, "at" timestamptz NOT NULL, later timestamptz, place point NOT NULL, rank int NOT NULL, "No." int NOT NULL);
SELECT xqueue.upgrade('jobs', '{"fields": {"order": "later"}}');
:code
SELECT xqueue.upgrade('jobs', '{"fields": {"order": ["at", "gone"]}}');
:code
SELECT xqueue.upgrade('jobs', '{"fields": {"order": "ctid"}}');
:code
SELECT xqueue.upgrade('jobs', '{"fields": {"order": "place"}}');
:code
SELECT xqueue.upgrade('jobs', '{"fields": {"order": ["at", "at"]}}');
:code
SELECT xqueue.upgrade('jobs', '{"fields": {"order": ""}}');
:code
SELECT xqueue.upgrade('jobs', '{"fields": {"order": 5}}');
:code
SELECT xqueue.upgrade('jobs', '{"fields": {"order": {"at": "desc"}}}');
:code
SELECT xqueue.upgrade('jobs', '{"fields": {"order": ["at", 5]}}');
:code
SELECT xqueue.upgrade('jobs', '{"fields": {"order": null}}');
:code
SELECT xqueue.upgrade('jobs', '{"fields": {"priority": "rank", "order": ["at", "rank"]}, "features": {"priority": true}}');
:code
SELECT xqueue.upgrade('jobs', '{"fields": {"order": "status"}}');
:code
SELECT jsonb_array_elements_text(xqueue.upgrade('jobs', '{"fields": {"order": ["No.", "at"]}, "features": {"buried": true}}', true)->'ddl') AS ddl;
SELECT xqueue.upgrade('jobs', '{"fields": {"order": ["No.", "at"]}}')->'fields' AS fields;
SELECT xqueue.upgrade('jobs')->'fields'->'order' AS stays;
SELECT jsonb_array_elements_text(xqueue.upgrade('jobs', '{"fields": {"order": "at"}}', true)->'ddl') AS ddl;
SELECT jsonb_array_elements_text(xqueue.upgrade('jobs', '{"fields": {"order": []}}', true)->'ddl') AS ddl;
-- A column of the key that comes first
CREATE TABLE pairs (tenant int, no int, PRIMARY KEY (tenant, no));
SELECT xqueue.upgrade('pairs', '{"fields": {"order": "no"}}')->'fields' AS fields;
SELECT indexdef FROM pg_indexes WHERE indexname = 'xqueue_pairs_ready_idx';
SELECT xqueue.put('pairs', '[{"tenant": 1, "no": 2}, {"tenant": 2, "no": 1}, {"tenant": 1, "no": 1}]');
SELECT tenant, no FROM xqueue.take(NULL::pairs, count => 3);
DROP TABLE jobs, pairs;
