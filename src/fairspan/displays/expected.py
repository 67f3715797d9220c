"""What an audit of rows says of an estimator and of ordinary PCA, as pictures take it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from fairspan.auditing.audit import audit_rows
from fairspan.auditing.by_dimension import name_at
from fairspan.auditing.models import read_model
from fairspan.auditing.results import ModelAudit
from fairspan.displays.fitted import criterion_name
from fairspan.rows.protocol import Rows
from fairspan.subspace import FairSubspace
from fairspan.typing import FloatArray

Quantity = Literal["loss", "error"]


@dataclass(frozen=True, eq=False)
class Curve:
    """One kind of figure of every group under several models.

    Attributes
    ----------
    values, best, on_rows : (m, k) arrays
        Expected on new rows, as is the least that any subspace leaves; and those on the rows. NaN
        for a model that is missing, and for a group of too few rows.
    interval : (m, k, 2) array
    states : tuple of m tuples of k str or None
    """

    values: FloatArray
    best: FloatArray
    on_rows: FloatArray
    interval: FloatArray
    states: tuple[tuple[str | None, ...], ...]

    @classmethod
    def of(cls, models: Sequence[ModelAudit | None], n_groups: int, quantity: Quantity) -> "Curve":
        """The figures of models; None for one that is missing."""
        shape = (len(models), n_groups)
        values, best, on_rows = (np.full(shape, np.nan) for _ in range(3))
        interval = np.full((*shape, 2), np.nan)
        states: list[tuple[str | None, ...]] = []
        for i, model in enumerate(models):
            states.append((None,) * n_groups)
            if model is None:
                continue
            for g, group in enumerate(model.groups):
                on_rows[i, g] = group.error.value if quantity == "error" else group.excess_loss
                if group.expected is not None:
                    found = group.expected
                    estimate = found.error if quantity == "error" else found.loss
                    values[i, g], best[i, g] = estimate.value, found.best_error
                    interval[i, g] = estimate.low, estimate.high
            if model.why_no_estimates is None:
                states[i] = tuple(group.state for group in model.groups)
            on_rows[i, np.abs(on_rows[i]) <= model.rounding] = 0.0
        return cls(values, best, on_rows, interval, tuple(states))


def audited_beside_pca(
    estimator: Any, fits: Sequence[Any], plain: Sequence[FairSubspace], rows: Rows
) -> tuple[list[ModelAudit], list[ModelAudit | None]]:
    """Audit fits and ordinary PCA of the same dimensions on rows, all of them in the same passes.

    Parameters
    ----------
    estimator : FairPCA
        That the fits were made from.
    fits : sequence of m FairPCA, or None where there is no answer
    plain : sequence of m FairSubspace
    rows : RowSource or PartedRows
    """
    name = criterion_name(estimator)
    beside = [
        replace(read_model(name_at("PCA", each.dimension), each), is_plain_pca=True)
        for each in plain
    ]
    models = list(beside)
    for fit, pca in zip(fits, beside, strict=True):
        if fit is not None:
            own = read_model(name_at(name, pca.subspace.dimension), fit)
            models.append(replace(own, baseline=pca.name))
    audited = list(audit_rows(models, rows).models)
    of_fits = iter(audited[len(plain) :])
    return audited[: len(plain)], [None if fit is None else next(of_fits) for fit in fits]
