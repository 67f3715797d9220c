"""Heat map of the error of each feature in each group."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from fairspan.auditing.audit_result import Audit
from fairspan.auditing.feature_errors import (
    MAX_FEATURES_SHOWN,
    FeatureErrors,
    compute_feature_errors,
)
from fairspan.auditing.group_names import format_group
from fairspan.auditing.models import read_model
from fairspan.auditing.stages import audit_rows
from fairspan.displays.base_display import BaseDisplay
from fairspan.displays.loadings_display import annotate_cells
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
from fairspan.formatting.names import readable_name
from fairspan.formatting.numbers import format_share, format_tick
from fairspan.formatting.units import Unit, check_unit
from fairspan.parameters import check_choice, check_integer
from fairspan.rows.labels import printable
from fairspan.typing import FloatArray

if TYPE_CHECKING:
    from fairspan.estimator.fair_pca import FairPCA

# White is zero error.
_COLORMAP = "Purples"
# Row height, width of the feature names, width per group, and maximum figure width, in inches.
_ROW_HEIGHT = 0.3
_NAMES_WIDTH = 3.0
_GROUP_WIDTH = 0.9
_MAX_WIDTH = 12.0
# Share of the width that remains next to the feature names.
_PLOT_WIDTH_SHARE = 0.6


@dataclass(eq=False, repr=False)
class FeatureErrorDisplay(BaseDisplay):
    """Heat map of the error of each feature in each group under one model.

    Create it with :meth:`from_estimator` or :meth:`from_audit`. It shows the features with the
    largest error in any group; the last row is the sum of the others.

    Attributes
    ----------
    errors : FeatureErrors
        Errors of the features shown.
    is_expected : bool
        Whether they are expected errors on new rows.
    unit : {"share", "squared"}
        Unit of the plot: shares of each group's variance, or squared units of the features.
    """

    errors: FeatureErrors
    is_expected: bool = False
    unit: Unit = "share"

    @classmethod
    def from_estimator(
        cls,
        estimator: "FairPCA",
        X: object = None,
        sensitive_features: object = None,
        *,
        n_features: int = MAX_FEATURES_SHOWN,
        unit: Unit = "share",
        ax: "Axes | None" = None,
    ) -> Self:
        """Plot the errors under a fitted estimator.

        Parameters
        ----------
        estimator : FairPCA
            Fitted estimator.
        X : (n, p) table of finite numbers, optional
            Training or held-out rows, as for `FairPCA.fit`; errors are then expected errors on new
            rows, as in :func:`fairspan.audit`. Without rows, errors on the training rows are shown.
        sensitive_features : (n,) or (n, a) array-like or data frame, or column name(s) of X
        n_features : int
            Maximum number of entries, including the sum of the others.
        ax : matplotlib Axes, optional
            Axes to draw on; by default, a new pyplot figure.

        Returns
        -------
        FeatureErrorDisplay

        Raises
        ------
        InvalidType
            The estimator is not a fitted FairPCA.
        InvalidInput
            Rows without groups or with other features, or more than 5,000 features.
        UnknownGroup
            A group that the estimator was not fitted on.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairPCA
        >>> from fairspan.displays import FeatureErrorDisplay
        >>> X = np.array([[3.0, 0, 1], [-3, 0, -1], [0, 2, 1], [0, -2, -1]])
        >>> fair = FairPCA(1).fit(X, sensitive_features=["a", "a", "b", "b"])
        >>> display = FeatureErrorDisplay.from_estimator(fair)
        >>> display.frame()["feature"].unique().tolist()
        ['x1', 'x0', 'x2']
        """
        settings = {"n_features": n_features, "unit": unit}
        return cls._compute_and_plot(ax, estimator, X, sensitive_features, **settings)

    @classmethod
    def from_audit(
        cls,
        audit: Audit,
        model: str | None = None,
        *,
        n_features: int = MAX_FEATURES_SHOWN,
        unit: Unit = "share",
        ax: "Axes | None" = None,
    ) -> Self:
        """Plot the errors under one model of an audit.

        Parameters
        ----------
        audit : Audit
        model : str, optional
            Name of the model; by default the first projection.
        n_features : int
            Maximum number of entries, including the sum of the others.
        ax : matplotlib Axes, optional
            Axes to draw on; by default, a new pyplot figure.

        Returns
        -------
        FeatureErrorDisplay

        Raises
        ------
        InvalidParameter
            A model that the audit does not have.
        InvalidInput
            The audit has no projection, or more than 5,000 features.
        """
        errors_by_model = {
            result.name: result.feature_errors
            for result in audit.models
            if result.feature_errors is not None
        }
        # Without any errors by feature there is no name to choose; `_from_errors` raises the error.
        name = next(iter(errors_by_model), "") if model is None else model
        if errors_by_model:
            check_choice("model", name, tuple(errors_by_model))
        return cls._from_errors(errors_by_model.get(name), n_features, unit).plot(ax)

    @classmethod
    def compute(
        cls,
        estimator: "FairPCA",
        X: object = None,
        sensitive_features: object = None,
        *,
        n_features: int = MAX_FEATURES_SHOWN,
        unit: Unit = "share",
    ) -> Self:
        """Compute the errors of each feature; parameters and exceptions as for `from_estimator`.

        With rows, they are the errors of an audit of the rows; without, those on the training rows.
        """
        moments = fitted_moments(estimator, cls.__name__)
        model = read_model(objective_name(estimator), estimator)
        rows = open_display_rows(estimator, X, sensitive_features, cls.__name__)
        if rows is not None:
            result = audit_rows([model], rows).models[0]
            return cls._from_errors(result.feature_errors, n_features, unit)
        # Moments alone give no estimates for new rows in any group: the errors are observed ones.
        is_estimated = np.zeros(moments.n_groups, dtype=bool)
        errors = compute_feature_errors(model, moments, is_estimated)
        return cls._from_errors(errors, n_features, unit)

    @classmethod
    def _from_errors(cls, errors: FeatureErrors | None, n_features: int, unit: Unit) -> Self:
        """Create the display of the features with the largest errors.

        The errors are expected ones if every group has them, otherwise observed ones. Raises
        InvalidInput for None: too many features, or a model that is not a projection.
        """
        check_integer("n_features", n_features)
        check_unit(unit)
        if errors is None:
            raise InvalidInput(
                "There are no errors by feature",
                "Allowed: projections of at most 5,000 features",
                "Use fewer features, or plot the groups with AuditDisplay",
            )
        is_expected = not np.isnan(errors.expected_error).any()
        return cls(errors.top(n_features), is_expected, unit)

    def to_columns(self) -> Mapping[str, Sequence[object]]:
        """Columns with one row per group and feature shown, in squared units."""
        records = self.errors.records
        columns: dict[str, list[object]] = {}
        for name in ("model", "group", "feature"):
            columns[name] = [record[name] for record in records]
        for name in ("observed_error", "expected_error"):
            columns[name] = values_of(records, name).tolist()
        return columns

    def figure_size(self) -> tuple[float, float]:
        """Figure size in inches."""
        width, height = row_figure_size(self.errors.features, _ROW_HEIGHT)
        groups_width = _NAMES_WIDTH + _GROUP_WIDTH * len(self.errors.groups)
        return max(width, min(groups_width, _MAX_WIDTH)), height

    def _plotted_errors(self) -> FloatArray:
        """Return the errors by group and feature, (k, p), in the unit of the plot."""
        errors = self.errors.best_estimate
        if self.unit == "squared":
            return errors
        variances = self.errors.variances
        # A group without variance has no errors.
        return errors / np.where(variances > 0, variances, 1.0)[:, None]

    def _format(self, value: float) -> str:
        """Format an error: a share as a percentage, others with two significant digits."""
        if self.unit == "share":
            return format_share(value)
        return format_tick(float(f"{value:.2g}"))

    def _draw(self, axes: Axes) -> Sequence[Axes]:
        # Expected errors, or observed ones: one row per feature, one column per group.
        values = self._plotted_errors().T
        # The last row may be the remainder, the sum of all other features. Exclude it from the
        # color range: it may be far larger than any single feature.
        n_individual = len(values) - self.errors.has_remainder
        max_error = float(values[:n_individual].max(initial=0.0))
        if max_error == 0:
            max_error = 1.0
        image = axes.imshow(values, cmap=_COLORMAP, vmin=0.0, vmax=max_error, aspect="auto")
        label_rows(axes, [printable(name) for name in self.errors.features])
        axes.spines[:].set_visible(False)
        axes.grid(visible=False)
        groups = [format_group(label) for label in self.errors.groups]
        # Feature names take part of the width.
        name_width = _PLOT_WIDTH_SHARE * available_width(axes) / len(groups)
        axes.set_xticks(range(len(groups)), shorten_names(groups, name_width))
        annotate_cells(axes, image, values, self._format, label="error")
        scope = "new rows" if self.is_expected else "the audited rows"
        note = "In squared units of the features, scaled if the model scales."
        if self.unit == "share":
            note = "In per cent of the variance of the group."
        if self.errors.has_remainder:
            note += " The last row is a sum."
        title = f"Error of each feature on {scope}, {readable_name(self.errors.model)}"
        add_header(axes, title, note=note)
        return (axes,)
