"""Every test can be run again with another way through the library: `--path projected`.

What "auto" would choose depends on the number of features, and most tests have few.
"""

import pytest

from fairspan.solvers import eigen_path

PATHS = ("auto", "projected")


def pytest_addoption(parser):
    parser.addoption(
        "--path", choices=PATHS, default="auto", help="how problems are solved where auto decides"
    )


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "counts: of the eigenproblems that the dense path solves; others take more"
    )
    if config.getoption("--path") == "projected":
        eigen_path.pays = lambda problem, tolerance: eigen_path.proves(problem)


def pytest_collection_modifyitems(config, items):
    if config.getoption("--path") == "auto":
        return
    for item in items:
        if "counts" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="counts eigenproblems of the dense path"))
