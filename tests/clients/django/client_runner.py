"""Django's runner, which also prints `ok NAME` or `not ok NAME: ERROR` for each test."""

import os
import sys
import unittest

from django.db import connections
from django.test.runner import DiscoverRunner


def name_of(test):
    """Returns a test's name without the parts that differ between runs."""
    return getattr(test, "test_case", test).id()


class Lines:
    """Counts each test once, also if several of its subtests fail, and its tear-down too."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.wrong = {}

    def addSuccess(self, test):
        super().addSuccess(test)
        self.wrong.setdefault(name_of(test), None)

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.wrong.setdefault(name_of(test), None)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.put(test, "succeeds unexpectedly")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.put(test, err[1])

    def addError(self, test, err):
        super().addError(test, err)
        self.put(test, err[1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.put(test, err[1])

    def put(self, test, error):
        if not self.wrong.get(name_of(test)):
            said = " ".join(str(error).split())
            self.wrong[name_of(test)] = f"{type(error).__name__}: {said}"


class Runner(DiscoverRunner):
    """The runner, with lines of results."""

    def get_resultclass(self):
        base = super().get_resultclass()
        if base is None:
            base = unittest.TextTestResult
        return type("Result", (Lines, base), {})

    def setup_databases(self, **kwargs):
        protocol = os.environ.get("MERIDIAN_PROTOCOL")
        if protocol:
            # Django's CREATE DATABASE has no place for a protocol.
            self.keepdb = True
            for alias in connections:
                connection = connections[alias]
                name = connection.ops.quote_name(connection.settings_dict["TEST"]["NAME"])
                with connection.cursor() as cursor:
                    cursor.execute(f"DROP DATABASE IF EXISTS {name}")
                    cursor.execute(f'CREATE DATABASE {name} PROTOCOL = "{protocol}"')
        return super().setup_databases(**kwargs)

    def run_suite(self, suite, **kwargs):
        result = super().run_suite(suite, **kwargs)
        for name, error in result.wrong.items():
            print(f"not ok {name}: {error[:400]}" if error else f"ok {name}")
        sys.stdout.flush()
        return result
