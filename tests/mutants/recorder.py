"""Record which faults each test reaches, in one run of the tests with all of them switched off."""

import contextlib
import functools
import itertools
import os
from collections import defaultdict

import pytest


class Recorder:
    """A plugin of pytest. What a fixture or a cached function reaches counts for all its users."""

    def __init__(self, switch):
        self.switch = switch
        self.reached = defaultdict(set)  # by test, fixture and cached function
        self.tests = {}
        self._fixtures = {}
        self._cache = functools.cache
        functools.cache = self._remember

    @contextlib.contextmanager
    def _note(self, key):
        outer = self.switch.reached
        self.switch.reached = set()
        try:
            yield
        finally:
            self.reached[key] |= self.switch.reached
            self.switch.reached = outer | self.reached[key]

    def _remember(self, function):
        cached = self._cache(function)

        @functools.wraps(cached)
        def call(*args, **kwargs):
            with self._note(function):
                return cached(*args, **kwargs)

        call.cache_clear = cached.cache_clear
        return call

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        if fixturedef.scope == "function":
            return (yield)
        with self._note(fixturedef):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self.tests[item.nodeid] = {"seconds": {}, "failed": False}
        self._fixtures[item.nodeid] = [*item._fixtureinfo.name2fixturedefs.values()]
        start = _cpu_seconds()
        with self._note(item.nodeid):
            result = yield
        self.tests[item.nodeid]["cpu"] = _cpu_seconds() - start
        return result

    def pytest_runtest_logreport(self, report):
        self.tests[report.nodeid]["seconds"][report.when] = report.duration
        self.tests[report.nodeid]["failed"] |= report.failed

    def result(self, log):
        """Return the tests by name, each with its seconds and the faults that it reaches.

        `log` is where processes that tests started wrote what they reached.
        """
        for line in log.read_text().splitlines() if log.exists() else []:
            test, fault = line.split("\t")
            self.reached[test.rsplit(" (", 1)[0]].add(fault)
        for name, test in self.tests.items():
            definitions = itertools.chain.from_iterable(self._fixtures[name])
            fixtures = (self.reached.get(definition, set()) for definition in definitions)
            test["reached"] = sorted(self.reached[name].union(*fixtures))
        return self.tests


def _cpu_seconds():
    """Return the seconds that this process and those it waited for have computed."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
