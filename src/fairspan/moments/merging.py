"""Merge moments of several parts, and of the classes of each group."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar, cast

import numpy as np

from fairspan.errors import Cause, InvalidInput
from fairspan.moments.dense_moments import DenseMoments
from fairspan.moments.moment_validation import check_no_overflow
from fairspan.moments.running_moments import RunningMoments, merge_into, stack_by_label
from fairspan.rows.labels import (
    Label,
    describe_label_type,
    format_list,
    label_type,
    to_python_labels,
    without_last_attribute,
)
from fairspan.rows.weights import MAX_WEIGHT, MIN_WEIGHT, warn_about_negligible

MomentsType = TypeVar("MomentsType", bound=DenseMoments)


def merge_moments(
    parts: Sequence[MomentsType], relabel: Callable[[Label], Label] = lambda label: label
) -> MomentsType:
    """Merge moments of several parts (Chan, Golub and LeVeque 1979).

    With attributes, the moments of all columns are merged and split again; with classes of y, those
    of each group and class, whose sums are the moments of the groups.

    Parameters
    ----------
    parts : sequence of DenseMoments
        At least one.
    relabel : callable, optional
        Maps old to new labels; groups with the same new label are merged.

    Returns
    -------
    DenseMoments
        Of the class of the first part: the moments of the rows of all parts together.

    Raises
    ------
    InvalidInput
        Inconsistent features or label types, or overflow.
    """
    first = parts[0]
    parts = [part.reorder_features(first.feature_names) for part in parts]
    for part in parts[1:]:
        check_mergeable(first, part)
    # All parts have attributes if the first has, and all have classes if it has.
    if first.all_columns is not None:
        with_attributes = [cast(MomentsType, part.all_columns) for part in parts]
        all_columns = merge_moments(with_attributes, relabel)
        features = all_columns.select_features(range(first.n_features))
        return replace(features, all_columns=all_columns, skip_validation=True)
    if first.by_class is not None:
        by_class = [cast(MomentsType, part.by_class) for part in parts]
        merged = sum_over_classes(merge_moments(by_class, relabel))
        n_dropped = sum(part.n_dropped for part in parts)
        # Groups of which parts dropped every row are not lost if another part has rows of them.
        lost = {relabel(label) for part in parts for label in part.lost_groups}
        return replace(
            merged,
            n_dropped=n_dropped,
            lost_groups=frozenset(lost.difference(merged.labels)),
            skip_validation=True,
        )
    return _merge_by_group(parts, relabel)


def _merge_by_group(parts: Sequence[MomentsType], relabel: Callable[[Label], Label]) -> MomentsType:
    """Merge moments without classes and attributes, with the features in the same order."""
    n_dropped = sum(part.n_dropped for part in parts)
    exponent = _common_exponent(parts)
    parts = _in_common_units(parts, exponent)
    sums: dict[Label, RunningMoments] = {}
    with np.errstate(over="ignore", invalid="ignore"):  # detected by check_no_overflow
        for part in parts:
            corrections = part.mean_corrections
            for group, label in enumerate(part.labels):
                # A copy of the scatter, to which those of other parts are added in place.
                group_moments = RunningMoments(
                    shift=part.means[group],
                    count=int(part.counts[group]),
                    weight=part.weights[group],
                    mean_offset=0.0 if corrections is None else corrections[group],
                    scatter=part.scatters[group].copy(),
                )
                merge_into(sums, relabel(label), group_moments)
        stacked = stack_by_label(sums, parts[0].n_features)
    # A group of which one part dropped every row is not lost if another part has rows of it.
    lost = {relabel(label) for part in parts for label in part.lost_groups}
    merged = type(parts[0]).from_stacked(
        stacked,
        feature_names=parts[0].feature_names,
        n_dropped=n_dropped,
        weight_exponent=exponent,
        lost_groups=frozenset(lost.difference(to_python_labels(stacked.labels))),
    )
    return check_no_overflow(merged)


def sum_over_classes(moments: MomentsType) -> MomentsType:
    """Sum moments by group and class over the classes; keeps them as :attr:`by_class`."""
    total = merge_moments([moments], without_last_attribute)
    summary = moments.em_summary
    if summary is not None:
        group_of = [total.labels.index(without_last_attribute(pair)) for pair in moments.labels]
        summary = summary.merge_groups(group_of, total.n_groups)
    return replace(total, by_class=moments, em_summary=summary, skip_validation=True)


def _common_exponent(parts: Sequence[MomentsType]) -> int:
    """Return an exponent e, so that all parts can have their weights in units of 2**e.

    It is that of the parts if they have the same. Otherwise it is zero if all weights are between
    `MIN_WEIGHT` and `MAX_WEIGHT`, and else brings the largest weight to the upper end of this
    range; small weights may then become zero.
    """
    exponents = {part.weight_exponent for part in parts}
    if len(exponents) == 1:
        return exponents.pop()
    weighted = [part for part in parts if part.n_groups]
    # Binary exponents of the weights themselves, without the units of their parts.
    smallest = [np.frexp(part.weights.min())[1] + part.weight_exponent for part in weighted]
    largest = [np.frexp(part.weights.max())[1] + part.weight_exponent for part in weighted]
    min_exponent = int(np.frexp(MIN_WEIGHT)[1])
    max_exponent = int(np.frexp(MAX_WEIGHT)[1])
    if not weighted or (min(smallest) >= min_exponent and max(largest) <= max_exponent):
        return 0
    exponent = int(max(largest)) - max_exponent
    return exponent + exponent % 2  # even, so that the square root of the unit is a power of two


def _in_common_units(parts: Sequence[MomentsType], exponent: int) -> list[MomentsType]:
    """Return the parts with weights in units of 2**exponent, without groups of negligible weight.

    A weight below `MIN_WEIGHT` in these units is negligible beside the largest one, and counts as
    zero. Warns if a part has such groups, and names those that then remain in no part.
    """
    scaled = [part.in_weight_units(exponent) for part in parts]
    remaining = {label for part in scaled for label in part.labels}
    if sum(part.n_groups for part in scaled) < sum(part.n_groups for part in parts):
        all_labels = dict.fromkeys(label for part in parts for label in part.labels)
        min_weight = math.ldexp(MIN_WEIGHT, exponent)
        lost = [label for label in all_labels if label not in remaining]
        warn_about_negligible("A part", min_weight, lost)
    return scaled


def check_mergeable(a: MomentsType, b: MomentsType) -> None:
    """Check that moments have the same features in the same order, and labels of one type.

    Raises
    ------
    InvalidInput
        They differ; the message lists how.
    """
    if a.is_em_estimated or b.is_em_estimated:
        raise InvalidInput(
            "Some of the moments were fitted to incomplete rows by EM",
            "Allowed: moments of complete rows. EM estimates depend on all rows, so those of parts "
            "cannot be merged",
            "Read all rows together, such as a folder of files or a Dask or Spark collection: "
            'GroupMoments.from_rows(..., on_missing="em"); or drop incomplete rows in each part: '
            'GroupMoments.from_rows(..., on_missing="drop")',
            cause=Cause.INCOMPLETE_PARTS,
        )
    differences = [*_feature_differences(a, b), *_label_differences(a, b)]
    if differences:
        raise InvalidInput(
            "; ".join(differences),
            "Allowed: moments of the same features, with labels of one type",
            "Read both parts with the same columns, and with labels of one type, for example by "
            "astype(str)",
            cause=Cause.DIFFERENT_MOMENTS,
        )


def _feature_differences(a: MomentsType, b: MomentsType) -> Iterator[str]:
    """Iterate over the differences between the columns of moments, as phrases."""
    if a.n_features != b.n_features or a.feature_names != b.feature_names:
        details = ""
        if a.feature_names and b.feature_names:
            differences_by_kind = {
                "missing": [name for name in a.feature_names if name not in b.feature_names],
                "additional": [name for name in b.feature_names if name not in a.feature_names],
            }
            phrases = [
                f"{format_list(names)} {kind}"
                for kind, names in differences_by_kind.items()
                if names
            ]
            details = f" ({', '.join(phrases)})" if phrases else ""
        yield (
            f"The features differ: {_describe_features(a)} against {_describe_features(b)}{details}"
        )
    if (a.all_columns is None) != (b.all_columns is None):
        yield "Only one of them has attribute columns"


def _label_differences(a: MomentsType, b: MomentsType) -> Iterator[str]:
    """Iterate over the differences between the labels of moments, as phrases."""
    if (a.by_class is None) != (b.by_class is None):
        yield "Only one of them has classes of y"
        return
    if not a.n_groups or not b.n_groups:  # moments without rows have no type of labels
        return
    if {*map(label_type, a.labels)} != {*map(label_type, b.labels)}:
        yield (
            f"The groups are of different types: {format_list(a.labels)} against "
            f"{format_list(b.labels)} ({describe_label_type(a.labels)} against "
            f"{describe_label_type(b.labels)})"
        )


def _describe_features(moments: MomentsType) -> str:
    if moments.feature_names is None:
        return f"{moments.n_features} without names"
    return f"{moments.n_features} named {format_list(moments.feature_names)}"
