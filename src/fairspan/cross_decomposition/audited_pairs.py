"""Models of two tables, as an audit reads them: a name and the settings of their fit."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fairspan.cross_decomposition.fit_pairs import fit_pairs
from fairspan.cross_decomposition.paired_criteria import TotalCovariance
from fairspan.cross_decomposition.paired_subspace import PairedSubspace
from fairspan.cross_decomposition.pose_pairs import DEFAULT_TOL, PairedSettings
from fairspan.errors import InvalidInput, InvalidType, describe_type
from fairspan.moments.group_moments import GroupMoments


@dataclass(frozen=True)
class AuditedPair:
    """Model of two tables that is audited.

    Attributes
    ----------
    name : str
    settings : PairedSettings
    """

    name: str
    settings: PairedSettings

    def fit(self, moments: GroupMoments, n_targets: int) -> PairedSubspace:
        """Fit the model to moments of the joined table."""
        return fit_pairs(moments, n_targets, self.settings).subspace

    def with_n_components(self, n_components: int) -> "AuditedPair":
        """Return the model with another number of components."""
        return replace(self, settings=replace(self.settings, n_components=n_components))


def read_pairs(models: object) -> list[AuditedPair]:
    """Read the settings of one or several models, and those of the ordinary one, which comes first.

    Parameters
    ----------
    models : FairPLS, FairCCA, PairedSubspace, or mapping of str to these

    Raises
    ------
    InvalidType, InvalidInput
        Another object, a model that is not fitted, or an empty mapping.
    """
    named = models if isinstance(models, Mapping) else {None: models}
    if not named:
        raise InvalidInput(
            "The mapping of models is empty", "Allowed: at least one fitted model", "Pass a model"
        )
    pairs: list[AuditedPair] = []
    # Problems of the ordinary models so far, which differ in more than the tolerance.
    ordinary_problems: list[PairedSettings] = []
    for name, model in named.items():
        settings = _fitted_pair(name, model).settings
        ordinary = replace(settings, criterion=TotalCovariance(), restriction=None)
        ordinary_problem = replace(ordinary, tol=DEFAULT_TOL)
        is_ordinary = ordinary_problem == replace(settings, tol=DEFAULT_TOL)
        if ordinary_problem not in ordinary_problems:
            ordinary_name = settings.method.upper()
            if is_ordinary and name is not None:
                ordinary_name = str(name)
            elif ordinary_problems:
                ordinary_name += f" of {settings.n_components}"
            pairs.append(AuditedPair(ordinary_name, ordinary))
            ordinary_problems.append(ordinary_problem)
        if not is_ordinary:
            pairs.append(AuditedPair(name or _describe_settings(settings), settings))
    return pairs


def _fitted_pair(name: str | None, model: object) -> PairedSubspace:
    """Return the pair of subspaces of a model.

    Raises
    ------
    InvalidType
        Another object, or a model that is not fitted.
    """
    pair = model if isinstance(model, PairedSubspace) else getattr(model, "subspace_", None)
    if isinstance(pair, PairedSubspace):
        return pair
    subject = "The model" if name is None else f"The model {name!r}"
    raise InvalidType(
        f"{subject} is {describe_type(model)}",
        "Allowed: a fitted FairPLS, FairCCA or PairedSubspace, or names mapped to these",
        "Fit the model first",
    )


def _describe_settings(settings: PairedSettings) -> str:
    """Describe a model in a few words, such as "PLS, minimax loss"."""
    words = [settings.method.upper(), settings.criterion.name.replace("_", " ")]
    if settings.restriction is not None:
        words.append("mean parity")
    return ", ".join(words)
