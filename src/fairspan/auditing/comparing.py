"""Figures by group as a data frame, and how far groups are apart: as fairlearn's MetricFrame."""

from typing import TYPE_CHECKING, Any, Literal

from fairspan.auditing.results import ModelAudit
from fairspan.errors import InvalidParameter
from fairspan.formatting.data_frames import data_frame
from fairspan.rows.groups import Label

if TYPE_CHECKING:
    from fairspan.auditing.audit_result import Audit

Method = Literal["between_groups", "to_overall"]
_FIGURES = (
    *("reconstruction_error", "excess_loss", "captured_variance_ratio"),
    *("expected_error", "expected_loss"),
)


class ComparesGroups:
    """What a MetricFrame of fairlearn offers, of an audit: one row for each model and group.

    With control features everything is within each of their levels.
    """

    @property
    def by_group(self) -> Any:
        """The figures of every group: a pandas DataFrame.

        Its columns are reconstruction_error, excess_loss, captured_variance_ratio, expected_error
        and expected_loss; its index has the model, then the control features if there are any, then
        the sensitive features. ``by_group.loc["PCA"]`` is what a MetricFrame of fairlearn has. A
        group without rows in a level has no figures.
        """
        return self._frame(_group_rows)

    @property
    def overall(self) -> Any:
        """The same figures over all rows: means of the groups by their weight, a pandas DataFrame.

        The share of variance is that of the variance over all rows, about each model's centre.
        """
        return self._frame(_overall_row)

    @property
    def control_levels(self) -> list[str] | None:
        """Names of the control features; None if there are none."""
        return list(self._audit.control_names) or None

    @property
    def sensitive_levels(self) -> list[str]:
        """Names of the sensitive features."""
        first = self._audit.models[0].groups[0].group
        width = len(first) if isinstance(first, tuple) else 1
        given = self._audit.attributes[:width]
        names = [str(name) for name in given if name is not None]
        if len(names) == width and len(set(names)) == width:
            return names
        return [f"sensitive_feature_{place}" for place in range(width)]

    def group_min(self) -> Any:
        """The least figure of a group, of each model and level: a pandas DataFrame."""
        return self._grouped(self.by_group).min()

    def group_max(self) -> Any:
        """The largest figure of a group, of each model and level: a pandas DataFrame."""
        return self._grouped(self.by_group).max()

    def difference(self, method: Method = "between_groups") -> Any:
        """How far groups are apart, of each model and level.

        Parameters
        ----------
        method : {"between_groups", "to_overall"}
            The largest figure of a group less the least; or the largest distance of a group from
            the figure over all rows.

        Returns
        -------
        pandas.DataFrame
            Estimates without intervals: those of disparities are in :meth:`frame`.

        Raises
        ------
        InvalidParameter
            Another method.
        """
        _check(method)
        if method == "between_groups":
            return self.group_max() - self.group_min()
        apart = self.by_group.sub(self.overall).abs()
        return self._grouped(apart.reorder_levels(self.by_group.index.names)).max()

    def ratio(self, method: Method = "between_groups") -> Any:
        """How far groups are apart, as a ratio, of each model and level: 1 for groups alike.

        Parameters
        ----------
        method : {"between_groups", "to_overall"}
            The least figure of a group by the largest; or the least ratio of a group's figure and
            that over all rows, the smaller by the larger.

        Returns
        -------
        pandas.DataFrame
            NaN where both are zero.

        Raises
        ------
        InvalidParameter
            Another method.
        """
        _check(method)
        if method == "between_groups":
            return self.group_min() / self.group_max()
        ratios = self.by_group.div(self.overall).reorder_levels(self.by_group.index.names)
        return self._grouped(ratios.where(ratios <= 1, 1 / ratios)).min()

    @property
    def _audit(self) -> "Audit":
        raise NotImplementedError

    def _parts(self) -> list[tuple[tuple[Any, ...], "Audit"]]:
        audit = self._audit
        if not audit.levels:
            return [((), audit)]
        return [(_parts_of(level), part) for level, part in audit.levels]

    def _frame(self, rows_of: Any) -> Any:
        audit, sensitive = self._audit, self.sensitive_levels
        groups = [group.group for group in audit.models[0].groups]
        names = ["model", *audit.control_names]
        if rows_of is _group_rows:
            names += sensitive
        places = {model.name: place for place, model in enumerate(audit.models)}
        rows = []
        for level, part in self._parts():
            for model in part.models:
                for own, figures in rows_of(model, groups):
                    key = (model.name, *level, *own)
                    rows.append((places[model.name], key, figures))
        rows.sort(key=lambda row: row[0])
        records = [{**dict(zip(names, key, strict=True)), **told} for _, key, told in rows]
        frame = data_frame(records, "Audit.by_group").set_index(names)
        return frame.astype("float64")

    def _grouped(self, frame: Any) -> Any:
        names = ["model", *self._audit.control_names]
        return frame.groupby(level=names, sort=False)


def _group_rows(model: ModelAudit, groups: list[Label]) -> list[tuple[Any, dict[str, Any]]]:
    own = {group.group: group for group in model.groups}
    rows = []
    for label in groups:
        group = own.get(label)
        figures: dict[str, Any] = dict.fromkeys(_FIGURES)
        if group is not None:
            expected = group.expected
            figures = {
                "reconstruction_error": group.error.value,
                "excess_loss": group.excess_loss,
                "captured_variance_ratio": group.variance_kept,
                "expected_error": None if expected is None else expected.error.value,
                "expected_loss": None if expected is None else expected.loss.value,
            }
        rows.append((_parts_of(label), figures))
    return rows


def _overall_row(model: ModelAudit, groups: list[Label]) -> list[tuple[Any, dict[str, Any]]]:
    shares = [group.proportion for group in model.groups]
    expected = [group.expected for group in model.groups]
    known = None not in expected

    def mean(values: Any) -> float:
        return float(sum(share * value for share, value in zip(shares, values, strict=True)))

    variance = mean([group.total_variance for group in model.groups])
    figures = {
        "reconstruction_error": model.total_error,
        "excess_loss": mean([group.excess_loss for group in model.groups]),
        "captured_variance_ratio": 1 - model.total_error / variance if variance > 0 else None,
        "expected_error": mean([each.error.value for each in expected if each]) if known else None,
        "expected_loss": mean([each.loss.value for each in expected if each]) if known else None,
    }
    return [((), figures)]


def _parts_of(label: Label) -> tuple[Any, ...]:
    return label if isinstance(label, tuple) else (label,)


def _check(method: object) -> None:
    if method not in ("between_groups", "to_overall"):
        raise InvalidParameter(
            f"method is {method!r}",
            "Allowed: 'between_groups' and 'to_overall'",
            "Use 'between_groups'",
        )
