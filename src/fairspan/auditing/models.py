"""Models under audit and their ordinary-PCA baselines."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairspan.certificates.certificate import Certificate
from fairspan.errors import InvalidInput, UnknownGroup
from fairspan.estimator.fit import fit_moments
from fairspan.estimator.fit_settings import FitSettings
from fairspan.formatting.names import readable_name
from fairspan.linalg.double_double import exact_sum
from fairspan.model.adapted_model import AdaptedModel
from fairspan.model.other_packages import ReconstructionModel
from fairspan.model.subspace import FairSubspace
from fairspan.moments.base_moments import Center
from fairspan.moments.compute import Moments
from fairspan.moments.group_moments import GroupMoments
from fairspan.rows.label_matching import KnownLabels
from fairspan.rows.labels import Label, format_list, printable
from fairspan.typing import FloatArray

_PCA_CRITERION = "total_error"
_UNKNOWN_TRAINING = "how it was fitted is unknown, so it was not refitted for cross-fitting"
# Relative difference of a group's errors that is due to rounding, if the rows are those of the fit.
_SAME_ERRORS_TOL = 1e-9
# Difference of means, in standard deviations, that is due to rounding. Means of other rows differ
# by about 1 / sqrt(n), which is larger for any n below 1e12.
_SAME_MEAN_TOL = 1e-6


# Relative tolerance of fits for curves and pages: finer than a plot resolves and far below the
# sampling uncertainty.
CURVE_TOL = 1e-6


@dataclass(frozen=True, eq=False)
class AuditedModel:
    """A model under audit.

    Attributes
    ----------
    name : str
    subspace : FairSubspace
    training_moments : GroupMoments, SparseMoments, WideMoments or None
        Moments of its training rows, if it carries them.
    n_training_rows : int or None
        Number of training rows, if known.
    is_pca : bool
    baseline : str or None
        Name of its baseline PCA.
    row_model : ReconstructionModel or None
        The row-wise model if it is not a projection; `subspace` is then a placeholder for features,
        scale and dimension.
    no_refit_reason : str
        Why it cannot be refitted; empty if it can.
    refit_tol : float
        Minimum relative tolerance of refits (used if the model's own is smaller).
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
        """Training groups; empty if there was only one, as for ordinary PCA without groups."""
        certificate = self.subspace.certificate
        return () if certificate is None or len(certificate.groups) < 2 else certificate.groups

    @property
    def is_fit_unknown(self) -> bool:
        """Whether it is a model of others of which it is not known how they fitted it."""
        return self.no_refit_reason == _UNKNOWN_TRAINING

    @property
    def is_fair(self) -> bool:
        """Whether the model was fitted with a fair criterion or with a restriction."""
        return self.subspace.certificate is not None and not self.is_pca

    @property
    def favors_equal_errors(self) -> bool:
        """Whether its criterion aims at equal errors, which is a value judgment."""
        certificate = self.subspace.certificate
        return certificate is not None and certificate.criterion.favors_equal_errors

    def check_groups(self, labels: Sequence[Label]) -> None:
        """Raise UnknownGroup if a label is not among the training groups."""
        unknown = [label for label in labels if label not in self.training_groups]
        if self.training_groups and unknown:
            raise UnknownGroup(
                f"The rows contain groups that model '{self.name}' was not fitted on: "
                f"{format_list(unknown)}",
                f"Allowed: its training groups, {format_list(self.training_groups)}",
                "Check the group column for misspelled or new values, or refit with that group",
            )

    def was_fitted_on(self, moments: Moments, errors: FloatArray) -> bool:
        """Whether number and mean of the rows match those of the fit.

        A model with center="none" that carries no moments has no mean to compare; the errors of the
        groups are compared then.

        Parameters
        ----------
        moments : GroupMoments, SparseMoments or WideMoments
            Moments of the audited rows.
        errors : (k,) array
            Errors of the model on them.
        """
        if self.n_training_rows != int(moments.counts.sum()):
            return False
        certificate = self.subspace.certificate
        has_mean = self.subspace.center != "none" or self.training_moments is not None
        if certificate is not None and not has_mean:
            if len(certificate.errors) != len(errors):
                return False
            return bool(np.allclose(certificate.errors, errors, rtol=_SAME_ERRORS_TOL, atol=0))
        mean = self.subspace.mean if self.training_moments is None else self.training_moments.mean
        if mean is None:
            return False
        deviations = np.maximum(moments.standard_deviations, np.finfo(np.float64).tiny)
        return bool((np.abs(mean - moments.mean) <= _SAME_MEAN_TOL * deviations).all())


def audited_models(models: object, n_features: int | None = None) -> list[AuditedModel]:
    """Read one model or a mapping of models, and add a baseline PCA for models that carry moments.

    The baselines follow the models in the result. A single model gets a default name.

    Parameters
    ----------
    models : model, or mapping of name to model
    n_features : int, optional
        Number of features, for models that do not record it.

    Raises
    ------
    InvalidInput
        No models, or models with different features.
    InvalidType
        A model of an unsupported type, or one that is not fitted.
    """
    models_by_name = (
        models if isinstance(models, Mapping) else {_default_name(models, n_features): models}
    )
    if not models_by_name:
        raise InvalidInput(
            "models is an empty mapping", "Allowed: at least one model", "Pass a fitted model"
        )
    result = [read_model(str(name), model, n_features) for name, model in models_by_name.items()]
    _check_same_features(result)
    return with_pca_baselines(result)


def known_labels_of(models: object) -> KnownLabels:
    """Return the labels of the first model that was fitted on several groups.

    Empty if there is no such model.

    Parameters
    ----------
    models : model, mapping of name to model, sequence of AuditedModel, or None
    """
    candidates: Iterable[object] = [models]
    if isinstance(models, Mapping):
        candidates = models.values()
    elif isinstance(models, list | tuple):
        candidates = models
    for model in candidates:
        # An audited model has its subspace in `subspace`, a FairPCA in `subspace_`.
        subspace = getattr(model, "subspace", None) or getattr(model, "subspace_", model)
        certificate = getattr(subspace, "certificate", None)
        # Certificates of two tables, of which the model is refused later, have no groups.
        if certificate is not None and len(getattr(certificate, "groups", ())) > 1:
            return KnownLabels.from_certificate(certificate)
    return KnownLabels()


def restriction_columns(models: object) -> tuple[str | int, ...]:
    """Return the non-feature columns that the models' restrictions need, without duplicates.

    Parameters
    ----------
    models : model, mapping of name to model, or None
    """
    columns: dict[str | int, None] = {}
    for model in models.values() if isinstance(models, Mapping) else [models]:
        # A FairPCA has its subspace in `subspace_`.
        certificate = getattr(getattr(model, "subspace_", model), "certificate", None)
        restriction = getattr(certificate, "restriction", None)
        columns |= dict.fromkeys(getattr(restriction, "columns", ()))
    return tuple(columns)


def ordinary_pca(
    moments: Moments, n_components: int, center: Center, *, scale: bool
) -> FairSubspace:
    """Fit ordinary PCA, to be evaluated about `center`.

    With center="group" it is still fitted about the overall mean; only its errors are measured
    about the groups' means, as in Samadi et al. (2018).
    """
    fit_center: Center = "none" if center == "none" else "global"
    settings = FitSettings.parse(n_components, _PCA_CRITERION, center=fit_center, scale=scale)
    return replace(fit_moments(moments, settings).subspace, center=center)


def audited_pca(
    moments: Moments, n_components: int, center: Center, *, scale: bool, name: str = "PCA"
) -> AuditedModel:
    """Fit ordinary PCA as an audited model with this name."""
    pca = ordinary_pca(moments, n_components, center, scale=scale)
    return replace(read_model(name, pca), is_pca=True)


def _is_ordinary_pca(subspace: FairSubspace) -> bool:
    """Whether a fit is ordinary PCA; a fit about the groups' means or with a restriction is not."""
    certificate = subspace.certificate
    return (
        certificate is not None
        and certificate.restriction is None
        and certificate.criterion.name == _PCA_CRITERION
        and subspace.center in ("global", "none")
    )


def _default_name(model: object, n_features: int | None) -> str:
    """Return "PCA", the problem that a fair model solves, "array", or the name of the class."""
    mapping = AdaptedModel.from_model(model, n_features).mapping
    if isinstance(mapping, FairSubspace) and mapping.certificate is not None:
        return "PCA" if _is_ordinary_pca(mapping) else model_name(mapping.certificate)
    return "array" if isinstance(model, np.ndarray) else type(model).__name__


def model_name(certificate: Certificate) -> str:
    """Name of a fair model: the problem that it solves, as on the page of a report.

    Examples
    --------
    >>> import numpy as np
    >>> from fairspan import FairPCA
    >>> X = np.array([[3.0, 0], [-3, 0], [0, 2], [0, -2]])
    >>> model_name(FairPCA(1).fit(X, sensitive_features=["a", "a", "b", "b"]).solution_)
    'minimax loss'
    """
    criterion = certificate.criterion.name
    # Only the criterion is put into words: a restriction is a call with its parameters.
    return certificate.problem_text.replace(criterion, readable_name(criterion), 1)


def read_model(name: str, model: object, n_features: int | None = None) -> AuditedModel:
    """Read a model for auditing under this name, without a baseline.

    A model that is not a projection gets a placeholder as subspace, and is evaluated row by row
    instead. Only models with a certificate carry moments of their training rows.
    """
    adapted = AdaptedModel.from_model(model, n_features)
    shown_name = printable(name)
    if isinstance(adapted.mapping, ReconstructionModel):
        # Placeholder with the model's features, scale and dimension.
        axes = np.eye(adapted.mapping.dimension, adapted.mapping.n_features)
        placeholder = FairSubspace(
            axes,
            mean=None,
            scale=adapted.mapping.scale,
            feature_names=adapted.mapping.feature_names,
        )
        return AuditedModel(
            shown_name,
            placeholder,
            training_moments=None,
            n_training_rows=adapted.n_fit_rows,
            is_pca=False,
            row_model=adapted.mapping,
            no_refit_reason=_UNKNOWN_TRAINING,
        )
    certificate = adapted.mapping.certificate
    if certificate is None:
        # A bare subspace or PCA is refitted as PCA. Another model that is read through its methods,
        # as `row_model` tells, cannot be refitted, since it is not known how it was fitted.
        reason = "" if adapted.is_pca or adapted.row_model is None else _UNKNOWN_TRAINING
        return AuditedModel(
            shown_name,
            adapted.mapping,
            training_moments=None,
            n_training_rows=adapted.n_fit_rows,
            is_pca=adapted.is_pca,
            no_refit_reason=reason,
        )
    return AuditedModel(
        shown_name,
        adapted.mapping,
        training_moments=_carried_moments(adapted),
        n_training_rows=sum(certificate.counts),
        is_pca=_is_ordinary_pca(adapted.mapping),
    )


def _carried_moments(adapted: AdaptedModel) -> Moments | None:
    """Return the training moments that a model carries, in the units of its input rows.

    After preprocessing in a pipeline, x -> (x - mean) / scale, they are transformed back. None if
    it carries none or that is not possible: for moments without matrices, and for a scale other
    than the standard deviations, which a baseline PCA of the input rows would not have.
    """
    if not isinstance(adapted.moments, Moments):
        return None
    # For models read through their methods, this has the standardization that precedes them.
    preprocessing = adapted.row_model
    carried = adapted.moments
    scale = adapted.mapping.scale
    if preprocessing is None or preprocessing.mean is None:
        return carried
    if not isinstance(carried, GroupMoments):
        return None
    divisor = preprocessing.scale
    if divisor is None:
        divisor = np.ones_like(preprocessing.mean)
    unscaled = carried.divided_by(1 / divisor)
    # Add the mean in double-double precision: moments carry a correction to their rounded means.
    means, remainder = exact_sum(unscaled.means, preprocessing.mean)
    corrections = 0.0 if unscaled.mean_corrections is None else unscaled.mean_corrections
    means, corrections = exact_sum(means, remainder + corrections)
    unscaled = replace(
        unscaled,
        means=means,
        mean_corrections=corrections,
        feature_names=preprocessing.feature_names,
    )
    deviations = unscaled.standard_deviations
    pooled_deviations = np.where(deviations > 0, deviations, 1.0)
    # The baseline PCA must use the same units.
    if scale is None or np.allclose(scale, pooled_deviations):
        return unscaled
    return None


def lacks_baseline(models: Sequence[AuditedModel]) -> bool:
    """Whether a fair model is not compared with ordinary PCA, as one that was saved."""
    return any(model.is_fair and model.baseline is None for model in models)


def with_pca_baselines(
    models: Sequence[AuditedModel], row_moments: Moments | None = None
) -> list[AuditedModel]:
    """Add one baseline PCA per dimension, center, scaling and set of training rows.

    These four are the key of a model. A PCA among the models serves as baseline of those with the
    same key.

    Parameters
    ----------
    models : sequence of AuditedModel
    row_moments : Moments, optional
        Moments of the audited rows: a fair model without training moments is compared with ordinary
        PCA of these rows, in the model's units.

    Returns
    -------
    list of AuditedModel
        The models, with the names of their baselines, followed by the added ones.
    """
    keys = [_BaselineKey.from_model(model) for model in models]
    name_by_key = {key: model.name for key, model in zip(keys, models, strict=True) if model.is_pca}
    # A model for each key that lacks a baseline, whose training rows this is fitted to.
    example_by_key = {
        key: model
        for key, model in zip(keys, models, strict=True)
        if key not in name_by_key
        and (model.training_moments or (row_moments is not None and model.is_fair))
    }
    used_names = {model.name for model in models}
    baselines = []
    for key, example in example_by_key.items():
        name = _baseline_name(key, example_by_key)
        # The name may be taken by a user's model or by the baseline of other training rows.
        if name in used_names:
            name = f"{name} for {example.name}"
        pca = _fit_baseline(example, row_moments, name)
        baselines.append(replace(pca, training_moments=example.training_moments))
        used_names.add(name)
        name_by_key[key] = name
    with_baselines = [
        replace(model, baseline=None if model.is_pca else name_by_key.get(key))
        for key, model in zip(keys, models, strict=True)
    ]
    return with_baselines + baselines


def _fit_baseline(model: AuditedModel, row_moments: Moments | None, name: str) -> AuditedModel:
    """Fit ordinary PCA with the dimension, center and units of a model, under this name.

    It is fitted to the training rows of the model if these are known, otherwise to the audited
    rows, of which `row_moments` are the moments.
    """
    dimension = model.subspace.dimension
    center = model.subspace.center
    scale = model.subspace.scale
    if model.training_moments is not None:
        return audited_pca(
            model.training_moments, dimension, center, scale=model.subspace.is_scaled, name=name
        )
    assert row_moments is not None
    # Fit to rows in the model's units, and then let the PCA divide rows by its scale.
    pca = audited_pca(row_moments.in_units(scale), dimension, center, scale=False, name=name)
    if scale is None:
        return pca
    mean = None if pca.subspace.mean is None else pca.subspace.mean * scale
    return replace(pca, subspace=replace(pca.subspace, scale=scale, mean=mean))


@dataclass(frozen=True)
class _BaselineKey:
    """Properties that a model shares with its baseline PCA.

    Attributes
    ----------
    dimension : int
    center : {"global", "group", "none"}
    is_scaled : bool
        Whether features are scaled.
    training_rows : bytes
        Fingerprint of the training rows: the bytes of their means.
    """

    dimension: int
    center: Center
    is_scaled: bool
    training_rows: bytes

    @classmethod
    def from_model(cls, model: AuditedModel) -> "_BaselineKey":
        """Return the key of a model."""
        # A saved model has only the overall mean of its training rows, not those of the groups.
        means = model.subspace.mean
        if model.training_moments is not None:
            means = model.training_moments.means
        return cls(
            dimension=model.subspace.dimension,
            center=model.subspace.center,
            is_scaled=model.subspace.is_scaled,
            training_rows=b"" if means is None else means.tobytes(),
        )


def _baseline_name(key: _BaselineKey, keys: Iterable[_BaselineKey]) -> str:
    """Return "PCA" with the qualifiers that distinguish it from the baselines with other keys."""
    keys = list(keys)
    words = ["PCA"]
    if len({other.dimension for other in keys}) > 1:
        words.append(f"d={key.dimension}")
    if len({other.center for other in keys}) > 1:
        words.append(f"center={key.center}")
    if len({other.is_scaled for other in keys}) > 1:
        words.append("scaled" if key.is_scaled else "unscaled")
    return " ".join(words)


def _check_same_features(models: Sequence[AuditedModel]) -> None:
    """Raise InvalidInput if models differ in number or names of features, as far as known."""
    feature_counts = {model.subspace.n_features for model in models}
    names = {model.subspace.feature_names for model in models} - {None}
    if len(feature_counts) > 1 or len(names) > 1:
        features = "; ".join(f"{model.name}: {_describe_features(model)}" for model in models)
        raise InvalidInput(
            f"The models have different features ({features})",
            "Allowed: models with the same features in the same order",
            "Audit them separately",
        )


def _describe_features(model: AuditedModel) -> str:
    """Describe the features of a model by their names, or by their number if they have none."""
    names = model.subspace.feature_names
    if names is None:
        return f"{model.subspace.n_features} without names"
    return format_list(list(names))
