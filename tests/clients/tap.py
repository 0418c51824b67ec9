"""Helpers shared by the Python programs: unnumbered TAP lines, polling, a consumer's work, PgBouncer's address."""

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
    """The work of a consumer under test, which the program attempt does. At c the consumer is asked to stop."""

    expected, left = os.environ.get("XQUEUE_URLS"), os.environ.get("XQUEUE_LEFT")

    def __init__(self, table):
        self.table, self.urls, self.stopped = table, "", False
        self.query_left = f"SELECT string_agg(concat_ws(' ', url, status, attempts, reason), ', ' ORDER BY id) FROM {table}"

    def __call__(self, url):
        self.urls += url
        self.stopped = url == "c"
        if subprocess.run([os.environ["XQUEUE_ATTEMPT"], self.table, self.urls]).returncode != 0:
            raise ValueError("the work failed")
