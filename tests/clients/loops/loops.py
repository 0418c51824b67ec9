"""The consumers of this folder, each as a process: work, failure, a lost connection, SIGTERM.

Arguments: what starts the consumer of each language, NAME=COMMAND. A role of its own owns the queue, whose schema is the
search_path. Prints TAP.
"""

import os
import secrets
import shlex
import signal
import subprocess
import sys

import psycopg

import tap
from tap import until

ROLE, PASSWORD = "loops_" + secrets.token_hex(8), secrets.token_hex(16)


def until_true(db, condition):
    """Polls until a condition in SQL is true."""
    until(lambda: db.execute("SELECT " + condition).fetchone()[0], condition)


def environment():
    host, port, database = (os.environ[name] for name in ("PGHOST", "PGPORT", "PGDATABASE"))
    address = "127.0.0.1" if host.startswith("/") else host
    url = f"jdbc:postgresql://{address}:{port}/{database}"
    return {**os.environ, "PGUSER": ROLE, "PGPASSWORD": PASSWORD,
            "JDBC_URL": url, "JDBC_USER": ROLE, "JDBC_PASSWORD": PASSWORD}


def put(db, *urls):
    """Returns the ids of new tasks."""
    return [db.execute("INSERT INTO jobs (url) VALUES (%s) RETURNING id", (url,)).fetchone()[0] for url in urls]


def put_held(db, *urls):
    """Puts tasks whose results are blocked until let_go() is called. Returns their ids."""
    with db.transaction():
        ids = put(db, *urls)
        for job in ids:
            db.execute("SELECT pg_advisory_lock(hashtext(%s), %s)", (ROLE, job))
    return ids


def let_go(db, job):
    assert db.execute("SELECT pg_advisory_unlock(hashtext(%s), %s)", (ROLE, job)).fetchone() == (True,)


def is_held(db):
    """Returns whether the consumer is blocked with a result."""
    sql = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE usename = %s AND wait_event_type = 'Lock')"
    return db.execute(sql, (ROLE,)).fetchone()[0]


def waits(db):
    until_true(db, "coalesce((SELECT consumers = 1 FROM xqueue.queues WHERE queue = 'jobs'::regclass), false)")


def works(db, consumer):
    """a task is worked off and acked with its result"""
    put(db, "https://example.org/1")
    until_true(db, "NOT EXISTS (SELECT FROM jobs)")
    assert db.execute("SELECT length FROM pages").fetchall() == [(21,)]


def fails(db, consumer):
    """a task that fails waits for its next attempt, with the error"""
    put(db, "nowhere", "https://example.org/2")
    until_true(db, "EXISTS (SELECT FROM jobs WHERE status = 'W')")
    until_true(db, "(SELECT count(*) = 1 FROM jobs)")
    row = db.execute("SELECT url, attempts, runat > now(), reason FROM jobs").fetchone()
    assert row[:3] == ("nowhere", 1, True) and "nowhere is no URL" in row[3], row


def loses(db, consumer):
    """a task that is taken away from it leaves no result, and it goes on"""
    waits(db)
    lost, = put_held(db, "https://example.org/lost")
    until(lambda: is_held(db))
    db.execute("SELECT xqueue.delete('jobs', %s)", (lost,))
    put(db, "https://example.org/kept")
    let_go(db, lost)
    until_true(db, "NOT EXISTS (SELECT FROM jobs)")
    assert db.execute("SELECT count(*), min(job) > %s FROM pages", (lost,)).fetchone() == (1, True)
    assert consumer.poll() is None


def reconnects(db, consumer):
    """a consumer whose connection is lost during a task goes on with another"""
    waits(db)
    job, = put_held(db, "https://example.org/3")
    until(lambda: is_held(db))
    lost = db.execute("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = %s", (ROLE,)).fetchone()
    assert lost == (1,)
    let_go(db, job)
    kept, = put(db, "https://example.org/4")
    until(lambda: is_done(db, kept))
    assert consumer.poll() is None


def stops(db, consumer):
    """SIGTERM: the task at work is finished, the others are given back unused, and it ends"""
    waits(db)
    ids = put_held(db, *(f"https://example.org/{n}" for n in range(10)))
    until(lambda: is_held(db))
    assert db.execute("SELECT count(*) FROM jobs WHERE status = 'T'").fetchone() == (10,)
    consumer.send_signal(signal.SIGTERM)
    # The consumer can notice the signal a task or two later. Each task is let go after the previous one is done.
    for job in ids:
        let_go(db, job)
        until(lambda: consumer.poll() is not None or is_done(db, job) and is_held(db))
        if consumer.poll() is not None:
            break
    # A JVM that is ended by SIGTERM has the status 128 + 15, even if its hooks succeed.
    assert consumer.wait(30) in ((0, 143) if "java" in consumer.args[0] else (0,)), consumer.returncode
    left = db.execute("SELECT status, attempts, owner FROM jobs").fetchall()
    assert left and left == [("R", 0, None)] * len(left), left
    assert db.execute("SELECT count(*) FROM pages").fetchone() == (10 - len(left),)
    assert len(left) < 10


def is_done(db, job):
    return db.execute("SELECT EXISTS (SELECT FROM pages WHERE job = %s)", (job,)).fetchone()[0]


def prepare(db):
    db.execute(f"""
        CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}';
        CREATE SCHEMA AUTHORIZATION {ROLE};
        SET search_path = {ROLE};
        CREATE TABLE jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, url text NOT NULL);
        CREATE TABLE pages (job bigint PRIMARY KEY, length integer);
        -- A result is blocked while a test holds the lock of its task.
        CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                PERFORM pg_advisory_xact_lock(hashtext('{ROLE}'), NEW.job::integer);
                RETURN NEW;
            END $$;
        CREATE TRIGGER wait BEFORE INSERT ON pages FOR EACH ROW EXECUTE FUNCTION wait();
        SELECT xqueue.upgrade('jobs', '{{"features": {{"delayed": true, "retry": {{"limit": 5, "backoff": "1 h"}}}}}}');
        ALTER TABLE jobs OWNER TO {ROLE};
        ALTER TABLE pages OWNER TO {ROLE}""")


def main():
    with psycopg.connect(autocommit=True) as db:
        prepare(db)
        try:
            for language, command in (argument.split("=", 1) for argument in sys.argv[1:]):
                consumer = subprocess.Popen(shlex.split(command), env=environment())
                for test in (works, fails, loses, reconnects, stops):
                    tap.test(test, db, consumer, prefix=f"{language}: ")
                    db.execute("SELECT pg_advisory_unlock_all(); DELETE FROM jobs; DELETE FROM pages")
                consumer.kill()
                consumer.wait()
        finally:
            db.execute(f"DROP SCHEMA {ROLE} CASCADE; DROP OWNED BY {ROLE}; DROP ROLE {ROLE}")
    tap.end()


main()
