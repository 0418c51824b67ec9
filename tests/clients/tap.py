"""What the Python programs share: tests that print TAP lines without numbers, waiting, the server's restart, PgBouncer."""

import os
import subprocess
import time
import traceback

# PgBouncer in transaction mode, in front of the server.
POOLER = {"host": os.environ["POOLER_HOST"], "port": int(os.environ["POOLER_PORT"])}


def run(tests, argument, clean_up):
    """Calls each function of tests, whose docstring names it. After one that fails, clean_up() is for the others."""
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
    """The work of a consumer that is to be tested with the tasks a, b, c. The first attempt at a loses the server, which is
    restarted, the second one fails. At b the consumer is asked to stop."""

    def __init__(self):
        self.urls, self.stopped = [], False
        # Where the server cannot be restarted, the first attempt fails.
        self.restart = os.environ.get("XQUEUE_RESTART")
        self.expected = ["a", "a", "b"] if self.restart else ["a", "b"]

    def __call__(self, url):
        self.urls.append(url)
        if len(self.urls) == len(self.expected):
            self.stopped = True
        elif self.restart and len(self.urls) == 1:
            subprocess.run([self.restart], check=True)
        else:
            raise ValueError("the work failed")
