"""The error of each feature in each group, as a map."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fairspan.auditing.audit import Audit, audit_rows
from fairspan.auditing.feature_errors import (
    MAX_FEATURES_SHOWN,
    FeatureErrors,
    compute_feature_errors,
)
from fairspan.auditing.models import read_model
from fairspan.auditing.results import format_group
from fairspan.displays.base import BaseDisplay
from fairspan.displays.components import annotate_cells
from fairspan.displays.records import fitted_moments, objective_name, open_display_rows, values_of
from fairspan.displays.style import (
    Axes,
    add_header,
    available_width,
    label_rows,
    row_figure_size,
    shorten_names,
)
from fairspan.errors import InvalidInput
from fairspan.formatting.text import format_tick, readable_name
from fairspan.registry import check_choice, check_integer
from fairspan.rows.groups import printable

# White where nothing is lost.
_COLORMAP = "Purples"
# Inches of a row, of a group beside the names of features, and of the widest figure.
_ROW_HEIGHT, _GROUP_WIDTH, _MAX_WIDTH = 0.3, 0.9, 12.0
# Share of the width that is left beside the names of features.
_PLOT_WIDTH_SHARE = 0.6


@dataclass(eq=False, repr=False)
class FeatureErrorDisplay(BaseDisplay):
    """Plot the error of each feature in each group under one model, as a heat map.

    Make it with :meth:`from_estimator` or :meth:`from_audit`. The features are those with the
    largest error in any group; the last row is the sum of the others.

    Attributes
    ----------
    errors : FeatureErrors
        Of the features that are shown.
    on_new_rows : bool
        Whether they are those of new rows.
    """

    errors: FeatureErrors
    is_expected: bool = False

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        sensitive_features: Any = None,
        *,
        n_features: int = MAX_FEATURES_SHOWN,
        ax: Any = None,
    ) -> Self:
        """Draw the errors under a fitted estimator.

        Parameters
        ----------
        estimator : FairPCA
            Fitted.
        X : (n, p) table of finite numbers, optional
            Rows of the fit or held-out rows, as `FairPCA.fit` takes them: errors are then those on
            new rows, as in :func:`fairspan.audit`; without them, those on the rows of the fit.
        sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
        n_features : int
            Most features that are shown, the sum of the others included.
        ax : matplotlib Axes, optional
            Where to draw; without it, a new figure is made with pyplot.

        Returns
        -------
        FeatureErrorDisplay

        Raises
        ------
        InvalidType
            The estimator is not a fitted FairPCA.
        InvalidInput
            Rows without groups, or of other features; a table of many thousand features.
        UnknownGroup
            A group that the estimator was not fitted on.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairPCA
        >>> from fairspan.displays import FeatureErrorDisplay
        >>> X = np.array([[3.0, 0, 1], [-3, 0, -1], [0, 2, 1], [0, -2, -1]])
        >>> fair = FairPCA(2).fit(X, sensitive_features=["a", "a", "b", "b"])
        >>> display = FeatureErrorDisplay.from_estimator(fair)
        >>> display.frame()["feature"].unique().tolist()
        ['x2', 'x0', 'x1']
        """
        return cls._compute_and_plot(ax, estimator, X, sensitive_features, n_features=n_features)

    @classmethod
    def from_audit(
        cls,
        audit: Audit,
        model: str | None = None,
        *,
        n_features: int = MAX_FEATURES_SHOWN,
        ax: Any = None,
    ) -> Self:
        """Draw the errors under one model of an audit.

        Parameters
        ----------
        audit : Audit
        model : str, optional
            Its name; by default that of the first projection.
        n_features : int
            Most features that are shown, the sum of the others included.
        ax : matplotlib Axes, optional
            Where to draw; without it, a new figure is made with pyplot.

        Returns
        -------
        FeatureErrorDisplay

        Raises
        ------
        InvalidParameter
            A model that the audit does not have.
        InvalidInput
            An audit without projections, or of many thousand features.
        """
        found = {
            each.name: each.feature_errors
            for each in audit.models
            if each.feature_errors is not None
        }
        name = next(iter(found), "") if model is None else model
        check_choice("model", name, tuple(found) or (name,))
        return cls._from_errors(found.get(name), n_features).plot(ax)

    @classmethod
    def compute(
        cls,
        estimator: Any,
        X: Any = None,
        sensitive_features: Any = None,
        *,
        n_features: int = MAX_FEATURES_SHOWN,
    ) -> Self:
        """What `from_estimator` draws, of the same parameters."""
        moments = fitted_moments(estimator, cls.__name__)
        model = read_model(objective_name(estimator), estimator)
        if (rows := open_display_rows(estimator, X, sensitive_features, cls.__name__)) is not None:
            return cls._from_errors(audit_rows([model], rows).models[0].feature_errors, n_features)
        no_estimates = np.zeros(moments.n_groups, dtype=bool)
        return cls._from_errors(compute_feature_errors(model, moments, no_estimates), n_features)

    @classmethod
    def _from_errors(cls, errors: FeatureErrors | None, n_features: int) -> Self:
        check_integer("n_features", n_features)
        if errors is None:
            raise InvalidInput(
                "There are no errors by feature",
                "Allowed: projections of at most 5,000 features",
                "Use fewer features, or the figures of whole groups: AuditDisplay",
            )
        is_known = not np.isnan(errors.expected_error).any()
        return cls(errors.top(n_features), is_known)

    def to_columns(self) -> Mapping[str, Sequence[Any]]:
        """One row for each group and feature that is shown."""
        records = self.errors.records
        names = ("model", "group", "feature", "observed_error", "expected_error")
        return {
            **{name: [record[name] for record in records] for name in names[:3]},
            **{name: values_of(records, name).tolist() for name in names[3:]},
        }

    def figure_size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        width, height = row_figure_size(self.errors.features, _ROW_HEIGHT)
        return max(width, min(3.0 + _GROUP_WIDTH * len(self.errors.groups), _MAX_WIDTH)), height

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        values = self.errors.best_estimate.T
        # The sum of the others may be far larger than each feature that is shown.
        n_individual = len(values) - self.errors.has_remainder
        most = float(values[:n_individual].max(initial=0.0)) or 1.0
        image = axes.imshow(values, cmap=_COLORMAP, vmin=0.0, vmax=most, aspect="auto")
        label_rows(axes, [printable(name) for name in self.errors.features])
        axes.spines[:].set_visible(False)
        axes.grid(visible=False)
        groups = [format_group(label) for label in self.errors.groups]
        # The names of the features take part of the width.
        name_width = _PLOT_WIDTH_SHARE * available_width(axes) / len(groups)
        axes.set_xticks(range(len(groups)), shorten_names(groups, name_width))
        annotate_cells(
            axes, image, values, lambda value: format_tick(float(f"{value:.2g}")), "error"
        )
        where = "new rows" if self.is_expected else "these rows"
        note = "Squared units of the features, scaled where the model scales."
        note += " The last row is a sum." if self.errors.has_remainder else ""
        title = f"Error of each feature on {where}, {readable_name(self.errors.model)}"
        add_header(axes, title, note=note)
        return (axes,)
