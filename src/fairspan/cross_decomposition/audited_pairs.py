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
    audited: list[AuditedPair] = []
    usual_problems: list[PairedSettings] = []
    for name, model in named.items():
        pair = model if isinstance(model, PairedSubspace) else getattr(model, "subspace_", None)
        if not isinstance(pair, PairedSubspace):
            raise InvalidType(
                f"The model {'' if name is None else repr(name) + ' '}is {describe_type(model)}",
                "Allowed: a fitted FairPLS, FairCCA or PairedSubspace, or names mapped to these",
                "Fit the model first",
            )
        settings = pair.settings
        usual = replace(settings, criterion=TotalCovariance(), restriction=None)
        problem = replace(usual, tol=DEFAULT_TOL)
        is_usual = problem == replace(settings, tol=DEFAULT_TOL)
        method = settings.method.upper()
        if problem not in usual_problems:
            suffix = "" if not usual_problems else f" of {settings.n_components}"
            usual_name = name if is_usual and name is not None else method + suffix
            audited.append(AuditedPair(str(usual_name), usual))
            usual_problems.append(problem)
        if not is_usual:
            criterion = settings.criterion.name.replace("_", " ")
            restriction = "" if settings.restriction is None else ", mean parity"
            audited.append(AuditedPair(name or f"{method}, {criterion}{restriction}", settings))
    return audited
