-- What the extension and docs/stub.sql both can do, without what differs: uuids of sessions, texts of errors.
CREATE TABLE jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, url text);
SELECT xqueue.upgrade('jobs', '{"features": {"delayed": true, "buried": true, "retry": {"limit": 2, "backoff": "10 s"}}}') IS NOT NULL;
SELECT xqueue.put('jobs', '{"url": "/1"}');
SELECT id, url, status FROM xqueue.put(NULL::jobs, '[{"url": "/2"}, {"url": "/3"}]') ORDER BY id;
SELECT id, status, runat > now() FROM xqueue.put(NULL::jobs, '{"url": "/4"}', delay => '1 h');
INSERT INTO jobs (url) VALUES ('/5');

SELECT id, status, attempts, owner = xqueue.identify() FROM xqueue.take(NULL::jobs, '1 s', 2) ORDER BY id;
SELECT xqueue.ack('jobs', 1)->'url';
SELECT xqueue.ack('jobs', 1);
SELECT xqueue.ack('jobs', 3);
SELECT xqueue.ack('jobs', NULL::bigint);
SELECT xqueue.ack('jobs', 2, update => '{"url": "/x"}');
SELECT status, attempts, reason, runat > now() + '9 s' FROM xqueue.release(NULL::jobs, 2, error => 'no');
SELECT id, status, attempts FROM xqueue.take(NULL::jobs, id => 2);
SELECT status, attempts, reason, runat FROM xqueue.release(NULL::jobs, 2, error => 'no');
SELECT status, reason FROM xqueue.dig(NULL::jobs, 2);
SELECT xqueue.dig('jobs', 2);
SELECT id FROM xqueue.take(NULL::jobs, count => 2) ORDER BY id;
SELECT xqueue.give_back('jobs');
SELECT id, status, attempts, owner FROM jobs ORDER BY id;
SELECT xqueue.take('jobs')->>'url';
SELECT id FROM xqueue.take(NULL::jobs, done => 2);
SELECT xqueue.release('jobs', '{3}', update => '{"url": "/x"}', failed => false)->>'url';
SELECT xqueue.bury('jobs', id)->>'status' FROM xqueue.take(NULL::jobs, id => 5);
SELECT id, status, url, attempts FROM jobs ORDER BY id;

-- Batches, and ids as drivers send them.
SELECT count(*) FROM xqueue.put(NULL::jobs, '[{"url": "/6"}, {"url": "/7"}, {"url": "/8"}, {"url": "/9"}, {"url": "/10"}]');
SELECT count(*) FROM xqueue.take(NULL::jobs, count => 100);
SELECT count(*) FROM xqueue.ack('jobs', ARRAY[6, 7]);
SELECT count(*) FROM xqueue.ack('jobs', '{"id": 8}'::jsonb);
SELECT count(*) FROM xqueue.ack('jobs', ARRAY[9, 1000]);
SELECT (xqueue.ack(j)).id FROM jobs AS j WHERE id = 9;
SELECT (xqueue.release(j, delay => '0')).status FROM jobs AS j WHERE id = 10;
SELECT xqueue.give_back();

-- What is refused.
SELECT xqueue.put('jobs', '{"nope": 1}');
SELECT xqueue.put('jobs', '{"status": "R"}');
SELECT xqueue.put('jobs', '7');
SELECT xqueue.take('jobs', tube => 'a');
SELECT xqueue.take('nothing');
SELECT xqueue.ack('jobs', 'one');

-- Order, tubes, lives.
SELECT xqueue.create('mails', '{"features": {"priority": true, "tube": true, "ttl": true, "zombie": "1 h"}}') IS NOT NULL;
SELECT id, priority, tube FROM xqueue.put(NULL::mails, '{"payload": {"to": "ann"}}', priority => 2, tube => 'bulk');
SELECT id, priority, tube FROM xqueue.put(NULL::mails, '{"payload": {"to": "bob"}}', priority => 1);
SELECT id, expires > now() FROM xqueue.put(NULL::mails, '{"priority": 0, "tube": "bulk"}', ttl => '1 h');
SELECT id FROM xqueue.take(NULL::mails, tube => 'bulk');
SELECT id FROM xqueue.take(NULL::mails);
SELECT id, status FROM xqueue.ack(NULL::mails, 3);
SELECT id, status, payload FROM mails ORDER BY id;

-- A key of text, which is taken as it stands; conflicts.
CREATE TABLE syncs (customer text PRIMARY KEY, changes int);
SELECT xqueue.upgrade('syncs', '{"fields": {"status": "state"}, "features": {"delayed": true, "keep": true}}') IS NOT NULL;
SELECT customer, state FROM xqueue.put(NULL::syncs, '{"customer": "{a,b}", "changes": 1}');
SELECT customer, changes FROM xqueue.put(NULL::syncs, '{"customer": "{a,b}", "changes": 2}', on_conflict => 'update');
SELECT customer, changes FROM xqueue.put(NULL::syncs, '{"customer": "{a,b}", "changes": 3}', on_conflict => 'nothing');
SELECT customer FROM xqueue.put(NULL::syncs, '{"customer": "{a,b}"}');
SELECT customer, state FROM xqueue.take(NULL::syncs);
SELECT customer, state FROM xqueue.ack(NULL::syncs, '{a,b}'::text);
SELECT xqueue.downgrade('syncs', drop_columns => true);
SELECT * FROM syncs;
