"""A consumer of the queue "jobs" with psycopg: fetches pages and stores their lengths, until SIGTERM.

The queue: a table jobs (id, url) with feature retry, and pages (job, length). PGHOST, PGDATABASE and so on name the server.
"""

import signal
import sys
import time

import psycopg

# Gives a failed task back. No row, and no error, if this session has lost it meanwhile.
RELEASE = "SELECT xqueue.release('jobs', %s, error => %s, if_held => true)"
stopping = False


def stop(*_):
    global stopping
    stopping = True


def work(task):
    """Stands for slow work that can fail."""
    if "://" not in task["url"]:
        raise ValueError(f"{task['url']} is no URL")
    return len(task["url"])


def consume(db):
    while not stopping:
        for (task,) in db.execute("SELECT xqueue.take('jobs', '5s', 10)").fetchall():
            if stopping:
                break
            try:
                length = work(task)
                with db.transaction():
                    db.execute("INSERT INTO pages VALUES (%s, %s)", (task["id"], length))
                    db.execute("SELECT xqueue.ack('jobs', %s)", (task["id"],))
            except Exception as error:
                db.execute(RELEASE, (task["id"], str(error)))
    db.execute("SELECT xqueue.give_back()")


def main():
    signal.signal(signal.SIGTERM, stop)
    while not stopping:
        try:
            with psycopg.connect(autocommit=True) as db:
                consume(db)
        except psycopg.OperationalError as error:  # The server has given back the tasks of this connection.
            print(error, file=sys.stderr)
            time.sleep(1)


main()
