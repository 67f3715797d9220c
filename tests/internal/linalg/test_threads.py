"""Limits on the threads of linear algebra: inside, outside, and from several threads of Python."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import numpy as np
import pytest
import threadpoolctl

from fairspan import FairPCA
from fairspan.linalg.threads import limit_blas_threads, map_in_threads


def libraries():
    return threadpoolctl.ThreadpoolController().select(user_api="blas")


def thread_counts():
    """Return the number of threads that each library of linear algebra may use now."""
    return [library["num_threads"] for library in libraries().info()]


@pytest.fixture(autouse=True)
def _two_threads():
    for library in libraries().lib_controllers:
        # Tests before these may have left it to a thread of theirs to set limits.
        getattr(library, "clear_controlling_thread", lambda *, force: None)(force=True)
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        if thread_counts() != [2] * len(thread_counts()):
            pytest.skip("no library of linear algebra has two threads")
        yield


def call_in_thread(function):
    """Call a function in another thread of Python and return its result."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result(60)


def limited_counts(package):
    with limit_blas_threads(package):
        return thread_counts()


def test_inside_a_limit_there_is_one_thread_or_those_of_one_package():
    assert set(limited_counts(None)) == {1}
    assert sorted(limited_counts("numpy")) in ([2], [1, 2])
    with limit_blas_threads(None):
        assert 2 in limited_counts("scipy")
        assert set(thread_counts()) == {1}
    assert set(thread_counts()) == {2}


def test_a_limit_holds_in_any_thread_of_python():
    np.ones((200, 200)) @ np.ones((200, 200))
    limited_counts(None)
    assert set(call_in_thread(lambda: limited_counts(None))) == {1}
    assert set(thread_counts()) == set(call_in_thread(thread_counts)) == {2}


def test_while_two_threads_compute_each_of_them_is_alone():
    second_is_inside = Event()
    first_has_left = Event()
    counts_in_threads = []

    def second():
        with limit_blas_threads("numpy"):
            second_is_inside.set()
            assert first_has_left.wait(60)
            counts_in_threads.append(thread_counts())

    with ThreadPoolExecutor(1) as pool:
        with limit_blas_threads("numpy"):
            running = pool.submit(second)
            assert second_is_inside.wait(60)
            counts_in_threads.append(thread_counts())
        first_has_left.set()
        running.result(60)
    assert set(counts_in_threads[0]) == {1}
    assert 2 in counts_in_threads[1]  # it is alone then
    assert set(thread_counts()) == {2}


def test_items_are_done_side_by_side_unless_somebody_else_computes():
    # Each waits for the other, so that one after the other would never end.
    barrier = Barrier(2, timeout=60)
    assert sorted(map_in_threads(lambda item: (barrier.wait(), item)[1], [1, 2])) == [1, 2]
    threads = set()

    def run_nested(item):
        return map_in_threads(
            lambda number: threads.add(tuple(thread_counts())) or number, [item, -item]
        )

    assert map_in_threads(run_nested, [3, 4]) == [[3, -3], [4, -4]]
    assert {number for counts in threads for number in counts} == {1}


def test_a_thread_that_fails_fails_the_call_and_leaves_the_limits():
    with pytest.raises(ZeroDivisionError):
        map_in_threads(lambda number: 1 / number, [1, 0, 2])
    assert set(thread_counts()) == {2}


def test_fits_side_by_side_agree_with_one_after_the_other():
    rng = np.random.default_rng(0)
    tables = [(rng.standard_normal((300, 12)), rng.integers(0, 3, 300)) for _ in range(8)]

    def components(table):
        return FairPCA(3).fit(table[0], sensitive_features=table[1]).components_

    with ThreadPoolExecutor(8) as pool:
        concurrent_fits = list(pool.map(components, tables))
    for one, table in zip(concurrent_fits, tables, strict=True):
        np.testing.assert_array_equal(one, components(table))
    assert set(thread_counts()) == {2}
