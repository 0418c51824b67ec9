"""Helpers shared by the Python programs: unnumbered TAP lines, polling, a restart of the server, PgBouncer's address."""

import os
import subprocess
import time
import traceback

# PgBouncer in transaction mode, in front of the server.
POOLER = {"host": os.environ["POOLER_HOST"], "port": int(os.environ["POOLER_PORT"])}


def run(tests, argument, clean_up):
    """Runs each function of tests as a test named by its docstring. After a failed test, clean_up() prepares for the next."""
    for test in tests:
        try:
            test(argument)
            print(f"ok - {test.__doc__}", flush=True)
        except Exception:
            print(f"not ok - {test.__doc__}", flush=True)
            print(traceback.format_exc(), flush=True)
            clean_up()


def equal(actual, expected):
    assert actual == expected, f"expected {expected!r}, got {actual!r}"


def until(condition, seconds=20):
    """Polls until condition() is true."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline, f"waited for {seconds} s in vain"
        time.sleep(0.01)
    return result


class Work:
    """The work of a consumer under test, with the tasks a, b, c, d. The first attempt at a restarts the server. During the second
    attempt another consumer takes a away. b fails. At c the consumer is asked to stop."""

    def __init__(self, table):
        self.table, self.urls, self.stopped = table, [], False
        # If the server cannot be restarted, the first attempt at a is the one that loses its task.
        self.restart = os.environ.get("XQUEUE_RESTART")
        self.expected = ["a", "a", "b", "c"] if self.restart else ["a", "b", "c"]
        # The expected result of query_left at the end. A restart uses up an attempt, like the end of the consumer's session.
        self.left = "b R 2 the work failed, d R 1" if self.restart else "b R 1 the work failed, d R 0"
        self.query_left = f"SELECT string_agg(concat_ws(' ', url, status, attempts, reason), ', ' ORDER BY id) FROM {table}"

    def __call__(self, url):
        self.urls.append(url)
        if self.restart and len(self.urls) == 1:
            subprocess.run([self.restart], check=True)
        elif url == "a":
            subprocess.run([os.environ["XQUEUE_TAKE_AWAY"], self.table, url], check=True)
        elif url == "b":
            raise ValueError("the work failed")
        else:
            self.stopped = True
