"""States are defined in the same words in tables, in the glossary and in the guide."""

from pathlib import Path
from typing import get_args

import pytest

from fairspan.auditing.estimates import STATE_MEANINGS, State

DOCS = Path(__file__).parents[3] / "docs"


def test_every_state_has_a_meaning():
    assert set(STATE_MEANINGS) == set(get_args(State))


@pytest.mark.parametrize(("state", "meaning"), STATE_MEANINGS.items())
def test_pages_define_a_state_in_the_same_words(state, meaning):
    glossary = (DOCS / "glossary.md").read_text("utf-8")
    assert f"  - `{state}`: {meaning}.\n" in glossary
    guide = (DOCS / "guide" / "new-rows.md").read_text("utf-8")
    assert f"| `{state}` | {meaning} |" in guide
