"""The models of an audit, and ordinary PCA beside them, with one or with several dimensions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairspan.errors import InvalidInput, UnknownGroup
from fairspan.estimator.fit import fit_subspace
from fairspan.linalg.double_double import exact_sum
from fairspan.model.foreign import RowModel
from fairspan.model.subspace import FairSubspace, ReadModel, read_as_it_is
from fairspan.moments.group_means import Center
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import Moments
from fairspan.rows.groups import Label, listed, printable
from fairspan.rows.label_matching import KnownLabels
from fairspan.typing import FloatArray

_PLAIN = "total_error"
_UNKNOWN = "how it was fitted is not known, so it was not fitted again without each part"
MOST_ESTIMATED = 16
"""Numbers of dimensions of which it is estimated what new rows would show."""


# Of fits for curves and pages, as a share of the objective: more than a picture shows, and far less
# than rows leave uncertain.
TOLERANCE_OF_CURVES = 1e-6


@dataclass(frozen=True, eq=False)
class Audited:
    """A model under audit.

    Attributes
    ----------
    name : str
    subspace : FairSubspace
    moments : GroupMoments, SparseMoments, ThinMoments or None
        Of the rows that it was fitted on, if it carries them.
    n_fitted : int or None
        Number of rows that it was fitted on, if it is known.
    is_plain_pca : bool
    baseline : str or None
        Name of the ordinary PCA that it is compared with.
    by_rows : RowModel or None
        What it does to rows, where it is no projection. Its subspace then is a stand-in that holds
        features, units and dimension alone.
    why_not_refitted : str
        Why it is not to be fitted again without parts of the rows; empty if it may be.
    refit_tol : float
        At which gap, as a share of the objective, these fits may stop if that of the model is less.
    """

    name: str
    subspace: FairSubspace
    moments: Moments | None
    n_fitted: int | None
    is_plain_pca: bool
    baseline: str | None = None
    by_rows: RowModel | None = None
    why_not_refitted: str = ""
    refit_tol: float = 0.0

    @property
    def known_groups(self) -> tuple[Label, ...]:
        """Groups that the model was fitted on; none if it was fitted on a single one.

        A model of a single group is ordinary PCA, which knows nothing of groups.
        """
        certificate = self.subspace.certificate
        return () if certificate is None or len(certificate.groups) < 2 else certificate.groups

    @property
    def is_fair(self) -> bool:
        """Whether it was fitted by another criterion than ordinary PCA, or under a restriction."""
        return self.subspace.certificate is not None and not self.is_plain_pca

    def check_groups(self, labels: Sequence[Label]) -> None:
        """Raise UnknownGroup if the rows hold a group that the model was not fitted on."""
        unknown = [label for label in labels if label not in self.known_groups]
        if self.known_groups and unknown:
            raise UnknownGroup(
                f"The rows hold groups that model '{self.name}' does not know: {listed(unknown)}",
                f"It was fitted on the groups {listed(self.known_groups)}",
                "Check the group column for misspelt or new values, or fit again with that group",
            )

    def was_fitted_on(self, moments: Moments, errors: FloatArray) -> bool:
        """Whether these are, judging by the figures, the rows it was fitted on.

        Parameters
        ----------
        moments : GroupMoments, SparseMoments or ThinMoments
            Of the audited rows.
        errors : (k,) array
            The model's errors on them.
        """
        if self.n_fitted != int(moments.counts.sum()):
            return False
        certificate = self.subspace.certificate
        if self.subspace.center == "none" and self.moments is None and certificate is not None:
            # Nothing was centred, so there is no mean to compare; the errors tell instead.
            return len(certificate.errors) == len(errors) and bool(
                np.allclose(certificate.errors, errors, rtol=1e-9, atol=0)
            )
        mean = self.subspace.mean if self.moments is None else self.moments.mean
        spread = np.maximum(moments.standard_deviations, np.finfo(np.float64).tiny)
        return mean is not None and bool((np.abs(mean - moments.mean) <= 1e-6 * spread).all())


def models_of(models: Any, n_features: int | None = None) -> list[Audited]:
    """Read one model or a mapping, and add ordinary PCA where a model carries moments.

    Parameters
    ----------
    models : model, or mapping of name to model
    n_features : int, optional
        p, for models that do not say it.

    Raises
    ------
    InvalidInput
        No models, or models of different features.
    InvalidType
        A model of another kind, or one that is not fitted.
    """
    named = models if isinstance(models, Mapping) else {_default_name(models, n_features): models}
    if not named:
        raise InvalidInput(
            "models is an empty mapping", "Allowed: at least one model", "Pass a fitted model"
        )
    audited = [read_model(str(name), model, n_features) for name, model in named.items()]
    _check_same_features(audited)
    return with_plain_beside(audited)


def known_labels_of(models: Any, *, has_classes: bool = False) -> KnownLabels:
    """Return the labels of the first model that was fitted on several groups; none without one.

    Parameters
    ----------
    models : model, mapping of name to model, sequence of Audited, or None
    has_classes : bool
        Whether labels of rows end with their class in y.
    """
    if isinstance(models, Mapping):
        models = list(models.values())
    for model in models if isinstance(models, list | tuple) else [models]:
        own = getattr(model, "subspace", None) or getattr(model, "subspace_", model)
        certificate = getattr(own, "certificate", None)
        if certificate is not None and len(certificate.groups) > 1:
            return KnownLabels.of_certificate(certificate, has_classes=has_classes)
    return KnownLabels()


def attributes_of(models: Any) -> tuple[str | int, ...]:
    """The columns that restrictions of some models need and that are no features, each once.

    Parameters
    ----------
    models : model, mapping of name to model, or None
    """
    found: dict[str | int, None] = {}
    for model in models.values() if isinstance(models, Mapping) else [models]:
        certificate = getattr(getattr(model, "subspace_", model), "certificate", None)
        restriction = getattr(certificate, "restriction", None)
        found |= dict.fromkeys(getattr(restriction, "columns", ()))
    return tuple(found)


def plain_pca(moments: Moments, n_components: int, center: Any, *, scale: bool) -> FairSubspace:
    """Ordinary PCA of these rows, to be judged about `center`.

    Ordinary PCA knows no groups, so with center="group" it is still that of the mean of all rows;
    only its errors are measured about each group's own mean, as in Samadi et al. (2018).
    """
    fitted_about: Center = "none" if center == "none" else "global"
    pca = fit_subspace(moments, n_components, criterion=_PLAIN, center=fitted_about, scale=scale)
    return replace(pca, center=center)


def audited_pca(
    moments: Moments, n_components: int, center: Any, *, scale: bool, name: str = "PCA"
) -> Audited:
    """Ordinary PCA of these rows under audit, by this name."""
    return replace(
        read_model(name, plain_pca(moments, n_components, center, scale=scale)), is_plain_pca=True
    )


def _is_ordinary(subspace: FairSubspace) -> bool:
    """Whether a fit is PCA as everybody has it; about each group's own mean it is another one."""
    certificate = subspace.certificate
    return (
        certificate is not None
        and certificate.restriction is None
        and certificate.criterion.name == _PLAIN
        and subspace.center in ("global", "none")
    )


def _default_name(model: Any, n_features: int | None) -> str:
    does = read_as_it_is(model, n_features).does
    if isinstance(does, FairSubspace) and does.certificate is not None:
        return "PCA" if _is_ordinary(does) else does.certificate.minimised
    return "array" if isinstance(model, np.ndarray) else type(model).__name__


def read_model(name: str, model: Any, n_features: int | None = None) -> Audited:
    """A model under audit, by this name."""
    read, shown = read_as_it_is(model, n_features), printable(name)
    if isinstance(read.does, RowModel):
        # It has the features, units and dimension of the model.
        axes = np.eye(read.does.dimension, read.does.n_features)
        stand_in = FairSubspace(axes, None, read.does.scale, feature_names=read.does.feature_names)
        return Audited(shown, stand_in, None, read.n_fitted, False, None, read.does, _UNKNOWN)
    certificate = read.does.certificate
    if certificate is None:
        why = "" if read.is_pca or read.part is None else _UNKNOWN
        return Audited(shown, read.does, None, read.n_fitted, read.is_pca, why_not_refitted=why)
    return Audited(
        shown, read.does, _moments_of(read), sum(certificate.counts), _is_ordinary(read.does)
    )


def _moments_of(read: ReadModel) -> Moments | None:
    """The moments that a model carries, in units of the rows that it takes."""
    if not isinstance(read.moments, Moments):
        return None
    part, kept = read.part, read.moments
    scale = read.does.scale
    if part is None or part.mean is None:
        return kept
    if not isinstance(kept, GroupMoments):
        return None
    again = kept.divided_by(1 / (np.ones_like(part.mean) if part.scale is None else part.scale))
    means, rest = exact_sum(again.means, part.mean)
    corrections = 0.0 if again.mean_corrections is None else again.mean_corrections
    means, corrections = exact_sum(means, rest + corrections)
    again = replace(
        again,
        means=means,
        mean_corrections=corrections,
        feature_names=part.feature_names,
    )
    deviations = again.standard_deviations
    usual = np.where(deviations > 0, deviations, 1.0)
    # Ordinary PCA beside it is that of features in the same units.
    return again if scale is None or np.allclose(scale, usual) else None


def with_plain_beside(audited: Sequence[Audited], here: Moments | None = None) -> list[Audited]:
    """Add one ordinary PCA for each dimension, centre, scaling and set of training rows.

    Parameters
    ----------
    audited : sequence of Audited
    here : Moments, optional
        Of the audited rows: a fair model that carries no moments of its own is compared with their
        ordinary PCA, in the units of the model.
    """
    plain: dict[_Kind, str] = {_kind_of(m): m.name for m in audited if m.is_plain_pca}
    wanted = {
        _kind_of(m): m
        for m in audited
        if (m.moments or (here is not None and m.is_fair)) and _kind_of(m) not in plain
    }
    taken = {each.name for each in audited}
    added = []
    for kind, like in wanted.items():
        name = _plain_name(kind, list(wanted))
        # Somebody's own model may be called PCA; two sets of training rows may need one each.
        name = name if name not in taken else f"{name} beside {like.name}"
        if like.moments is not None:
            pca = audited_pca(like.moments, *kind[:2], scale=kind[2], name=name)
        else:
            assert here is not None
            unit = like.subspace.scale
            pca = audited_pca(
                here if unit is None else here.divided_by(unit), *kind[:2], scale=False, name=name
            )
            if unit is not None:
                mean = pca.subspace.mean
                own = replace(pca.subspace, scale=unit, mean=None if mean is None else mean * unit)
                pca = replace(pca, subspace=own)
        added.append(replace(pca, moments=like.moments))
        taken.add(name)
        plain[kind] = name
    named = [
        replace(each, baseline=None if each.is_plain_pca else plain.get(_kind_of(each)))
        for each in audited
    ]
    return named + added


# Dimension, centre, whether scaled, and which training rows.
_Kind = tuple[int, str, bool, bytes]


def _kind_of(each: Audited) -> _Kind:
    scaled = each.subspace.scale is not None
    # The same rows give the same bytes; other rows other means. A saved model has one of all rows.
    own = each.subspace.mean if each.moments is None else each.moments.means
    rows = b"" if own is None else own.tobytes()
    return each.subspace.dimension, each.subspace.center, scaled, rows


def _plain_name(kind: _Kind, kinds: Sequence[_Kind]) -> str:
    """Name it PCA, with what distinguishes it from the other ordinary PCAs."""
    spelled = (f"d={kind[0]}", f"center={kind[1]}", "scaled" if kind[2] else "unscaled")
    differs = (len({other[i] for other in kinds}) > 1 for i in range(3))
    return " ".join(["PCA", *(word for word, tells in zip(spelled, differs, strict=True) if tells)])


def _check_same_features(audited: Sequence[Audited]) -> None:
    widths = {each.subspace.n_features for each in audited}
    names = {each.subspace.feature_names for each in audited} - {None}
    if len(widths) > 1 or len(names) > 1:
        spelled = "; ".join(f"{each.name}: {each.subspace.n_features}" for each in audited)
        raise InvalidInput(
            f"The models were fitted on different features ({spelled})",
            "Allowed side by side are models of the same features in the same order",
            "Audit them one at a time",
        )


def pca_by_dimension(
    moments: Moments, dimensions: Sequence[int], center: Any, *, scale: bool
) -> list[Audited]:
    """Ordinary PCA of these rows with each number of dimensions; all are audited in one pass."""
    most = audited_pca(moments, max(dimensions), center, scale=scale)
    return [
        replace(
            most,
            name=name_at("PCA", d),
            subspace=replace(
                most.subspace, components=most.subspace.components[:d], certificate=None
            ),
        )
        for d in dimensions
    ]


def name_at(name: str, n_components: int) -> str:
    """What a model with so many dimensions is called.

    Examples
    --------
    >>> name_at("PCA", 3)
    'PCA, d = 3'
    """
    return f"{name}, d = {n_components}"


def chosen_dimensions(n_features: int, asked: int, most: int = MOST_ESTIMATED) -> list[int]:
    """The audited dimensions: all if there are few, otherwise the smaller half and some others.

    Examples
    --------
    >>> chosen_dimensions(5, 2)
    [1, 2, 3, 4, 5]
    >>> chosen = chosen_dimensions(81, 34, 40)
    >>> len(chosen), chosen[18:24], 34 in chosen, chosen[-1]
    (40, [19, 20, 23, 26, 30, 33], True, 81)
    """
    if n_features <= most:
        return list(range(1, n_features + 1))
    first = list(range(1, most // 2 + 1))
    # One place is kept for the dimension that was requested.
    rest = np.linspace(first[-1], n_features, most - len(first))[1:]
    return sorted({asked, *first, *rest.round().astype(int).tolist()})


def estimated_of(dimensions: Sequence[int], asked: int) -> list[int]:
    """The audited dimensions for which losses on new rows are estimated.

    Examples
    --------
    >>> estimated_of(range(1, 41), 30)
    [1, 2, 3, 4, 5, 6, 7, 8, 13, 17, 22, 26, 30, 31, 35, 40]
    """
    place = list(dimensions).index(asked) + 1
    return [dimensions[i - 1] for i in chosen_dimensions(len(dimensions), place)]
