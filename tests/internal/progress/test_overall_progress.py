"""Progress over several stages, and the lines that say how far it is where no terminal is."""

import re

import fairspan as fs
from fairspan import progress
from fairspan.progress import overall_progress, track


def test_stages_that_are_repeated_are_never_more_than_nearly_all(capfd, monkeypatch):
    monkeypatch.setattr(progress, "_LINE_INTERVAL", 0)
    with fs.show_progress(), overall_progress("making a page", reading=1, drawing_it=3):
        for _ in range(5):
            list(track("reading", range(2)))
        list(track("drawing it", range(10)))
    message = r"fairspan: making a page: (\d+) %, about \d+ s left \("
    percentages = [int(re.match(message, line)[1]) for line in capfd.readouterr().err.splitlines()]
    assert percentages[:3] == [12, 25, 38]
    assert percentages == sorted(percentages)
    assert percentages[-1] == 95


def test_lines_come_every_ten_seconds_over_all_steps(capfd, monkeypatch):
    """Eight steps of five seconds: the clock is read as each begins, and after each of four."""
    seconds = iter(range(100))
    monkeypatch.setattr(progress, "monotonic", lambda: float(next(seconds)))
    with fs.show_progress():
        for _ in range(8):
            assert len(list(track("counting", range(4), "things"))) == 4
    lines = capfd.readouterr().err.splitlines()
    assert lines == [lines[0]] * 4
    assert "counting: 4 of 4 things, about 0 s" in lines[0]
