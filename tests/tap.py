"""Shared by the tests in Python: TAP, polling, psql."""

import subprocess
import time
import traceback

number = failures = 0


def test(function, *arguments, prefix=""):
    """Runs a test named by its docstring. Returns whether it succeeded."""
    global number, failures
    number += 1
    try:
        function(*arguments)
        print(f"ok {number} - {prefix}{function.__doc__}", flush=True)
        return True
    except Exception:
        failures += 1
        print(f"not ok {number} - {prefix}{function.__doc__}\n{traceback.format_exc()}", flush=True)
        return False


def end():
    """Prints the plan, and ends the program."""
    print(f"1..{number}")
    raise SystemExit(failures > 0)


def equal(actual, expected):
    assert actual == expected, f"expected {expected!r}, got {actual!r}"


def until(condition, what="the condition", seconds=60):
    """Polls until condition() is true, and returns its result."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline, f"waited for {seconds} s in vain: {what}"
        time.sleep(0.03)
    return result


def psql(sql, database=None):
    """Runs statements, and returns what psql prints."""
    where = ["-d", database] if database else []
    run = subprocess.run(["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", *where, "-f", "-"],
                         input=sql, capture_output=True, encoding="utf-8")
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()
