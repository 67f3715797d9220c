"""Monitor: looks at a saved model on new rows, with one level for all of them."""

import datetime
import os
from dataclasses import replace
from pathlib import Path

from fairspan.auditing.estimation_options import EstimationOptions
from fairspan.auditing.evaluation import evaluate_on_rows
from fairspan.auditing.intervals import DEFAULT_LEVEL, level_of_look
from fairspan.auditing.models import AuditedModel, known_labels_of, read_model, restriction_columns
from fairspan.errors import (
    Cause,
    IncompatibleParameters,
    InvalidInput,
    InvalidParameter,
    caller_remedies,
)
from fairspan.model.subspace import FairSubspace
from fairspan.monitoring.history import History, check_date, hash_model
from fairspan.monitoring.look import Look
from fairspan.rows.aggregation import Rows
from fairspan.rows.blocks import OnMissing
from fairspan.rows.group_limit import GroupLimit
from fairspan.rows.opening import match_groups, open_rows, row_remedies
from fairspan.typing import LabelsLike, TableLike, WeightsLike

# Name of the model in errors about it.
_MODEL_NAME = "watched model"
# Folds in which clusters are kept together for their standard errors, as in audits.
_N_FOLDS = 10


class Monitor:
    """Watch a fitted model on new rows, without an end date.

    Each look compares the error of each group with its error at the fit. Look t uses the level 1 -
    alpha / (t (t + 1)), so that the probability of any false alarm, in any group at any look, is at
    most alpha = 1 - `level`, however long the model is watched.

    Parameters
    ----------
    model : FairPCA, FairSubspace, or path of a saved one
        With a certificate, which records the errors at the fit.
    history : path, optional
        JSON file of the looks so far. It is read if it exists, and replaced atomically after each
        look. Without it, looks are kept in memory only.
    level : float, optional
        Confidence level of all looks together, above 0.5 and below 1; by default that of the
        history, or 0.95.

    Attributes
    ----------
    history : History
        Looks so far.

    Raises
    ------
    IncompatibleParameters
        The model has no certificate.
    InvalidInput
        The history is that of another model.
    InvalidParameter
        The level is out of range, or not that of the history.
    CorruptFile
        The history is damaged.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA, Monitor
    >>> def rows(seed, spread=1.0):
    ...     rng = np.random.default_rng(seed)
    ...     groups = rng.choice(["new", "old"], 2000)
    ...     X = rng.standard_normal((2000, 4)) * [3, 2, 1, 1]
    ...     X[groups == "old", 3] *= spread
    ...     return X, groups
    >>> X, groups = rows(0)
    >>> monitor = Monitor(FairPCA(2).fit(X, sensitive_features=groups))
    >>> monitor.add(*rows(1), date="2026-01-31").alarms
    ()
    >>> monitor.add(*rows(2, spread=1.5), date="2026-02-28").alarms
    ('old',)
    >>> print(monitor.history.conclusion.split(". ")[0])
    Look 2 (2026-02-28): the error of 'old' has risen beyond chance
    """

    history: History

    def __init__(
        self,
        model: object,
        history: str | os.PathLike[str] | None = None,
        *,
        level: float | None = None,
    ) -> None:
        subspace = FairSubspace.from_model(model)
        if subspace.certificate is None:
            raise IncompatibleParameters(
                f"Monitor received {subspace!r}, which has no certificate",
                "Allowed: models fitted by FairPCA, whose certificate records the errors at the "
                "fit",
                "Fit a FairPCA",
            )
        _check_level(level)
        # A model that carries its moments would be compared with ordinary PCA.
        self._model = read_model(_MODEL_NAME, subspace)
        self._path = None if history is None else Path(history)
        self.history = History.from_model(subspace, DEFAULT_LEVEL if level is None else level)
        if self._path is not None and self._path.exists():
            self.history = self._load(self._path, level)

    def _load(self, path: Path, level: float | None) -> History:
        """Read the history, and check that it is that of this model and level."""
        history = History.load(path)
        if history.model_sha256 != hash_model(self._model.subspace):
            raise InvalidInput(
                f"{path} is the history of another model, of {history.problem}",
                "Allowed: the history of this fitted model, or a file that does not exist yet",
                "Name another history; a model that was fitted again starts a new one",
            )
        if level is not None and level != history.level:
            raise InvalidParameter(
                f"level is {level!r}, but {path} has looks at the level {history.level!r}",
                "Allowed: the level of the history, of which earlier looks have spent a part",
                "Omit the level, or start another history",
            )
        return history

    def add(
        self,
        X: TableLike,
        sensitive_features: LabelsLike = None,
        *,
        date: str | datetime.date | None = None,
        sample_weight: WeightsLike = None,
        clusters: LabelsLike = None,
        on_missing: OnMissing = "error",
        force: bool = False,
    ) -> Look:
        """Look at new rows, and add the look to the history.

        Parameters
        ----------
        X : (n, p) table of finite numbers
            Rows that the model was not fitted to, in any form that `FairPCA.fit` accepts.
        sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
        date : str or datetime.date, optional
            Date of the rows, as YYYY-MM-DD; by default today.
        sample_weight : (n,) array-like, or column name of X, optional
        clusters : (n,) array-like, or column name of X, optional
            Cluster of each row, such as its customer; intervals are then those of clusters.
        on_missing : {"error", "drop", "em", "em-drop-empty"}
            Treatment of rows in which a feature or the group is missing.
        force : bool
            Accept rows that the history has a look at already.

        Returns
        -------
        Look
            With the groups whose error has risen, `alarms`.

        Raises
        ------
        InvalidInput
            Invalid rows, rows of the fit, or rows that the history has a look at already. The
            history stays as it was.
        UnknownGroup
            A group that the model was not fitted on.
        """
        with caller_remedies(row_remedies(X, "Monitor.add(..., {})")):
            rows = open_rows(
                X,
                sensitive_features,
                clusters=clusters,
                sample_weight=sample_weight,
                on_missing=on_missing,
                attributes=restriction_columns(self._model.subspace),
            )
            rows = match_groups(rows, known_labels_of(self._model.subspace))
            return self.add_rows(rows, date, has_clusters=clusters is not None, force=force)

    def add_rows(
        self,
        rows: Rows,
        date: str | datetime.date | None = None,
        *,
        has_clusters: bool = False,
        force: bool = False,
    ) -> Look:
        """Look at rows that are open already, and add the look to the history.

        Parameters and errors are those of :meth:`add`.
        """
        checked_date = check_date(date)
        number = len(self.history.looks) + 1
        level = level_of_look(self.history.level, number)
        look = _look_at(self._model, rows, number, checked_date, level, has_clusters=has_clusters)
        earlier = self.history.find_same_rows(look)
        if earlier is not None and not force:
            raise InvalidInput(
                "These rows have the same moments as those of look "
                f"{earlier.number} ({earlier.date})",
                "Allowed: new rows in each look",
                "Check which rows were passed, or pass force=True to add them again",
                cause=Cause.REPEATED_ROWS,
            )
        self._append(look)
        return look

    def _append(self, look: Look) -> None:
        """Add a look to the history, and to its file unless another process has changed that."""
        history = replace(self.history, looks=(*self.history.looks, look))
        if self._path is not None:
            if self._path.exists() and History.load(self._path) != self.history:
                raise InvalidInput(
                    f"{self._path} has changed since it was read",
                    "Allowed: one process at a time that adds looks to a history",
                    "Make a new Monitor, which reads it again",
                )
            history.save(self._path)
        self.history = history


def _look_at(
    model: AuditedModel,
    rows: Rows,
    number: int,
    date: str,
    level: float,
    *,
    has_clusters: bool,
) -> Look:
    """Evaluate the model on rows, and return the figures of the look.

    Raises
    ------
    InvalidInput
        The rows are those of the fit, or overlap with them.
    """
    names = model.subspace.feature_names
    if names is not None:
        rows = rows.select_features(names)
    # Clusters are kept together in folds; without them, no folds are needed.
    folds = _N_FOLDS if has_clusters else None
    options = EstimationOptions(folds=folds, level=level, has_clusters=has_clusters)
    limit = GroupLimit(None, n_fitted_groups=len(model.training_groups))
    (result,) = evaluate_on_rows([model], rows, None, limit, options).results
    if result.refit_bound is None:
        raise InvalidInput(
            "These rows are those of the fit, or overlap with them",
            "Allowed: rows that the model was not fitted to, whose errors tell of new rows",
            "Pass rows that came after the fit",
        )
    return Look.from_result(result, number, date, level)


def _check_level(level: object) -> None:
    if level is None:
        return
    is_number = isinstance(level, int | float) and not isinstance(level, bool)
    if not is_number or not 0.5 < float(level) < 1:  # type: ignore[arg-type]
        raise InvalidParameter(
            f"level is {level!r}",
            "Allowed: a number above 0.5 and below 1",
            "Use the default, 0.95",
        )
