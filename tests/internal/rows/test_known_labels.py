"""Labels of a model that two labels of the rows equal as text."""

from fairspan.extending import CodedLabels
from fairspan.rows.label_matching import KnownLabels


def test_one_text_of_two_labels_matches_neither():
    known_labels = KnownLabels.from_groups(["1", "1.0"])
    assert known_labels.match(CodedLabels.from_labels([1.0, 2.0])).to_list() == [1.0, 2.0]
    mixed = CodedLabels.from_labels([1, "1"])
    assert KnownLabels.from_groups([1, 2]).match(mixed) is mixed
