Four clients insert events, one consumer takes them in the batches that a ticker cuts as often as it can.

-- install --
CREATE EXTENSION pgq;
SELECT pgq.create_queue('measure');
SELECT pgq.register_consumer('measure', 'measure');
SELECT pgq.set_queue_config('measure', 'ticker_max_lag', '10 milliseconds');
SELECT pgq.set_queue_config('measure', 'ticker_idle_period', '10 milliseconds')

-- tables --
pgq.event_template

-- empty --
SELECT pgq.unregister_consumer('measure', 'measure');
SELECT pgq.force_tick('measure');
SELECT pgq.ticker('measure');
SELECT pgq.register_consumer('measure', 'measure')

-- task --
{"n": 1}

-- put --
SELECT pgq.insert_event('measure', 'measure', '{"n": 1}')

-- put many --
SELECT pgq.insert_event('measure', 'measure', task::text) FROM jsonb_array_elements(:tasks::jsonb) task
