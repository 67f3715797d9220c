"""What holds for all tests: every fit is verified, and the way through the library can be changed.

With `--path projected` every test can be run again with another way: what "auto" would choose
depends on the number of features, and most tests have few.
"""

import os
import subprocess
from zlib import crc32

import pytest

import shared_results
from fairspan.solvers.projected import eigen_path
from verified_fits import NotedFits, note_fits

PATHS = ("auto", "projected")
NOTES = NotedFits()


def pytest_addoption(parser):
    parser.addoption(
        "--path", choices=PATHS, default="auto", help="how problems are solved where auto decides"
    )
    parser.addoption(
        "--one-in", type=int, default=1, metavar="N", help="one test in N, others at each commit"
    )


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "counts: of the eigenproblems that the dense path solves; others take more"
    )
    config.addinivalue_line(
        "markers",
        "unverified: fits something that is wrong on purpose, so its fits are not verified",
    )
    config.addinivalue_line(
        "markers", "long: takes more than about two seconds of a core; ./run long runs these"
    )
    config.addinivalue_line(
        "markers",
        "dask_cluster: needs Dask's cluster, of which each process would start one; ./run dask",
    )
    config.addinivalue_line(
        "markers", "sweep: tries a part of its cases; ./run torture runs these with all of them"
    )
    note_fits(NOTES)
    if config.getoption("--path") == "projected":
        eigen_path.pays = lambda problem, tolerance: eigen_path.proves(problem)


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by marks
def pytest_collection_modifyitems(config, items):
    for item in items:
        if "client" in item.fixturenames:
            item.add_marker("dask_cluster")
    _draw(config, items)
    if config.getoption("--path") == "auto":
        return
    for item in items:
        if "counts" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="counts eigenproblems of the dense path"))


def _draw(config, items):
    """Leave one test in so many, drawn by the commit: over the commits each has its turn."""
    one_in = config.getoption("--one-in")
    if one_in == 1:
        return
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True).stdout
    drawn = [item for item in items if crc32(commit + item.nodeid.encode()) % one_in == 0]
    config.hook.pytest_deselected(items=[item for item in items if item not in drawn])
    items[:] = drawn


@pytest.fixture(scope="session", autouse=True)
def _results_are_shared(tmp_path_factory):
    if "PYTEST_XDIST_WORKER" in os.environ and os.name == "posix":
        shared_results.folder = tmp_path_factory.getbasetemp().parent


@pytest.fixture(autouse=True)
def _every_fit_is_verified(request):
    """Fail a test, after its end, if the certificate of something that it fitted does not hold.

    Also what fixtures of a wider scope fitted before it is looked at here.
    """
    yield
    failures, n_passed_over = NOTES.failures()
    if n_passed_over:
        request.node.user_properties.append(("fits that were not verified", n_passed_over))
    if failures and "unverified" not in request.keywords:
        pytest.fail("\n".join(failures), pytrace=False)
