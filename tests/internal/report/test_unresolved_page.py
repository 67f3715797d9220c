"""The page claims nothing of an answer that double precision cannot resolve."""

import pytest

from fairspan.report.page import render_sentence
from internal.report.report_objects import make_report
from unresolved_rows import claims_nothing, draw_unresolved_rows


@pytest.mark.slow
def test_the_page_calls_the_answer_unresolved():
    facts = make_report(*draw_unresolved_rows(), 2, compare=[])
    proof = render_sentence("certificate_lead", facts).striptags()
    assert proof.startswith("Unresolved")
    assert "the column" in proof
    assert "Rescale it" in proof
    assert claims_nothing(proof)
    assert "Unresolved" in render_sentence("key_figures", facts)
