"""The six kinds of verdict, from figures that are set by hand."""

import pytest

from fairspan.auditing.expected_losses import ExpectedFigures
from fairspan.auditing.intervals import Estimate
from fairspan.auditing.results import GroupAudit, ModelAudit
from fairspan.auditing.verdict import changes_of, verdicts_of


def group(name, state, loss=1.0, change=None, n=100):
    around = Estimate(loss, loss - 0.2, loss + 0.2)
    moved = None if change is None else Estimate(change, change - 0.1, change + 0.1)
    expected = ExpectedFigures(Estimate(5.0, 4.5, 5.5), around, loss - 0.1, 4.0, state, 0.0, moved)
    if state == "cannot tell":
        expected = None if change is None else expected
    return GroupAudit(name, n, 0.5, 10.0, Estimate(5.0), 4.0, 1.0, 0.5, expected)


def model(name, *groups, baseline=None):
    labels = tuple(each.group for each in groups)
    return ModelAudit(
        name, 3, "global", False, None, None, baseline is None, True, baseline, labels, groups,
        Estimate(0.0), labels[:2],
    )  # fmt: skip


def verdict(plain, *fair):
    (found,) = verdicts_of(
        [model("fair", *fair, baseline="PCA"), model("PCA", *plain)]
        if fair
        else [model("PCA", *plain)],
        0.95,
    )
    return found


KINDS = [
    (
        [group("a", "harmed"), group("b", "not shown", 0.0)],
        [group("a", "minor", 0.1, -0.9), group("b", "minor", 0.1, 0.3)],
        "harm, and repair helps",
        ["'a' (100 rows) is harmed by PCA", "8.0 % to 12.0 % more of its variance",
         "'a' regains 8.0 % to 10.0 % of its variance", "'b' (100 rows) pays for it, with 3.0 %"],
    ),
    (
        [group("a", "harmed"), group("b", "not shown", 0.0)],
        [group("a", "minor", 0.1, -0.9), group("b", "harmed", 0.8, 0.8)],
        "harm, and repair moves it",
        ["Under fair, 'b' (100 rows) is harmed, whom PCA does not harm beyond chance"],
    ),
    (
        [group("a", "harmed"), group("b", "not shown", 0.0)],
        [group("a", "harmed", 1.0, -0.05), group("b", "not shown", 0.0, 0.0)],
        "harm, and repair does not help",
        ["the error of 'a' is not shown to fall on new rows"],
    ),
    (
        [group("a", "not shown", 0.0), group("b", "minor", 0.05)],
        [group("a", "harmed", 1.0, 1.0), group("b", "minor", 0.05, 0.0)],
        "harm, and repair moves it",
        ["The repair itself does harm: under fair, 'a' (100 rows) is harmed",
         "while PCA is not shown to harm any group."],
    ),
    (
        [group("a", "harmed"), group("b", "harmed", 3.0)],
        [],
        "harm, no repair tried",
        ["'b' (100 rows) is harmed by PCA", "So is 'a' (100 rows)."],
    ),
    (
        [group("a", "cannot tell", n=7), group("b", "not shown", 0.0)],
        [],
        "cannot tell",
        ["These rows are not enough to tell whether PCA harms 'a' (7 rows)."],
    ),
    (
        [group("a", "not shown", 0.0), group("b", "minor", 0.05)],
        [group("a", "not shown", 0.0, 0.0), group("b", "minor", 0.05, 0.0)],
        "no harm shown",
        ["no group has a loss large enough to matter under PCA",
         "The loss of 'b' is above zero but too small"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("plain", "fair", "kind", "words"), KINDS, ids=[k[2] for k in KINDS])
def test_each_kind_says_whom_and_what_to_do(plain, fair, kind, words):
    found = verdict(plain, *fair)
    assert found.kind == kind
    assert found.action.endswith(".")
    for each in words:
        assert each in found.sentence
    assert str(found).startswith(f"{kind[0].upper()}{kind[1:]}. ")


def test_harm_that_the_repair_alone_does_is_said_to_be_its_own():
    """Also where too little is known of PCA: nobody is told to use that."""
    for state in ("not shown", "cannot tell"):
        found = verdict(
            [group("a", state, 0.0), group("b", "not shown", 0.0)],
            group("a", "not shown", 0.0, 0.0),
            group("b", "harmed", 1.0, 1.0),
        )
        assert found.kind == "harm, and repair moves it"
        assert found.groups == ("b",)
        assert found.sentence.startswith("The repair itself does harm: under fair, 'b'")
        assert found.action == "Do not use fair in place of PCA."


def test_the_worst_group_is_named_first_and_decides():
    """By the share of its variance that it loses, not by rows."""
    found = verdict(
        [group("a", "harmed", 1.0), group("b", "harmed", 3.0, n=9_000)],
        group("a", "minor", 0.1, -0.9),
        group("b", "harmed", 3.0, -0.05),
    )
    assert found.kind == "harm, and repair does not help"
    assert found.sentence.startswith("'b' (9,000 rows) is harmed by PCA")


def test_each_model_has_a_verdict_of_its_own():
    plain = model("PCA", group("a", "harmed"), group("b", "not shown", 0.0))
    good = model(
        "good", group("a", "minor", 0.1, -0.9), group("b", "minor", 0.1, 0.2), baseline="PCA"
    )
    bad = model(
        "bad", group("a", "harmed", 1.0, 0.0), group("b", "minor", 0.1, 0.2), baseline="PCA"
    )
    kinds = [(each.model, each.kind) for each in verdicts_of([good, bad, plain], 0.95)]
    assert kinds == [("good", "harm, and repair helps"), ("bad", "harm, and repair does not help")]
    changes = changes_of([good, bad, plain])
    assert [(each["model"], each["group"]) for each in changes] == [
        ("good", "a"), ("good", "b"), ("bad", "a"), ("bad", "b"),
    ]  # fmt: skip
    assert changes[0]["change_low"] == pytest.approx(-1.0)


def test_no_group_is_said_to_lose_more_than_it_has():
    found = verdict([group("a", "harmed", 30.0), group("b", "not shown", 0.0)])
    assert "100.0 % to 100.0 %" in found.sentence


@pytest.mark.parametrize("n_paying", [1, 2])
def test_of_several_groups_that_pay_the_most_is_told(n_paying):
    paid = [0.3, 0.2][:n_paying]
    found = verdict(
        [group("a", "harmed"), *(group(name, "not shown", 0.0) for name in "bc")],
        group("a", "minor", 0.1, -0.9),
        *(group(name, "minor", 0.1, change) for name, change in zip("bc", paid, strict=False)),
        *(group(name, "not shown", 0.0, 0.0) for name in "bc"[n_paying:]),
    )
    told = {
        1: "'b' (100 rows) pays for it, with 3.0 % of the variance.",
        2: "'b', 'c' (200 rows together) pay for it, with 3.0 % of the variance at most.",
    }
    assert told[n_paying] in found.sentence
