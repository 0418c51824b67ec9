"""The metrics of xqueue, read by the parser of Prometheus's own client library."""

import subprocess
import uuid

import psycopg
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from psycopg.rows import scalar_row

from client import run
from tap import equal

TABLE = f'open metrics "{uuid.uuid4().hex}"\\ é'
QUOTED = '"' + TABLE.replace('"', '""') + '"'


def samples(text):
    """The samples of this table, by name and labels."""
    families = list(text_string_to_metric_families(text))
    own = [sample for family in families for sample in family.samples if sample.labels.get("queue") == TABLE]
    return {(sample.name, *(sample.labels.get(label) for label in ("state", "call", "cause", "le"))): sample.value
            for sample in own}


def check(text):
    found = samples(text)
    equal(found["xqueue_tasks", "ready", None, None, None], 1)
    equal(found["xqueue_calls_total", None, "take", None, None], 2)
    equal(found["xqueue_failed_attempts_total", None, None, "release", None], 1)
    equal(found["xqueue_wait_seconds_count", None, None, None, None], 2)
    equal(found["xqueue_wait_seconds_bucket", None, None, None, "+Inf"], 2)
    equal(found["xqueue_work_seconds_count", None, None, None, None], 1)
    assert found["xqueue_oldest_ready_seconds", None, None, None, None] > 0


def from_driver():
    """prometheus-client reads what a driver gives, and the view metric has the same samples"""
    text = db.execute("SELECT xqueue.metrics()").fetchone()
    check(text)
    rows = db.execute("SELECT count(*) FROM xqueue.metric WHERE labels->>'queue' = %s", (TABLE,)).fetchone()
    equal(rows, len(samples(text)))


def from_psql():
    """prometheus-client reads what psql -At prints"""
    check(subprocess.run(["psql", "-XAtc", "SELECT xqueue.metrics()"], capture_output=True, check=True).stdout.decode())


with psycopg.connect("", autocommit=True, row_factory=scalar_row) as db:
    db.execute(f"CREATE TABLE {QUOTED} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY)")
    try:
        db.execute("SELECT xqueue.upgrade(%s)", (QUOTED,))
        db.execute("SELECT xqueue.put(%s, '[{}, {}]')", (QUOTED,))
        for verb in ("ack", "release"):
            task = db.execute("SELECT xqueue.take(%s)", (QUOTED,)).fetchone()
            db.execute(f"SELECT xqueue.{verb}(%s, %s)", (QUOTED, task["id"]))
        run(from_driver, from_psql)
    finally:
        db.execute(f"DROP TABLE {QUOTED}")
