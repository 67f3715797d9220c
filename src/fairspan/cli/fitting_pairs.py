"""Fit of two tables by a command: the columns of Y are named by --targets."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click

from fairspan.certificates.status import shown_status
from fairspan.cli.command import usage_error_if
from fairspan.cli.inputs import InputData, open_input
from fairspan.cli.option_values import AuditOptions, FitOptions, PairOptions, ReadOptions
from fairspan.cli.printed_results import table_text
from fairspan.cross_decomposition.audited_pairs import read_pairs
from fairspan.cross_decomposition.covariance_audit import (
    AuditLevels,
    CovarianceAudit,
    audit_folded_rows,
    observed_losses,
)
from fairspan.cross_decomposition.covariance_of_rows import fold_rows
from fairspan.cross_decomposition.fair_pls import FairCCA, FairPLS
from fairspan.cross_decomposition.joined_tables import JoinedRows
from fairspan.cross_decomposition.paired_subspace import PairedSubspace
from fairspan.cross_decomposition.paired_verification import verify_pairs
from fairspan.errors import InvalidInput
from fairspan.formatting.names import readable_name
from fairspan.formatting.terminal import output_width, wrap_text
from fairspan.registry import ExternalObject
from fairspan.rows.folds import Folds
from fairspan.rows.labels import format_list
from fairspan.verification.verification_result import Verification

# Names of the criteria of one table, as --criterion has them, and of two tables.
_CRITERIA = {
    "minimax_loss": "minimax_loss",
    "total_error": "total_covariance",
    "nash_welfare": "nash_welfare",
}
_DEFAULT_DIMENSIONS = 2
# Seed of folds and solvers, so that commands are reproducible.
_SEED = 0


@dataclass(frozen=True, eq=False)
class PairedResult:
    """Result of a fit of two tables.

    Attributes
    ----------
    pair : PairedSubspace
    audit : CovarianceAudit
    """

    pair: PairedSubspace
    audit: CovarianceAudit

    def to_dict(self, model: Path) -> dict[str, Any]:
        """Return the results for JSON."""
        certificate = self.pair.certificate
        return {
            "model": str(model),
            "x": list(self.pair.x.feature_names or ()),
            "y": list(self.pair.y.feature_names or ()),
            "certificate": {
                "criterion": certificate.statement.criterion.name,
                "objective": certificate.objective,
                "lower_bound": certificate.lower_bound,
                "gap": certificate.gap,
                "relative_gap": certificate.relative_gap,
                "status": str(certificate.status),
                "resolution": certificate.assessment.resolution,
                "weights": certificate.weights.tolist(),
            },
            "level": self.audit.level,
            "materiality": self.audit.materiality,
            "losses": self.audit.to_records(),
        }

    def to_text(self, model: Path) -> str:
        """Return the results for standard output."""
        certificate = self.pair.certificate
        table = self.audit.table()
        width = output_width(sys.stdout)
        proof = (
            f"Certificate: {readable_name(certificate.statement.criterion.name)} is "
            f"{certificate.objective:.6g}; no pair of subspaces is below "
            f"{certificate.lower_bound:.6g} (gap {certificate.gap:.1e})."
        )
        status = (
            f"Status: {shown_status(certificate.assessment.status_text)}: {certificate.message}."
        )
        notes = [line for note in table.notes for line in wrap_text(str(note), width)]
        return "\n".join(
            [
                table_text(table),
                "",
                *notes,
                "",
                *wrap_text(proof, width),
                *wrap_text(status, width),
                f"Saved to {model}",
            ]
        )


def fit_two_tables(
    data: Path | ExternalObject,
    read_options: ReadOptions,
    fit_options: FitOptions,
    pair_options: PairOptions,
    audit_options: AuditOptions,
) -> PairedResult:
    """Fit a pair of subspaces, and audit it with the ordinary one.

    Raises
    ------
    click.UsageError
        An option that applies to one table only.
    FairspanError
        Invalid rows or settings.
    """
    _check_options(fit_options, audit_options)
    model = _make_estimator(fit_options, pair_options)
    table = open_input(data, read_options, audit_options.clusters)
    source = table.moments if table.row_source is None else table.row_source
    targets = matching_columns(source.feature_names, pair_options.targets)
    moments = table.moments
    model.fit_moments(moments, targets)
    pair = model.subspace_
    levels = AuditLevels(audit_options.level, audit_options.materiality)
    folds = audit_options.folds
    if table.row_source is None or not folds:
        audit = observed_losses(read_pairs(pair), model.moments_, pair.y.n_features, levels)
        return PairedResult(pair, audit)
    joined = _joined_rows(table, pair)
    rows = fold_rows(joined, Folds(folds, seed=_SEED))
    return PairedResult(pair, audit_folded_rows(read_pairs(pair), rows, levels))


def _check_options(fit_options: FitOptions, audit_options: AuditOptions) -> None:
    """Raise a usage error for options that a fit of two tables does not have."""
    usage_error_if(
        isinstance(fit_options.n_components, float),
        "-d is a number of dimensions with --targets, not a share.",
    )
    for name, is_used in (
        ("--nested", fit_options.nested),
        ("--allow-extra", fit_options.allow_extra),
        ("--rotation", fit_options.rotation is not None),
        ("--solver-param", fit_options.solver_parameters),
        ("--repeats", audit_options.repeats > 1),
    ):
        usage_error_if(is_used, f"{name} does not apply to two tables: omit it, or --targets.")
    usage_error_if(
        fit_options.criterion not in _CRITERIA,
        f"--criterion {fit_options.criterion} does not apply to two tables; use one of "
        f"{', '.join(_CRITERIA)}.",
    )
    unknown = set(fit_options.criterion_parameters) - {"relative"}
    usage_error_if(
        unknown or (fit_options.criterion_parameters and fit_options.criterion != "minimax_loss"),
        "The only --param of two tables is relative=yes, with --criterion minimax_loss.",
    )


def _make_estimator(fit_options: FitOptions, pair_options: PairOptions) -> FairPLS | FairCCA:
    """Return the estimator that the options describe."""
    from fairspan.problem.restrictions.restriction_catalog import get_restriction

    criterion = _CRITERIA[str(fit_options.criterion)]
    if fit_options.criterion_parameters.get("relative"):
        criterion = "minimax_relative_loss"
    n_components = fit_options.n_components
    settings: dict[str, Any] = {
        "n_components": _DEFAULT_DIMENSIONS if n_components is None else n_components,
        "criterion": criterion,
        "restriction": get_restriction(
            fit_options.restriction, **fit_options.restriction_parameters
        ),
        "center": fit_options.center,
        "scale": fit_options.standardize,
        "solver": fit_options.solver,
        "tol": fit_options.tol,
        "random_state": _SEED,
    }
    if pair_options.method == "cca":
        return FairCCA(regularization=pair_options.regularization, **settings)
    usage_error_if(pair_options.regularization, "--regularization requires --method cca.")
    return FairPLS(**settings)


def matching_columns(names: Sequence[str] | None, patterns: Sequence[str]) -> list[str]:
    """Return the columns that match any of the patterns, in the order of the data.

    Raises
    ------
    InvalidInput
        The columns have no names, a pattern matches none of them, or all are matched.
    """
    available = list(names or ())
    for pattern in patterns:
        if any(fnmatchcase(name, pattern) for name in available):
            continue
        shown = format_list(available) if available else "none: the columns have no names"
        raise InvalidInput(
            f"--targets {pattern} matches no column",
            f"Allowed: names or patterns of the features, {shown}",
            "Check the spelling, and that the columns are not excluded",
        )
    matching = [
        name for name in available if any(fnmatchcase(name, pattern) for pattern in patterns)
    ]
    if len(matching) == len(available):
        raise InvalidInput(
            f"--targets {' --targets '.join(patterns)} matches every column",
            f"Allowed: some of the features, {format_list(available)}; the others are the first "
            "table",
            "Leave at least two columns to each table",
        )
    return matching


def _joined_rows(table: InputData, pair: PairedSubspace) -> JoinedRows:
    """Rows of both tables, with the columns of Y behind those of X."""
    names = (*(pair.x.feature_names or ()), *(pair.y.feature_names or ()))
    rows = table.rows("auditing").select_features(names)
    return JoinedRows(rows, pair.y.n_features, reserved_columns=())


def verify_pair_of_file(
    model: Path, data: Path | ExternalObject, read_options: ReadOptions
) -> Verification:
    """Verify a saved pair of subspaces with its training rows, or their moments."""
    pair = PairedSubspace.load(model)
    names = None
    if pair.x.feature_names is not None and pair.y.feature_names is not None:
        names = (*pair.x.feature_names, *pair.y.feature_names)
    table = open_input(data, read_options).select_features(names)
    return verify_pairs(pair, table.moments.select_named_features(names))


def check_overwriting_pair(path: Path) -> None:
    """Raise a usage error if the output exists and is not a pair of subspaces."""
    from fairspan.cross_decomposition.file_kind import PAIRED_FILE
    from fairspan.storage.archive import peek_kind

    if not path.is_file() or path.stat().st_size == 0:
        return
    if peek_kind(path) != PAIRED_FILE.name:
        raise click.UsageError(
            f"{path} is not a model of two tables; overwrite it with --force, or choose another "
            "path."
        )
