"""Options and fixtures of all tests: verified fits, and the choice of solver path.

`--path projected` runs every test with the solvers for many features: "auto" chooses by the number
of features, and most tests have few.
"""

import os
import re
import subprocess
from collections import Counter
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

import session_cache
import verified_fits
from fairspan.certificates import eigensolver
from fairspan.solvers import auto

MARKERS = {
    "counts": "of the eigenproblems that the dense path solves; others take more",
    "unverified": "fits something that is wrong on purpose, so its fits are not verified",
    "slow": "takes more than about 0.2 seconds of a core; ./run test --all runs these as well",
    "long": "takes more than about two seconds of a core; ./run long runs these",
    "sweep": "tries a part of its cases; ./run long --torture runs these with all of them",
}
# Without --verify-all, the fits of one test in so many are verified: verifying all of them takes a
# sixth of the time of the tests.
_ONE_TEST_VERIFIED_IN = 10
_MISSING_PACKAGE = re.compile(r"could not import '([\w]+)")
# Fixtures that start a browser, cluster or session; each test process would start its own.
STARTED = {"browser": "browser", "client": "dask", "spark": "spark"}
# These tests run in the environment of ./run test --with core, without optional packages.
collect_ignore = ["without_extras"]

# Few and fixed random examples by default; `./run long --fuzz` draws many new ones.
_CHECKS = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
settings.register_profile(
    "tests", derandomize=True, deadline=None, max_examples=30, suppress_health_check=_CHECKS
)
settings.register_profile(
    "fuzz", derandomize=False, deadline=60_000, max_examples=3000, suppress_health_check=_CHECKS
)
settings.load_profile("tests")


def pytest_addoption(parser):
    parser.addoption("--path", choices=("auto", "projected"), default="auto")
    parser.addoption(
        "--one-in", type=int, default=1, metavar="N", help="one test in N, others at each commit"
    )
    parser.addoption(
        "--verify-all", action="store_true", help="verify the fits of every test, not of one in ten"
    )
    parser.addoption(
        "--with", dest="started", choices=STARTED.values(), help="the tests that need it, alone"
    )


def pytest_configure(config):
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    verified_fits.record_fits()
    if config.getoption("--path") == "projected":
        eigensolver.SMALL_SUBSPACES_FROM = auto._MIN_SUBSPACE_TOL = 0
        auto._MAX_COMPONENT_RATIO = auto._MAX_EFFECTIVE_RANK_RATIO = float("inf")


def pytest_collection_modifyitems(config, items):
    """Deselect tests whose service was not started, and all but one test in `--one-in`."""
    services = {config.getoption("started")} - {None}
    selection = {
        item
        for item in items
        if {STARTED[name] for name in item.fixturenames if name in STARTED} == services
    }
    if (one_in := config.getoption("--one-in")) > 1:
        # The draw depends on the commit, so that each test runs at some commit.
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True).stdout
        selection = {
            item for item in selection if crc32(commit + item.nodeid.encode()) % one_in == 0
        }
    config.hook.pytest_deselected(items=[item for item in items if item not in selection])
    items[:] = [item for item in items if item in selection]
    if config.getoption("--path") == "projected":
        for item in items:
            if "counts" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="counts what the dense path solves"))


@pytest.fixture(scope="session", autouse=True)
def _results_are_shared(tmp_path_factory):
    if "PYTEST_XDIST_WORKER" in os.environ and os.name == "posix":
        session_cache.folder = tmp_path_factory.getbasetemp().parent


@pytest.fixture(autouse=True)
def _fits_are_verified(request):
    """Fail a test after its end if the certificate of one of its fits does not hold.

    Fits of fixtures with a wider scope are included. Which tests are checked depends on their names
    alone, so that a failure can be repeated.
    """
    yield
    is_drawn = crc32(request.node.nodeid.encode()) % _ONE_TEST_VERIFIED_IN == 0
    if "unverified" in request.keywords or not (is_drawn or request.config.option.verify_all):
        verified_fits.forget()
        return
    failures = verified_fits.failures()
    if failures:
        pytest.fail("\n".join(failures), pytrace=False)


@pytest.fixture
def no_sparse_row_coordinates(monkeypatch):
    """Sparse rows of many features are fitted by products with them, however few they are."""
    monkeypatch.setattr("fairspan.moments.compute.MAX_SQUARED_SPARSE_RATIO", 0)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter):
    """Print the CPU time of the run, and requirements of the skipped tests."""
    times = os.times()
    seconds = times.user + times.system + times.children_user + times.children_system
    terminalreporter.write_line(f"{seconds:.0f} CPU seconds in all processes")
    reasons = Counter(report.longrepr[2] for report in terminalreporter.getreports("skipped"))
    if reasons:
        terminalreporter.write_line(describe_skips(reasons))


def describe_skips(reasons):
    """Return one line with the requirements of the skipped tests."""
    packages = set()
    n_without_data = 0
    others = []
    for reason, n_tests in reasons.items():
        if match := _MISSING_PACKAGE.search(reason):
            packages.add(match[1])
        elif "FAIRSPAN_DATA" in reason:
            n_without_data += n_tests
        else:
            others.append(f"{reason.removeprefix('Skipped: ')} ({n_tests})")
    parts = [f"{sum(reasons.values())} tests were skipped"]
    if packages:
        parts.append(f"to run more: .venv/bin/uv pip install {' '.join(sorted(packages))}")
    if n_without_data:
        parts.append(f"{n_without_data} need data: set FAIRSPAN_DATA to the folder that has them")
    return "; ".join(parts + others)
