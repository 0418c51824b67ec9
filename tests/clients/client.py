"""Helpers shared by the Python programs: unnumbered TAP lines, a consumer's work, PgBouncer's address."""

import os
import subprocess
import traceback

from tap import equal, psql

# PgBouncer in transaction mode, in front of the server.
POOLER = {"host": os.environ["POOLER_HOST"], "port": int(os.environ["POOLER_PORT"])}


def run(*tests, table=None):
    """Runs each function as a test named by its docstring. A test must leave the table empty."""
    for test in tests:
        try:
            test()
            equal(psql(f"SELECT * FROM {table}") if table else "", "")
            print(f"ok - {test.__doc__}", flush=True)
        except Exception:
            print(f"not ok - {test.__doc__}", flush=True)
            print(traceback.format_exc(), flush=True)
            if table:
                psql(f"DELETE FROM {table}")


class Work:
    """The work of a consumer under test, which the program attempt does. At c the consumer is asked to stop."""

    def __init__(self, table):
        self.table, self.stopped = table, False
        self("begin")

    def __call__(self, step):
        if subprocess.run([os.environ["XQUEUE_ATTEMPT"], self.table, step]).returncode != 0:
            raise ValueError("the work failed")
        self.stopped = step == "c"
