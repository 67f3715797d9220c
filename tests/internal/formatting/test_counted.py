"""Counts with their nouns."""

from fairspan.formatting.messages import counted


def test_counts_have_one_noun_or_many():
    assert counted(1, "row") == "1 row"
    assert counted(1234, "row") == "1,234 rows"
    assert counted(2, "class", "classes") == "2 classes"
