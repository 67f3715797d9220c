"""The tables of the user's models."""

from __future__ import annotations

from fairspan.formatting.names import called
from fairspan.formatting.numbers import count, whole
from fairspan.report.page.columns import (
    Cell,
    Column,
    Table,
    each_of,
    estimates_column,
    figures_column,
    names_column,
    shares_column,
)
from fairspan.report.page.lookups import Facts

_NOT_KNOWN = "carries none"


def of_given(facts: Facts) -> Table:
    """What each model is, and what its certificate says."""
    models = facts["given"]["models"]
    units = ["standardized" if each["standardized"] else "as they came" for each in models]
    proofs = [each["status"] or _NOT_KNOWN for each in models]
    return Table(
        "The models",
        (
            names_column("model", each_of(models, "name")),
            Column("kind", [Cell(each["kind"]) for each in models], is_text=True),
            Column("dimensions", [Cell(whole(n), n) for n in each_of(models, "n_components")]),
            Column("features", list(map(Cell, units)), is_text=True),
            Column("certificate", list(map(Cell, proofs)), is_text=True),
            figures_column("error over all rows", each_of(models, "total_error")),
        ),
    )


def of_given_model(model: Facts) -> Table:
    """What a model does to each group."""
    groups = model["groups"]
    is_estimated = model["why_no_estimates"] is None
    expected = [
        Column("state", [Cell(each["state"] or "cannot tell") for each in groups], is_text=True),
        estimates_column("expected loss", groups, "expected_loss"),
        estimates_column("expected error", groups, "expected_error"),
    ]
    return Table(
        f"{called(model['name'])} with {count(model['n_components'], 'dimension')}",
        (
            names_column("group", each_of(groups, "group")),
            Column("rows", [Cell(whole(n), n) for n in each_of(groups, "n")]),
            *(expected if is_estimated else ()),
            estimates_column("error on these rows", groups, "error"),
            figures_column("best possible", each_of(groups, "best_error")),
            shares_column("variance kept", each_of(groups, "variance_kept")),
        ),
    )
