"""The result of an audit, which prints its verdicts, tables and findings."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from fairspan.auditing.audit_table import audit_table
from fairspan.auditing.audited_rows import AuditedRows
from fairspan.auditing.decision_table import decision_table, decisions
from fairspan.auditing.feature_errors import FeatureErrors
from fairspan.auditing.findings.finding import Finding
from fairspan.auditing.gate import CheckFailure, Gate, parse_conditions
from fairspan.auditing.intervals import DEFAULT_LEVEL
from fairspan.auditing.logged_metrics import flat_metrics, logged_model
from fairspan.auditing.markdown_card import (
    findings_section,
    join_sections,
    provenance_section,
    tables_section,
    verdict_paragraphs,
)
from fairspan.auditing.missing_values import missing_values_table
from fairspan.auditing.recommendation import Recommendation
from fairspan.auditing.results import ModelResult, change_records, select_models
from fairspan.auditing.verdict import Verdict
from fairspan.class_loaders import load_class
from fairspan.errors import CheckFailed, InvalidInput
from fairspan.formatting.export import to_data_frame
from fairspan.formatting.messages import counted
from fairspan.formatting.table import Table
from fairspan.formatting.terminal import MAX_WIDTH, Styler, unstyled, wrap_text
from fairspan.formatting.units import Unit, check_unit
from fairspan.rows.labels import format_list
from fairspan.typing import PlottedDisplay

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FINDING_INDENT = " " * len("FS101 ")


@dataclass(frozen=True)
class Audit:
    """Result of :func:`audit`; printing it shows the verdict, a table and the findings.

    Attributes
    ----------
    models : tuple of ModelResult
        Results by model, in input order.
    findings : tuple of Finding
        Notes and warnings, each with a stable code; warnings come first.
    rows : AuditedRows
    verdicts : tuple of Verdict
        One verdict per model that is compared with ordinary PCA; if there is no such model, one
        verdict per model on its own.
    recommendations : tuple of Recommendation
        One per ordinary PCA with which models are compared: the model to use, if one is better for
        everybody, and who gains and who pays under each.
    level : float
        Confidence level of the intervals.
    materiality : float
        Materiality threshold: the smallest loss that counts, as a share of the group's variance.
    """

    models: tuple[ModelResult, ...]
    findings: tuple[Finding, ...]
    rows: AuditedRows
    verdicts: tuple[Verdict, ...] = ()
    recommendations: tuple[Recommendation, ...] = ()
    level: float = DEFAULT_LEVEL
    materiality: float = 0.01

    @property
    def verdict(self) -> Verdict:
        """First verdict: whether ordinary PCA harms a group on new rows, and whether repair helps.

        Raises
        ------
        InvalidInput
            The audit has no estimates for new rows: it was made without folds, or from a single set
            of moments.
        """
        if not self.verdicts:
            raise InvalidInput(
                "This audit has no estimates for new rows, so there is no verdict",
                "Allowed: audits of rows with folds, or of several blocks of moments",
                "Use the default, folds=10",
            )
        return self.verdicts[0]

    def failures(
        self, fail_on: str | Sequence[str] = "harm", *, models: Sequence[str] | None = None
    ) -> tuple[CheckFailure, ...]:
        """Return the conditions that apply, each with its evidence; see :meth:`check`."""
        conditions = parse_conditions(fail_on)
        checked = select_models(self.models, models, "models")
        others = tuple(model for model in self.models if model not in checked)
        gate = Gate(checked, others, self.findings, self.verdicts, self.materiality)
        return gate.failures(conditions)

    def check(
        self, fail_on: str | Sequence[str] = "harm", *, models: Sequence[str] | None = None
    ) -> None:
        """Raise an exception if any of some conditions applies, for tests and pipelines.

        Parameters
        ----------
        fail_on : str or sequence of str
            Conditions, in a list or separated by commas:

            - "harm": under a checked model, a group is harmed on new rows.
            - "inconclusive": under a checked model that is not shown to harm anybody, harm is not
              ruled out for a group, or the verdict is inconclusive.
            - "drift": errors have changed since the fit of a saved model
              (finding FS210).
            - the code of a finding, such as "FS101": the audit has this finding.
        models : sequence of str, optional
            Names of the checked models. By default those that are compared with ordinary PCA, which
            itself may do harm then; without any such model, all models.

        Raises
        ------
        CheckFailed
            A condition applies. The message has the evidence and the recommendation of the verdict.
        InvalidParameter, InvalidType
            Unknown condition or model.
        InvalidInput
            The audit cannot tell whether a condition applies: it has no estimates for new rows
            ("harm", "inconclusive"), or no model was fitted to other rows ("drift").

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import FairPCA, audit
        >>> rng = np.random.default_rng(0)
        >>> X = rng.standard_normal((400, 3)) * np.repeat([[3, 1, 1], [1, 2, 1]], 200, axis=0)
        >>> groups = np.repeat(["a", "b"], 200)
        >>> pca = FairPCA(1, criterion="total_error").fit(X, sensitive_features=groups)
        >>> result = audit(pca, X, groups)
        >>> [failure.condition for failure in result.failures("harm, FS101")]
        ['harm']
        >>> result.check("FS101")
        """
        failures = self.failures(fail_on, models=models)
        if not failures:
            return
        verdict = next(iter(self.verdicts), None)
        advice = "See Audit.findings for what to do"
        if verdict is not None:
            advice = verdict.recommendation.rstrip(".")
        error = CheckFailed(
            f"The audit fails its check. {' '.join(map(str, failures)).rstrip('.')}",
            f"Allowed: audits without {format_list(parse_conditions(fail_on))}",
            advice,
        )
        error.failures = failures
        error.verdict = verdict
        raise error

    @property
    def recommendation(self) -> Recommendation | None:
        """First recommendation; None if no model is compared with ordinary PCA."""
        return next(iter(self.recommendations), None)

    def changes(self, unit: Unit = "share") -> Any:
        """Return the change in each group's expected error from ordinary PCA to each fair model.

        Parameters
        ----------
        unit : {"share", "squared"}
            Changes as shares of each group's variance, or in squared units of the features.

        Returns
        -------
        pandas.DataFrame
            Columns: model, group, n_rows, proportion (of all rows), change_share (of the error, as
            a share of the group's variance; negative is a gain), change_share_low and
            change_share_high (simultaneous over groups and models); in squared units,
            expected_change, expected_change_low and expected_change_high. Models without baseline
            and groups without estimates are omitted.

        Raises
        ------
        InvalidParameter
            `unit` is not one of the allowed values.
        MissingDependency
            pandas is not installed.
        """
        check_unit(unit)
        return to_data_frame(change_records(self.models, unit), "Audit.changes()")

    def to_records(self) -> list[dict[str, object]]:
        """Return one flat dictionary per model and group.

        Values that are not available are None.
        """
        return [record for model in self.models for record in model.records]

    def frame(self) -> Any:
        """Return the results as a DataFrame with one row per model and group.

        Returns
        -------
        pandas.DataFrame
            Columns: model, group, n_rows, n_clusters (None unless `clusters` was given),
            n_effective (effective number of rows), proportion. Observed on the audited rows:
            observed_total_variance, observed_error with _low and _high, observed_best_error,
            observed_loss, observed_variance_kept, observed_kurtosis, and drift (change in error
            since the fit, for models fitted to other rows) with _low and _high. Expected on new
            rows: expected_error and expected_loss with _low and _high, cross_fitted_loss,
            expected_best_error, state, relative_optimism, expected_change with _low and _high,
            n_rows_needed with _low and _high, min_detectable_loss, eigenvalue_gap with its standard
            error, and is_identified. Per model: observed_disparity and expected_disparity with _low
            and _high, instability and min_cosine (sensitivity of an in-sample model to its rows),
            n_components, center.

        Raises
        ------
        MissingDependency
            pandas is not installed.
        """
        return to_data_frame(self.to_records(), "Audit.frame()")

    def feature_errors(self) -> Any:
        """Return the error of each feature by model and group.

        Returns
        -------
        pandas.DataFrame
            Columns: model, group, feature, observed_error (on the audited rows; sums over features
            to the group's error) and expected_error (on new rows), in squared units of the
            features, scaled if the model scales. With P the projection and S_g the second moment
            matrix of the group, these are the diagonal of (I - P) S_g (I - P).

        Raises
        ------
        MissingDependency
            pandas is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import audit
        >>> X = np.array([[3.0, 1], [-3, -1], [1, 2], [-1, -2]])
        >>> result = audit(np.eye(2)[:1], X, ["a", "a", "b", "b"])
        >>> result.feature_errors()[["group", "feature", "observed_error"]].round(3).values.tolist()
        [['a', 'x0', 0.0], ['a', 'x1', 1.0], ['b', 'x0', 0.0], ['b', 'x1', 4.0]]
        """
        return to_data_frame(
            [record for table in self._feature_error_tables for record in table.records],
            "Audit.feature_errors()",
        )

    def to_dict(self) -> dict[str, object]:
        """Return the audit as JSON-serializable values.

        Errors by feature have at most 20 entries: for more features, the 19 with the largest errors
        and the sum of the others. :meth:`feature_errors` returns all.
        """
        feature_error_records = [
            record for table in self._feature_error_tables for record in table.top().records
        ]
        return {
            # The first of the verdicts, or None without estimates for new rows.
            "verdict": self.verdicts[0].to_dict() if self.verdicts else None,
            "verdicts": [verdict.to_dict() for verdict in self.verdicts],
            "recommendations": [item.to_dict() for item in self.recommendations],
            "changes": change_records(self.models),
            "level": self.level,
            "materiality": self.materiality,
            "rows": asdict(self.rows),
            "models": [model.to_dict() for model in self.models],
            "findings": [finding.to_dict() for finding in self.findings],
            "feature_errors": feature_error_records,
        }

    def metrics(self, model: str | None = None) -> dict[str, float]:
        """Return figures of one model by flat, stable names, for experiment trackers.

        Parameters
        ----------
        model : str, optional
            Name of the model; by default the only one that is compared with ordinary PCA, or the
            only one.

        Returns
        -------
        dict of str to float
            Figures by name; unknown ones are left out. Errors and losses are shares of the group's
            variance. For each group G: ``loss/G``, ``error/G`` and ``change/G`` (in error, from
            ordinary PCA) on new rows, ``drift/G`` (in error since the fit), ``observed_error/G``,
            ``observed_loss/G`` and ``n_rows/G``; limits of intervals are ``loss_low/G`` and
            ``loss_high/G``, and so on. Of the model: ``largest_loss``, ``n_harmed``,
            ``n_inconclusive``, ``total_rows``, ``observed_disparity`` and ``expected_disparity``
            (in squared units of the features), for a model that was fitted to other rows
            ``refit_gap`` and ``refit_may_help``, and for a model of others with a linear decoder
            ``rank_bound`` (of the largest error) and ``rank_excess`` (by how much it is above).
            ``findings/FS101`` is the number of findings with this code. Characters of group names
            that trackers do not accept become underscores.

        Raises
        ------
        InvalidParameter
            There is no such model.
        InvalidInput
            There are several models, and none was named.

        Examples
        --------
        >>> import numpy as np
        >>> from fairspan import audit
        >>> X = np.array([[3.0, 1], [-3, -1], [1, 2], [-1, -2]])
        >>> metrics = audit(np.eye(2)[:1], X, ["a", "a", "b", "b"]).metrics()
        >>> round(metrics["observed_error/b"], 2), metrics["n_rows/b"]
        (0.8, 2.0)
        """
        return flat_metrics(logged_model(self.models, model), self.findings)

    def to_markdown(self, unit: Unit = "share", *, origin: Mapping[str, str] | None = None) -> str:
        """Format the audit as Markdown, for a model card, an issue or a pull request.

        It has the verdicts, the tables of :meth:`decision_table` and :meth:`table`, the findings,
        and what was audited with which settings. Names from the data are escaped.

        Parameters
        ----------
        unit : {"share", "squared"}
            Unit of the errors and losses, as for :meth:`table`.
        origin : mapping of str to str, optional
            Further entries of the provenance, such as the file of the rows, by name.

        Raises
        ------
        InvalidParameter
            `unit` is not one of the allowed values.
        """
        tables = [self.table(unit)]
        if self.has_decisions:
            tables.insert(0, self.decision_table())
        rows = self.rows
        rows_text = f"{counted(rows.n_rows, 'row')}, {counted(rows.n_features, 'feature')}"
        if rows.group_columns:
            rows_text += f", groups by {', '.join(rows.group_columns)}"
        if rows.n_dropped:
            rows_text += f", {counted(rows.n_dropped, 'row')} dropped"
        sections = [
            *verdict_paragraphs(self._titled_verdicts()),
            tables_section(tables),
            findings_section(self.findings),
            provenance_section(
                self.models, rows_text, self.level, self.materiality, dict(origin or {})
            ),
        ]
        return join_sections(sections)

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        quantity: str | None = None,
        unit: Unit = "share",
    ) -> PlottedDisplay:
        """Plot one quantity for every model and group (requires the `plot` extra).

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on; by default, a new pyplot figure is created.
        quantity : str, optional
            Quantity to plot: "expected_loss" on new rows (default if it was estimated),
            "observed_error", "observed_loss" or "observed_variance_kept" (as a share). Only the
            first two have intervals.
        unit : {"share", "squared"}
            Errors and losses as shares of each group's variance, or in squared units of the
            features.

        Returns
        -------
        displays.AuditDisplay
            Display with `ax_`, `figure_` and `frame()`, following scikit-learn's convention.

        Raises
        ------
        InvalidParameter
            `quantity` or `unit` is not one of the allowed values.
        InvalidInput
            The expected loss was requested, but the audit has no estimates.
        """
        check_unit(unit)
        # By name, since displays are built on audits, and few audits are drawn.
        display = load_class("result display", "audit").compute(self, quantity)
        display.unit = unit
        return cast(PlottedDisplay, display.plot(ax))

    def table(self, unit: Unit = "share") -> Table:
        """Return the results by model and group as a table, with verdicts and findings as notes.

        A note is a text, or a pair of an emphasized text and the rest.

        Parameters
        ----------
        unit : {"share", "squared"}
            Errors and losses in per cent of each group's variance, or in squared units of the
            features.

        Raises
        ------
        InvalidParameter
            `unit` is not one of the allowed values.
        """
        check_unit(unit)
        table = audit_table(
            self.models,
            self.rows.n_features,
            self.level,
            self.rows.dropped_text,
            unit,
            self.materiality,
        )
        verdicts = [(title, f": {verdict}") for title, verdict in self._titled_verdicts()]
        # Emphasize the codes of warnings.
        findings: list[str | tuple[str, str]] = []
        for finding in self.findings:
            if finding.severity == "warning":
                findings.append((finding.code, f" {finding.message}"))
            else:
                findings.append(str(finding))
        return replace(table, notes=(*verdicts, *findings))

    def decision_table(self) -> Table:
        """Return what each group gains or pays under each fair model, compared with PCA.

        One row per model, one column per group: the expected loss under PCA, and under a fair model
        the change in expected error, a gain or a cost, with the state of the loss. All are in per
        cent of the group's variance, with intervals that hold for all groups jointly.

        Raises
        ------
        InvalidInput
            No fair model is compared with PCA by estimates for new rows.
        """
        if not self.has_decisions:
            raise InvalidInput(
                "This audit compares no fair model with PCA on new rows",
                "Allowed: audits of a FairPCA, of rows with folds or several blocks of moments",
                "Audit a FairPCA, with which PCA is audited as well, with the default, folds=10",
            )
        table = decision_table(self.models, self.materiality, self.level)
        reasons = [item.reason for item in self.recommendations if item.reason]
        return replace(table, notes=(*table.notes, *reasons))

    @property
    def has_decisions(self) -> bool:
        """Whether any fair model is compared with PCA by estimates for new rows."""
        return any(
            decision.outcome is not None
            for row in decisions(self.models, self.materiality)
            for decision in row
        )

    def to_text(
        self, width: int = MAX_WIDTH, paint: Styler = unstyled, unit: Unit = "share"
    ) -> str:
        """Format the verdicts, tables and findings as text of at most `width` columns.

        If fair models are compared with PCA, the decision table comes before the others.

        Parameters
        ----------
        width : int
        paint : callable
            Function (text, role) -> text that adds color; by default none is added.
        unit : {"share", "squared"}
            Unit of the errors and losses in the table, as for :meth:`table`.
        """
        header = []
        if self.rows.group_columns:
            header = wrap_text(f"Groups: {', '.join(self.rows.group_columns)}", width, "  ")
        lines = []
        for title, verdict in self._titled_verdicts():
            lines += verdict.to_lines(title, width)
        if lines:
            lines.append("")
        if self.has_decisions:
            changes = self.decision_table()
            table = [changes.to_text(width, paint), ""]
            for note in changes.notes:
                table += [*wrap_text(str(note), width), ""]
            # With several verdicts, their comparison comes first.
            lines = [*table, *lines] if len(self.verdicts) > 1 else [*lines, *table]
        lines = [*header, *lines]
        lines += [self.table(unit).to_text(width, paint), ""]
        if self.rows.missing:
            lines += [missing_values_table(self.rows.missing).to_text(width, paint), ""]
        for finding in self.findings:
            lines += format_finding(finding.code, finding.severity, finding.message, width, paint)
        return "\n".join(lines).rstrip()

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    @property
    def _feature_error_tables(self) -> list[FeatureErrors]:
        tables = (model.feature_errors for model in self.models)
        return [table for table in tables if table is not None]

    def _titled_verdicts(self) -> list[tuple[str, Verdict]]:
        """Return the verdicts with their titles: "Verdict", or names of models if several."""
        if len(self.verdicts) == 1:
            return [("Verdict", self.verdicts[0])]
        return [(verdict.model, verdict) for verdict in self.verdicts]


def format_finding(code: str, severity: str, message: str, width: int, paint: Styler) -> list[str]:
    """Format a finding as lines of at most `width` columns, with the code of a warning in color."""
    first_line, *other_lines = wrap_text(f"{code} {message}", width, _FINDING_INDENT)
    if severity == "warning":
        first_line = paint(code, "warning") + first_line.removeprefix(code)
    return [first_line, *other_lines]
