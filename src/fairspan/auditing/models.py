"""The models of an audit, and ordinary PCA beside them, with one or with several dimensions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairspan.errors import InvalidInput, UnknownGroup
from fairspan.estimator.fit import fit_subspace
from fairspan.linalg.double_double import exact_sum
from fairspan.model.adapters import ReconstructionModel
from fairspan.model.subspace import AdaptedModel, FairSubspace, adapt_model
from fairspan.moments.base import Center
from fairspan.moments.group_moments import GroupMoments
from fairspan.moments.of_rows import Moments
from fairspan.rows.groups import Label, format_list, printable
from fairspan.rows.label_matching import KnownLabels
from fairspan.typing import FloatArray

_PCA_CRITERION = "total_error"
_UNKNOWN_TRAINING = "how it was fitted is not known, so it was not fitted again without each part"
MAX_ESTIMATED_DIMENSIONS = 16
"""Numbers of dimensions of which it is estimated what new rows would show."""


# Of fits for curves and pages, as a share of the objective: more than a picture shows, and far less
# than rows leave uncertain.
CURVE_TOL = 1e-6


@dataclass(frozen=True, eq=False)
class AuditedModel:
    """A model under audit.

    Attributes
    ----------
    name : str
    subspace : FairSubspace
    moments : GroupMoments, SparseMoments, WideMoments or None
        Of the rows that it was fitted on, if it carries them.
    n_fitted : int or None
        Number of rows that it was fitted on, if it is known.
    is_pca : bool
    baseline : str or None
        Name of the ordinary PCA that it is compared with.
    by_rows : ReconstructionModel or None
        What it does to rows, where it is no projection. Its subspace then is a stand-in that holds
        features, units and dimension alone.
    no_refit_reason : str
        Why it is not to be fitted again without parts of the rows; empty if it may be.
    refit_tol : float
        At which gap, as a share of the objective, these fits may stop if that of the model is less.
    """

    name: str
    subspace: FairSubspace
    training_moments: Moments | None
    n_training_rows: int | None
    is_pca: bool
    baseline: str | None = None
    row_model: ReconstructionModel | None = None
    no_refit_reason: str = ""
    refit_tol: float = 0.0

    @property
    def training_groups(self) -> tuple[Label, ...]:
        """Groups that the model was fitted on; none if it was fitted on a single one.

        A model of a single group is ordinary PCA, which knows nothing of groups.
        """
        certificate = self.subspace.certificate
        return () if certificate is None or len(certificate.groups) < 2 else certificate.groups

    @property
    def is_fair(self) -> bool:
        """Whether it was fitted by another criterion than ordinary PCA, or under a restriction."""
        return self.subspace.certificate is not None and not self.is_pca

    def check_groups(self, labels: Sequence[Label]) -> None:
        """Raise UnknownGroup if the rows hold a group that the model was not fitted on."""
        unknown = [label for label in labels if label not in self.training_groups]
        if self.training_groups and unknown:
            raise UnknownGroup(
                f"The rows hold groups that model '{self.name}' does not know: {format_list(unknown)}",
                f"It was fitted on the groups {format_list(self.training_groups)}",
                "Check the group column for misspelt or new values, or fit again with that group",
            )

    def was_fitted_on(self, moments: Moments, errors: FloatArray) -> bool:
        """Whether these are, judging by the figures, the rows it was fitted on.

        Parameters
        ----------
        moments : GroupMoments, SparseMoments or WideMoments
            Of the audited rows.
        errors : (k,) array
            The model's errors on them.
        """
        if self.n_training_rows != int(moments.counts.sum()):
            return False
        certificate = self.subspace.certificate
        if (
            self.subspace.center == "none"
            and self.training_moments is None
            and certificate is not None
        ):
            # Nothing was centred, so there is no mean to compare; the errors tell instead.
            return len(certificate.errors) == len(errors) and bool(
                np.allclose(certificate.errors, errors, rtol=1e-9, atol=0)
            )
        mean = self.subspace.mean if self.training_moments is None else self.training_moments.mean
        spread = np.maximum(moments.standard_deviations, np.finfo(np.float64).tiny)
        return mean is not None and bool((np.abs(mean - moments.mean) <= 1e-6 * spread).all())


def audited_models(models: Any, n_features: int | None = None) -> list[AuditedModel]:
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
    return with_pca_baselines(audited)


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
            return KnownLabels.from_certificate(certificate, has_y=has_classes)
    return KnownLabels()


def restriction_columns(models: Any) -> tuple[str | int, ...]:
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


def ordinary_pca(moments: Moments, n_components: int, center: Any, *, scale: bool) -> FairSubspace:
    """Ordinary PCA of these rows, to be judged about `center`.

    Ordinary PCA knows no groups, so with center="group" it is still that of the mean of all rows;
    only its errors are measured about each group's own mean, as in Samadi et al. (2018).
    """
    fit_center: Center = "none" if center == "none" else "global"
    pca = fit_subspace(
        moments, n_components, criterion=_PCA_CRITERION, center=fit_center, scale=scale
    )
    return replace(pca, center=center)


def audited_pca(
    moments: Moments, n_components: int, center: Any, *, scale: bool, name: str = "PCA"
) -> AuditedModel:
    """Ordinary PCA of these rows under audit, by this name."""
    return replace(
        read_model(name, ordinary_pca(moments, n_components, center, scale=scale)), is_pca=True
    )


def _is_ordinary_pca(subspace: FairSubspace) -> bool:
    """Whether a fit is PCA as everybody has it; about each group's own mean it is another one."""
    certificate = subspace.certificate
    return (
        certificate is not None
        and certificate.restriction is None
        and certificate.criterion.name == _PCA_CRITERION
        and subspace.center in ("global", "none")
    )


def _default_name(model: Any, n_features: int | None) -> str:
    does = adapt_model(model, n_features).mapping
    if isinstance(does, FairSubspace) and does.certificate is not None:
        return "PCA" if _is_ordinary_pca(does) else does.certificate.problem_text
    return "array" if isinstance(model, np.ndarray) else type(model).__name__


def read_model(name: str, model: Any, n_features: int | None = None) -> AuditedModel:
    """A model under audit, by this name."""
    read, shown = adapt_model(model, n_features), printable(name)
    if isinstance(read.mapping, ReconstructionModel):
        # It has the features, units and dimension of the model.
        axes = np.eye(read.mapping.dimension, read.mapping.n_features)
        stand_in = FairSubspace(
            axes, None, read.mapping.scale, feature_names=read.mapping.feature_names
        )
        return AuditedModel(
            shown, stand_in, None, read.n_fit_rows, False, None, read.mapping, _UNKNOWN_TRAINING
        )
    certificate = read.mapping.certificate
    if certificate is None:
        why = "" if read.is_pca or read.row_model is None else _UNKNOWN_TRAINING
        return AuditedModel(
            shown, read.mapping, None, read.n_fit_rows, read.is_pca, no_refit_reason=why
        )
    return AuditedModel(
        shown,
        read.mapping,
        _carried_moments(read),
        sum(certificate.counts),
        _is_ordinary_pca(read.mapping),
    )


def _carried_moments(read: AdaptedModel) -> Moments | None:
    """The moments that a model carries, in units of the rows that it takes."""
    if not isinstance(read.moments, Moments):
        return None
    preprocessing, carried = read.row_model, read.moments
    scale = read.mapping.scale
    if preprocessing is None or preprocessing.mean is None:
        return carried
    if not isinstance(carried, GroupMoments):
        return None
    unscaled = carried.divided_by(
        1
        / (np.ones_like(preprocessing.mean) if preprocessing.scale is None else preprocessing.scale)
    )
    means, rest = exact_sum(unscaled.means, preprocessing.mean)
    corrections = 0.0 if unscaled.mean_corrections is None else unscaled.mean_corrections
    means, corrections = exact_sum(means, rest + corrections)
    unscaled = replace(
        unscaled,
        means=means,
        mean_corrections=corrections,
        feature_names=preprocessing.feature_names,
    )
    deviations = unscaled.standard_deviations
    pooled_deviations = np.where(deviations > 0, deviations, 1.0)
    # Ordinary PCA beside it is that of features in the same units.
    return unscaled if scale is None or np.allclose(scale, pooled_deviations) else None


def with_pca_baselines(
    models: Sequence[AuditedModel], row_moments: Moments | None = None
) -> list[AuditedModel]:
    """Add one ordinary PCA for each dimension, centre, scaling and set of training rows.

    Parameters
    ----------
    audited : sequence of Audited
    here : Moments, optional
        Of the audited rows: a fair model that carries no moments of its own is compared with their
        ordinary PCA, in the units of the model.
    """
    plain: dict[_BaselineKey, str] = {_baseline_key(m): m.name for m in models if m.is_pca}
    needed = {
        _baseline_key(m): m
        for m in models
        if (m.training_moments or (row_moments is not None and m.is_fair))
        and _baseline_key(m) not in plain
    }
    used_names = {each.name for each in models}
    baselines = []
    for key, example in needed.items():
        name = _baseline_name(key, list(needed))
        # Somebody's own model may be called PCA; two sets of training rows may need one each.
        name = name if name not in used_names else f"{name} beside {example.name}"
        if example.training_moments is not None:
            pca = audited_pca(example.training_moments, *key[:2], scale=key[2], name=name)
        else:
            assert row_moments is not None
            unit = example.subspace.scale
            pca = audited_pca(
                row_moments if unit is None else row_moments.divided_by(unit),
                *key[:2],
                scale=False,
                name=name,
            )
            if unit is not None:
                mean = pca.subspace.mean
                own = replace(pca.subspace, scale=unit, mean=None if mean is None else mean * unit)
                pca = replace(pca, subspace=own)
        baselines.append(replace(pca, training_moments=example.training_moments))
        used_names.add(name)
        plain[key] = name
    named = [
        replace(each, baseline=None if each.is_pca else plain.get(_baseline_key(each)))
        for each in models
    ]
    return named + baselines


# Dimension, centre, whether scaled, and which training rows.
_BaselineKey = tuple[int, str, bool, bytes]


def _baseline_key(each: AuditedModel) -> _BaselineKey:
    scaled = each.subspace.scale is not None
    # The same rows give the same bytes; other rows other means. A saved model has one of all rows.
    own = each.subspace.mean if each.training_moments is None else each.training_moments.means
    rows = b"" if own is None else own.tobytes()
    return each.subspace.dimension, each.subspace.center, scaled, rows


def _baseline_name(kind: _BaselineKey, kinds: Sequence[_BaselineKey]) -> str:
    """Name it PCA, with what distinguishes it from the other ordinary PCAs."""
    qualifiers = (f"d={kind[0]}", f"center={kind[1]}", "scaled" if kind[2] else "unscaled")
    varies = (len({other[i] for other in kinds}) > 1 for i in range(3))
    return " ".join(
        [
            "PCA",
            *(word for word, varies_here in zip(qualifiers, varies, strict=True) if varies_here),
        ]
    )


def _check_same_features(audited: Sequence[AuditedModel]) -> None:
    feature_counts = {each.subspace.n_features for each in audited}
    names = {each.subspace.feature_names for each in audited} - {None}
    if len(feature_counts) > 1 or len(names) > 1:
        qualifiers = "; ".join(f"{each.name}: {each.subspace.n_features}" for each in audited)
        raise InvalidInput(
            f"The models were fitted on different features ({qualifiers})",
            "Allowed side by side are models of the same features in the same order",
            "Audit them one at a time",
        )


def pca_by_dimension(
    moments: Moments, dimensions: Sequence[int], center: Any, *, scale: bool
) -> list[AuditedModel]:
    """Ordinary PCA of these rows with each number of dimensions; all are audited in one pass."""
    largest_pca = audited_pca(moments, max(dimensions), center, scale=scale)
    return [
        replace(
            largest_pca,
            name=dimension_name("PCA", d),
            subspace=replace(
                largest_pca.subspace,
                components=largest_pca.subspace.components[:d],
                certificate=None,
            ),
        )
        for d in dimensions
    ]


def dimension_name(name: str, n_components: int) -> str:
    """What a model with so many dimensions is called.

    Examples
    --------
    >>> dimension_name("PCA", 3)
    'PCA, d = 3'
    """
    return f"{name}, d = {n_components}"


def select_dimensions(
    n_features: int, requested: int, max_count: int = MAX_ESTIMATED_DIMENSIONS
) -> list[int]:
    """The audited dimensions: all if there are few, otherwise the smaller half and some others.

    Examples
    --------
    >>> select_dimensions(5, 2)
    [1, 2, 3, 4, 5]
    >>> chosen = select_dimensions(81, 34, 40)
    >>> len(chosen), chosen[18:24], 34 in chosen, chosen[-1]
    (40, [19, 20, 23, 26, 30, 33], True, 81)
    """
    if n_features <= max_count:
        return list(range(1, n_features + 1))
    first = list(range(1, max_count // 2 + 1))
    # One place is kept for the dimension that was requested.
    rest = np.linspace(first[-1], n_features, max_count - len(first))[1:]
    return sorted({requested, *first, *rest.round().astype(int).tolist()})


def select_estimated(dimensions: Sequence[int], requested: int) -> list[int]:
    """The audited dimensions for which losses on new rows are estimated.

    Examples
    --------
    >>> select_estimated(range(1, 41), 30)
    [1, 2, 3, 4, 5, 6, 7, 8, 13, 17, 22, 26, 30, 31, 35, 40]
    """
    place = list(dimensions).index(requested) + 1
    return [dimensions[i - 1] for i in select_dimensions(len(dimensions), place)]
