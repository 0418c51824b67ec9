"""The consumers beside this file, each as a process: work, failure, a lost connection, SIGTERM.

Arguments: what starts the consumer of each language, NAME=COMMAND. A role of its own owns the queue, whose schema is its
search_path. Prints TAP.
"""

import os
import secrets
import shlex
import signal
import subprocess
import sys
import time
import traceback

import psycopg

ROLE, PASSWORD = "loops_" + secrets.token_hex(8), secrets.token_hex(16)


def until(db, condition, *parameters):
    """Polls until a condition in SQL is true."""
    deadline = time.monotonic() + 30
    while not db.execute("SELECT " + condition, parameters).fetchone()[0]:
        assert time.monotonic() < deadline, f"waited for 30 s in vain for {condition}"
        time.sleep(0.01)


def environment():
    host, port, database = (os.environ[name] for name in ("PGHOST", "PGPORT", "PGDATABASE"))
    address = "127.0.0.1" if host.startswith("/") else host
    url = f"jdbc:postgresql://{address}:{port}/{database}"
    return {**os.environ, "PGUSER": ROLE, "PGPASSWORD": PASSWORD,
            "JDBC_URL": url, "JDBC_USER": ROLE, "JDBC_PASSWORD": PASSWORD}


def put(db, *urls):
    for url in urls:
        db.execute(f"INSERT INTO {ROLE}.jobs (url) VALUES (%s)", (url,))


def waits(db):
    until(db, f"coalesce((SELECT consumers = 1 FROM xqueue.queues WHERE queue = '{ROLE}.jobs'::regclass), false)")


def works(db, consumer):
    """a task is worked off and acked with its result"""
    put(db, "https://example.org/1")
    until(db, f"NOT EXISTS (SELECT FROM {ROLE}.jobs)")
    assert db.execute(f"SELECT length FROM {ROLE}.pages").fetchall() == [(21,)]


def fails(db, consumer):
    """a task that fails waits for its next attempt, with the error"""
    put(db, "nowhere", "https://example.org/2")
    until(db, f"EXISTS (SELECT FROM {ROLE}.jobs WHERE status = 'W')")
    until(db, f"(SELECT count(*) = 1 FROM {ROLE}.jobs)")
    row = db.execute(f"SELECT url, attempts, runat > now(), reason FROM {ROLE}.jobs").fetchone()
    assert row[:3] == ("nowhere", 1, True) and "nowhere is no URL" in row[3], row


def reconnects(db, consumer):
    """a consumer whose connection is lost goes on with another"""
    waits(db)
    lost = db.execute("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = %s", (ROLE,)).fetchone()
    assert lost == (1,)
    put(db, "https://example.org/3")
    until(db, f"NOT EXISTS (SELECT FROM {ROLE}.jobs)")
    assert consumer.poll() is None


def stops(db, consumer):
    """SIGTERM: the task at work is finished, the others are given back unused, and it ends"""
    waits(db)
    with db.transaction():
        # The first task is at work as long as its result has to wait.
        db.execute(f"LOCK TABLE {ROLE}.pages IN EXCLUSIVE MODE")
        with psycopg.connect(autocommit=True) as other:
            other.execute(f"INSERT INTO {ROLE}.jobs (url) SELECT 'https://example.org/' || n FROM generate_series(4, 6) AS n")
            until(other, "EXISTS (SELECT FROM pg_stat_activity WHERE usename = %s AND wait_event_type = 'Lock')", ROLE)
            assert other.execute(f"SELECT count(*) FROM {ROLE}.jobs WHERE status = 'T'").fetchone() == (3,)
        consumer.send_signal(signal.SIGTERM)
    # A JVM that a signal ends has the status 128 + 15, whatever its hooks did.
    assert consumer.wait(30) in ((0, 143) if "java" in consumer.args[0] else (0,)), consumer.returncode
    assert db.execute(f"SELECT status, attempts, owner FROM {ROLE}.jobs").fetchall() == [("R", 0, None)] * 2
    assert db.execute(f"SELECT count(*) FROM {ROLE}.pages").fetchone() == (1,)


def prepare(db):
    db.execute(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'")
    db.execute(f"CREATE SCHEMA AUTHORIZATION {ROLE}")
    db.execute(f"CREATE TABLE {ROLE}.jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, url text NOT NULL)")
    db.execute(f"CREATE TABLE {ROLE}.pages (job bigint PRIMARY KEY, length integer)")
    features = '{"features": {"delayed": true, "retry": {"limit": 5, "backoff": "1 h"}}}'
    db.execute(f"SELECT xqueue.upgrade('{ROLE}.jobs', %s)", (features,))
    db.execute(f"ALTER TABLE {ROLE}.jobs OWNER TO {ROLE}")
    db.execute(f"ALTER TABLE {ROLE}.pages OWNER TO {ROLE}")


def main():
    number = failed = 0
    with psycopg.connect(autocommit=True) as db:
        prepare(db)
        try:
            for language, command in (argument.split("=", 1) for argument in sys.argv[1:]):
                consumer = subprocess.Popen(shlex.split(command), env=environment())
                for test in (works, fails, reconnects, stops):
                    number += 1
                    try:
                        test(db, consumer)
                        print(f"ok {number} - {language}: {test.__doc__}", flush=True)
                    except Exception:
                        failed += 1
                        print(f"not ok {number} - {language}: {test.__doc__}", flush=True)
                        print(traceback.format_exc(), file=sys.stderr)
                    db.execute(f"DELETE FROM {ROLE}.jobs")
                    db.execute(f"DELETE FROM {ROLE}.pages")
                consumer.kill()
                consumer.wait()
        finally:
            db.execute(f"DROP OWNED BY {ROLE} CASCADE")
            db.execute(f"DROP ROLE {ROLE}")
    print(f"1..{number}")
    sys.exit(failed > 0)


main()
