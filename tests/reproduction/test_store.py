"""Steps that are done stay done, whatever happens to the process or the file."""

import pytest

from reproduction.store import Store

HEADER = {"experiment": "toy", "seed": 0}


def never():
    raise AssertionError("computed again")


@pytest.fixture
def path(tmp_path):
    """Two steps kept."""
    path = tmp_path / "toy.partial"
    with Store(path, HEADER) as store:
        assert store.get_or_compute("a", lambda: [1 / 3, float("inf")]) == [1 / 3, float("inf")]
        assert store.get_or_compute("b", lambda: {"x": None}) == {"x": None}
    return path


def test_what_was_kept_is_not_computed_again(path):
    with Store(path, HEADER) as store:
        assert store.n_resumed == 2
        assert store.get_or_compute("a", never) == [1 / 3, float("inf")]
        assert store.get_or_compute("b", never) == {"x": None}
        store.get_or_compute("c", lambda: 3)
    with Store(path, HEADER) as store:
        assert store.get_or_compute("c", never) == 3


@pytest.mark.parametrize("n", range(1, 25))
def test_a_last_line_that_was_cut_off_is_dropped(path, n):
    whole = path.read_bytes()
    path.write_bytes(whole[:-n])
    with Store(path, HEADER) as store:
        assert store.n_resumed == 1
        assert store.get_or_compute("a", never) == [1 / 3, float("inf")]
        assert store.get_or_compute("b", lambda: {"x": None}) == {"x": None}
    assert path.read_bytes() == whole


def test_what_follows_a_spoilt_line_is_dropped(path):
    header, first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(header + first.replace(b"key", b"k{y") + second)
    with Store(path, HEADER) as store:
        assert store.n_resumed == 0
        store.get_or_compute("b", lambda: 4)
    assert path.read_bytes() == header + b'{"key": "b", "value": 4}\n'


def test_another_header_starts_over_and_says_so(path):
    told = []
    with Store(path, {**HEADER, "seed": 1}, told.append) as store:
        assert store.n_resumed == 0
        assert store.get_or_compute("a", lambda: 5) == 5
    assert len(told) == 1
    assert "starting over" in told[0]


def test_a_step_that_fails_is_not_kept(path):
    with pytest.raises(ZeroDivisionError), Store(path, HEADER) as store:
        store.get_or_compute("c", lambda: 1 / 0)
    with Store(path, HEADER) as store:
        assert store.n_resumed == 2
        assert "c" not in store
