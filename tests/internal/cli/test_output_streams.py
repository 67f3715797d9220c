"""Width and colors of the stream that a command writes to."""

import io
import os
import re

import pytest

from fairspan.cli.command_terminal import painter_for
from fairspan.formatting.terminal import output_width

COLOR = re.compile(r"\x1b\[[\d;]*m")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_streams_that_have_no_size_take_80_columns(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert output_width(io.StringIO()) == output_width(Terminal()) == 80
    assert painter_for(io.StringIO())("text", "worst") == "text"
    assert COLOR.sub("", painter_for(Terminal())("text", "worst")) == "text"


@pytest.mark.parametrize(("columns", "width"), [(0, 80), (1, 1), (60, 60), (80, 80), (200, 80)])
def test_text_is_as_wide_as_the_terminal_and_80_columns_at_most(columns, width, monkeypatch):
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((columns, 24)))

    wide = Terminal()
    wide.fileno = lambda: 1
    assert output_width(wide) == width
