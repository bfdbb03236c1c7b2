"""Runs named checks, and prints `ok NAME` or `not ok NAME: ERROR` for each.

A check is a function; it has tables of its own, so that none depends on another.
"""

import asyncio
import inspect
import os
import signal

HOST = os.environ["PGHOST"]
PORT = int(os.environ["PGPORT"])
USER = os.environ["PGUSER"]
DATABASE = os.environ["PGDATABASE"]
# The time that one check may take.
SECONDS = 30
CHECKS = []


def check(function):
    """Declares a check, which is called by its function's name."""
    CHECKS.append(function)
    return function


def equal(found, expected):
    """Fails unless two values are equal; numbers must be of one type."""
    exact = isinstance(expected, (bool, int, float))
    if found != expected or (exact and type(found) is not type(expected)):
        raise AssertionError(f"{found!r}, expected {expected!r}")


def raises(kind, action, state=None):
    """Fails unless an action raises this exception, with this SQLSTATE; returns the exception."""
    try:
        action()
    except kind as error:
        found = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        if state is not None and found != state:
            raise AssertionError(f"SQLSTATE {found} ({error}), expected {state}") from error
        return error
    raise AssertionError(f"no error, expected {kind.__name__}")


def late(*_):
    raise TimeoutError(f"no end within {SECONDS} s")


def run(connect, close):
    """Runs each check on a connection of its own; for checks that are coroutines, `connect` and
    `close` are coroutines too."""
    signal.signal(signal.SIGALRM, late)
    for function in CHECKS:
        name = function.__name__.replace("_", " ")
        error = None
        signal.alarm(SECONDS)
        try:
            if inspect.iscoroutinefunction(function):
                asyncio.run(asynchronous(function, connect, close))
            else:
                connection = connect()
                try:
                    function(connection)
                finally:
                    close(connection)
        except BaseException as wrong:  # noqa: BLE001 - a check may fail in any way
            if isinstance(wrong, KeyboardInterrupt):
                raise
            error = wrong
        finally:
            signal.alarm(0)
        if error is None:
            print(f"ok {name}", flush=True)
        else:
            said = " ".join(str(error).split())[:300]
            print(f"not ok {name}: {type(error).__name__}: {said}", flush=True)


async def asynchronous(function, connect, close):
    connection = await asyncio.wait_for(connect(), SECONDS)
    try:
        await asyncio.wait_for(function(connection), SECONDS)
    finally:
        await close(connection)
