"""Rows in an array of another package than numpy (torch, cupy, jax and others), on any device."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from fairspan.moments.device.groups import (
    CheckGroups,
    OwnRows,
    can_group_there,
    grouped_here,
    grouped_there,
)
from fairspan.moments.device.kernels import BlockPlan, DeviceMoments
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.intake import Intake
from fairspan.rows.checks import row_block
from fairspan.rows.device.place import Place, checked_array, on_host, spans
from fairspan.rows.device.projection import restored, transformed
from fairspan.rows.group_limit import USUAL_LIMIT, GroupLimit
from fairspan.rows.groups import LabelCoder
from fairspan.rows.labels import Labels, labels_of
from fairspan.rows.protocol import FloatArray, OnMissing, RowBlock, block_rows
from fairspan.rows.unnamed import UnnamedRows
from fairspan.rows.weights import checked_weights

__all__ = ["DeviceRows", "open_rows", "restored", "transformed"]


@dataclass(frozen=True)
class DeviceRows(UnnamedRows):
    """Rows of an (n, p) array that may lie on a GPU.

    Attributes
    ----------
    array : array of shape (n, p)
    place : Place
    labels : Labels
        On the host.
    labels_there : (n,) array or None
        The same labels where the rows are, if they can be sorted there.
    weights : (n,) array or None
        On the host.
    on_missing : {"error", "drop"}
    plan : BlockPlan
    """

    array: Any
    place: Place
    labels: Labels
    labels_there: Any | None = field(default=None, kw_only=True)
    weights: FloatArray | None = field(default=None, kw_only=True)
    on_missing: OnMissing = field(default="error", kw_only=True)
    plan: BlockPlan = field(kw_only=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, p)."""
        return tuple(self.array.shape)

    def blocks(self) -> Iterator[RowBlock]:
        """Read all rows from the beginning, on the host."""
        size = block_rows(self.n_features)
        for own in spans(self.n_rows, size):
            yield row_block(
                own.start,
                host_rows(self.array[own, :], self.place),
                self.labels.between(own.start, own.stop),
                None if self.weights is None else self.weights[own],
                None,
                self.on_missing,
            )

    @property
    def group_columns(self) -> tuple[Any, ...]:
        """Names of the columns that make the groups; none where they have no names."""
        return self.labels.names

    def moments(self, limit: GroupLimit = USUAL_LIMIT) -> GroupMoments | None:
        """Moments of each group, computed where the rows are; None if there are no rows."""
        running = DeviceMoments(self.place, self.plan, self.n_features)
        coder = LabelCoder()
        n_dropped = 0
        size = max(self.plan.chunk_rows, self.plan.block_rows(self.n_features))
        with np.errstate(over="ignore", invalid="ignore"):  # found at the end
            for own in spans(self.n_rows, size):
                missing = self._missing(own) if self.on_missing == "drop" else None
                n_dropped += 0 if missing is None else int(missing.sum())
                grouped = self._grouped(own, missing, coder, partial(self._check_groups, limit))
                running.absorb(self.array[own, :], grouped)
            parts, all_finite = running.finished(coder.labels)
        if not all_finite:
            for _ in self.blocks():  # raises at the first row that is not finite
                pass
        if not parts and not n_dropped:
            return None
        return GroupMoments.from_groups(parts, self.n_features, None, Intake(n_dropped))

    def _missing(self, own: slice) -> npt.NDArray[np.bool_]:
        missing = self.labels.between(own.start, own.stop).missing
        if self.place.is_real(self.array):
            xp = self.place.xp
            missing = missing | on_host(xp.any(xp.isnan(self.array[own, :]), axis=1))
        return missing

    def _check_groups(self, limit: GroupLimit, n_groups: int, n_rows: int) -> None:
        """Where those of some rows look too many, count those of all rows."""
        if not limit.doubts(n_groups, n_rows):
            return
        if self.labels_there is not None:
            n_groups = int(self.place.xp.unique_values(self.labels_there).shape[0])
        else:
            n_groups = self.labels.between(0, self.n_rows).n_present
        limit.check(n_groups, self.n_rows, self.n_features)

    def _grouped(
        self,
        own: slice,
        missing: npt.NDArray[np.bool_] | None,
        coder: LabelCoder,
        check: CheckGroups,
    ) -> Iterable[OwnRows]:
        if self.labels_there is not None and self.weights is None and missing is None:
            return grouped_there(self.place, self.labels_there[own], coder, own.start, check)
        weights = None if self.weights is None else self.weights[own]
        labels = self.labels.between(own.start, own.stop)
        return grouped_here(self.place, labels, weights, missing, coder, own.start, check)


def open_rows(
    X: Any, sensitive_features: Any, sample_weight: Any, on_missing: OnMissing
) -> DeviceRows:
    """Rows of an array, whose groups and weights are beside it, there or on the host."""
    place = Place.of(X)
    array = checked_array(X, place)
    n_rows = int(array.shape[0])
    there = _labels_there(sensitive_features, place, n_rows)
    if there is None:
        labels = labels_of(_brought_here(sensitive_features), n_rows, X)
    else:
        labels = Labels(n_rows, _later(lambda: labels_of(on_host(there), n_rows, X)))
    return DeviceRows(
        array,
        place,
        labels,
        labels_there=there,
        weights=checked_weights(_brought_here(sample_weight), n_rows),
        on_missing=on_missing,
        plan=BlockPlan.for_place(place),
    )


def host_rows(rows: Any, place: Place) -> npt.NDArray[Any]:
    """Some rows as a numpy array; of a precision that numpy lacks, as float64."""
    xp = place.xp
    odd = place.is_real(rows) and rows.dtype not in (xp.float32, xp.float64)
    return on_host(place.float64(rows) if odd else rows)


def _labels_there(labels: Any, place: Place, n_rows: int) -> Any | None:
    if not _is_elsewhere(labels) or tuple(labels.shape) != (n_rows,):
        return None
    own = Place.of(labels)
    is_same = own.device == place.device and own.xp is place.xp
    return labels if is_same and can_group_there(place, labels) else None


def _brought_here(values: Any) -> Any:
    return on_host(values) if _is_elsewhere(values) else values


def _is_elsewhere(values: Any) -> bool:
    # Imported here: the registry imports this module.
    from fairspan.rows.registry import is_device_array

    return is_device_array(values)


def _later(read: Callable[[], Labels]) -> Callable[[int, int], Any]:
    """Labels that are moved only when they are asked for, once."""
    once = cache(read)
    return lambda start, stop: once().between(start, stop)
