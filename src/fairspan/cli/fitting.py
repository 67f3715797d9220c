"""Models that are fitted to a table, with what was typed of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from fairspan.auditing.models import Audited, audited_pca, read_model
from fairspan.cli.inputs import Table, tell_dimension
from fairspan.cli.options import Fitting, Value
from fairspan.errors import CorruptFile, UnknownGroup
from fairspan.estimator.fit import Fit, fit_subspace
from fairspan.formatting.names import spoken
from fairspan.moments.group_moments import GroupMoments
from fairspan.problem.posing import criterion_of, restriction_of
from fairspan.rows.groups import Label, listed, spelled
from fairspan.solvers.choose import solver_of
from fairspan.storage import is_archive
from fairspan.subspace import FairSubspace

# Of solvers that start anywhere: the same command gives the same model.
_SEED = 0


def fair_models(
    table: Table, n_components: int | float | None, center: Any, standardize: bool, asked: Fitting
) -> tuple[Fit, list[Audited]]:
    """The fair fit, and what to audit: ordinary PCA beside it."""
    # Settings are looked at before the rows are read.
    criterion_of(asked.criterion, **asked.parameters)
    hide = restriction_of(asked.restriction, **asked.of_restriction)
    solver = solver_of(asked.solver, **asked.of_solver)
    needs_labels = hide is not None and hide.needs_labels
    if needs_labels and table.source is not None and not table.has_labels:
        raise click.UsageError(f"{hide!r} holds in classes of y: name its column, --label COL.")
    dimension = table.check_dimension(n_components)
    moments = table.moments
    fit = fit_subspace(
        moments,
        dimension,
        criterion=criterion_of(asked.criterion, **with_labels(asked.parameters, moments.labels)),
        restriction=restriction_of(
            asked.restriction, **with_classes(asked.of_restriction, moments)
        ),
        center=center,
        scale=standardize,
        solver=solver,
        tol=asked.tol,
        allow_extra=asked.allow_extra,
        nested=asked.nested,
        random_state=_SEED,
    )
    d = fit.problem.n_components
    tell_dimension(n_components, d, moments.n_features, spoken(fit.problem.criterion.name))
    plain = audited_pca(moments, d, center, scale=standardize)
    fair = read_model("fair", fit.subspace)
    return fit, [plain, replace(fair, baseline=plain.name)]


def refuse_replacing(
    path: Path, n_components: int | float | None, center: str, standardize: bool, asked: Fitting
) -> None:
    """Raise a usage error where a file would be replaced that is no model of these settings."""
    if not path.is_file() or path.stat().st_size == 0:
        return
    if not is_archive(path):
        raise click.UsageError(f"{path} is not a model; replace it with --force, or name another.")
    try:
        old = FairSubspace.load(path)
    except CorruptFile:
        raise click.UsageError(
            f"{path} is not a readable model; replace it with --force, or name another."
        ) from None
    provenance = old.provenance
    settings: dict[str, tuple[object, object]] = {
        "criterion": (
            None if provenance is None else provenance.criterion,
            criterion_of(asked.criterion, **asked.parameters).name,
        ),
        "center": (old.center, center),
        "standardize": (old.scale is not None, standardize),
    }
    if isinstance(n_components, int):
        settings["dimensions"] = (old.n_components, n_components)
    for name, (before, now) in settings.items():
        if before != now:
            raise click.UsageError(
                f"{path} holds a model of other settings ({name}: {before}, now {now}); replace "
                "it with --force, or name another."
            )


def with_labels(parameters: Mapping[str, Value], labels: Sequence[Label]) -> dict[str, Any]:
    """The same parameters, with labels in place of the texts that name groups.

    Raises
    ------
    UnknownGroup
    """
    by_text: dict[str, list[Label]] = {}
    for label in labels:
        by_text.setdefault(spelled(label), []).append(label)

    def label_of(key: str, text: str) -> Label:
        matching = by_text.get(text, [])
        if len(matching) == 1:
            return matching[0]
        raise UnknownGroup(
            f"--param {key} names the group {text!r}"
            + (f", which matches {listed(matching)}" if matching else ""),
            f"Allowed: the groups {listed(list(by_text))}",
            "Give groups names that differ when printed" if matching else "Name one of them",
        )

    named: dict[str, Any] = {}
    for key, value in parameters.items():
        if isinstance(value, str):
            named[key] = label_of(key, value)
        elif isinstance(value, dict):
            named[key] = {label_of(key, text): number for text, number in value.items()}
        else:
            named[key] = value
    return named


def with_classes(parameters: Mapping[str, Any], moments: GroupMoments) -> dict[str, Any]:
    """The same parameters of a restriction, with classes of y in place of the texts naming them.

    Texts that name none stay: the restriction says which classes there are.
    """
    given, by_label = parameters.get("given_labels"), moments.by_label
    if not isinstance(given, list) or by_label is None:
        return dict(parameters)
    by_text = {spelled(pair[-1]): pair[-1] for pair in by_label.labels if isinstance(pair, tuple)}
    return {**parameters, "given_labels": [by_text.get(text, text) for text in given]}
