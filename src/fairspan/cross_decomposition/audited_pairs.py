"""Models of two tables, as an audit reads them: a name and the settings of their fit."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fairspan.cross_decomposition.fit_pairs import fit_pairs
from fairspan.cross_decomposition.paired_criteria import TotalCovariance
from fairspan.cross_decomposition.paired_subspace import PairedSubspace
from fairspan.cross_decomposition.pose_pairs import PairedSettings
from fairspan.errors import InvalidType, describe_type
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
    InvalidType
        Another object, or a model that is not fitted.
    """
    named = models if isinstance(models, Mapping) else {None: models}
    audited: list[AuditedPair] = []
    for name, model in named.items():
        pair = model if isinstance(model, PairedSubspace) else getattr(model, "subspace_", None)
        if not isinstance(pair, PairedSubspace):
            raise InvalidType(
                f"The model {'' if name is None else repr(name) + ' '}is {describe_type(model)}",
                "Allowed: a fitted FairPLS, FairCCA or PairedSubspace, or names mapped to them",
                "Fit the model first",
            )
        settings = pair.settings
        usual = replace(settings, criterion=TotalCovariance(), restriction=None)
        method = settings.method.upper()
        if all(each.settings != usual for each in audited):
            suffix = "" if not audited else f" of {settings.n_components}"
            audited.append(AuditedPair(method + suffix, usual))
        if settings != usual:
            criterion = settings.criterion.name.replace("_", " ")
            restriction = "" if settings.restriction is None else ", mean parity"
            audited.append(AuditedPair(name or f"{method}, {criterion}{restriction}", settings))
    return audited
