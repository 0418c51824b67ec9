"""What the Python programs share: tests that print TAP lines without numbers, and waiting for a condition."""

import time
import traceback


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
