A queue is a table: producers may write to it as to any other.

-- task --
{"n": 1}

-- put --
INSERT INTO measure.queue (payload) VALUES ('{"n": 1}') RETURNING id, payload

-- put many --
INSERT INTO measure.queue (payload) SELECT jsonb_array_elements(:tasks::jsonb) RETURNING id
