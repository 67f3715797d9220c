"""The tables of the audit page, made of its facts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairspan.formatting.names import called, settings, sharers, spoken
from fairspan.formatting.numbers import change, count, interval, number, relative, share, whole
from fairspan.report.page.lookups import Facts, plain_of, rounding_of, sharing_largest
from fairspan.report.page.table import Cell, Heading, Row, Table

# As a share of the total variance: less than fits resolve.
_SAME = 1e-9


def of_groups(facts: Facts) -> Table:
    """How many rows and how much variance each group has."""
    about = facts["data"]
    rows = [
        Row(
            _named(group["group"]),
            (
                Cell(whole(group["n"]), group["n"]),
                Cell(share(group["proportion"]), group["proportion"]),
                _figure(group["total_variance"]),
            ),
        )
        for group in about["groups"]
    ]
    headings = ("group", "rows", "share of the weight" if about["weighted"] else "share")
    return Table("The groups", _headings(*headings, "total variance"), tuple(rows))


def of_plain(facts: Facts) -> Table:
    """What PCA does to each group."""
    model = plain_of(facts)
    rows = [
        Row(
            _named(group["group"]),
            (
                _estimate(group["error"], group["error_low"], group["error_high"]),
                _figure(group["best_error"]),
                _figure(group["excess_loss"]),
                Cell(relative(_relative(group)), _relative(group)),
                _share(group["variance_kept"]),
            ),
        )
        for group in model["groups"]
    ]
    headings = ("group", "error", "best possible", "excess loss", "loss / best", "variance kept")
    total = Row(_named("all rows"), (_figure(model["total_error"]), *[Cell("")] * 4))
    caption = f"PCA with {count(facts['settings']['n_components'], 'dimension')}"
    return Table(caption, _headings(*headings), tuple(rows), (total,))


def of_criteria(facts: Facts) -> Table:
    """What each criterion changes and costs: two groups in full, of more the worst."""
    models = facts["models"]
    groups = [group["group"] for group in models[0]["groups"]]
    both = len(groups) == 2
    rows = [
        Row(
            Cell(_title(model), spoken(model["name"]), model["asks"]),
            (
                *(_figures(model, "error") if both else ()),
                *(_figures(model, "excess_loss") if both else _worst(model)),
                _disparity(model),
                Cell(
                    change(model["total_change"]),
                    model["total_change"],
                    number(model["total_error"]),
                ),
                _status(model),
            ),
            model["is_main"],
        )
        for model in models
    ]
    figures = (
        [Heading(what, called(name)) for what in ("error,", "loss,") for name in groups]
        if both
        else [Heading("largest loss"), Heading("of", is_text=True)]
    )
    headings = (
        Heading("criterion", is_text=True),
        *figures,
        Heading("disparity"),
        Heading("error over all rows"),
        Heading("status", is_text=True),
    )
    return Table("Ordinary PCA and each fair criterion", headings, tuple(rows))


def of_groups_by_model(facts: Facts, what: str, caption: str) -> Table:
    """One figure of every group under every model."""
    models = facts["models"]
    rows = [
        Row(
            _named(group["group"]),
            tuple(_figure(model["groups"][g][what]) for model in models),
        )
        for g, group in enumerate(models[0]["groups"])
    ]
    return Table(
        caption, _headings("group", *(spoken(model["name"]) for model in models)), tuple(rows)
    )


def of_certificates(facts: Facts) -> Table:
    """Objective and bound of every model."""
    rows = []
    for model in facts["models"]:
        proof = model["certificate"]
        cells = (
            _figure(proof["objective"]),
            _figure(proof["lower_bound"]),
            _figure(proof["gap"]),
            _figure(proof["tolerance"]),
            _status(model),
            Cell(spoken(proof["solver"]), proof["solver"]),
            Cell(whole(proof["n_eigenproblems"]), proof["n_eigenproblems"]),
        )
        rows.append(Row(Cell(_title(model), spoken(model["name"])), cells, model["is_main"]))
    headings = (
        *_headings("criterion", "objective", "lower bound", "gap", "tolerance"),
        Heading("status", is_text=True),
        Heading("solver", is_text=True),
        Heading("eigenproblems"),
    )
    return Table("Certificates", headings, tuple(rows))


def of_steps(facts: Facts, labels: Sequence[str]) -> Table:
    """Every step of the walk: two groups in full, of more the worst."""
    groups = [called(group["group"]) for group in facts["data"]["groups"]]
    both, rounding = len(groups) == 2, rounding_of(facts)
    rows = []
    for label, point in zip(labels, facts["steps"]["points"], strict=True):
        errors = [each if each > rounding else 0.0 for each in point["errors"]]
        losses, total = point["losses"], point["total_error"]
        figures = (
            [*map(_figure, errors), *map(_figure, losses)]
            if both
            else [*_largest(errors, groups), *_largest(losses, groups)]
        )
        rows.append(Row(_named(label), (*figures, _figure(total if total > rounding else 0.0))))
    figures_of = [
        each
        for what in ("error", "loss")
        for each in (
            [Heading(f"{what},", name) for name in groups]
            if both
            else [Heading(f"largest {what}"), Heading("of", is_text=True)]
        )
    ]
    headings = (Heading("step", is_text=True), *figures_of, Heading("error over all rows"))
    return Table("All steps", headings, tuple(rows))


def _headings(first: str, *others: str) -> tuple[Heading, ...]:
    return (Heading(first, is_text=True), *map(Heading, others))


def _named(name: str) -> Cell:
    return Cell(called(name), name)


def _title(model: Facts) -> str:
    """The model's name, and its parameters where the name does not tell them."""
    told = settings(model["parameters"])
    name = spoken(model["name"])
    return name if not told or "(" in name else f"{name} ({told})"


def _figure(value: float | None) -> Cell:
    return Cell(number(value), value)


def _share(value: float | None) -> Cell:
    return Cell(share(value), value)


def _estimate(value: float, low: float | None, high: float | None) -> Cell:
    return Cell(number(value), value, interval(low, high))


def _disparity(model: Facts) -> Cell:
    value, low, high = (model["disparity"][each] for each in ("value", "low", "high"))
    is_none = abs(value) <= _SAME * model["certificate"]["total_variance"]
    return _estimate(0.0 if is_none else value, low, high)


def _figures(model: Facts, what: str) -> Iterable[Cell]:
    return (_figure(group[what]) for group in model["groups"])


def _worst(model: Facts) -> Sequence[Cell]:
    groups = model["groups"]
    names = [called(group["group"]) for group in groups]
    return _largest([group["excess_loss"] for group in groups], names)


def _largest(values: Sequence[float], groups: Sequence[str]) -> Sequence[Cell]:
    largest = max(values)
    whose = sharers(groups, sharing_largest(values)) if largest > 0 else number(None)
    return _figure(largest), _named(whose)


def _status(model: Facts) -> Cell:
    status = model["certificate"]["status"]
    return Cell("proven" if status == "optimal" else status, status)


def _relative(group: Facts) -> float | None:
    best = group["best_error"]
    return group["excess_loss"] / best if best > 0 else None
