"""Tables drawn from known distributions, and the true losses of models fitted to them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import fairspan as fs

MATERIALITY = 0.01
Recommended = str | None


@dataclass
class Distribution:
    """Rows with mean zero and second moment F F' + noise^2 I.

    Attributes
    ----------
    factors : (p, q) array
        The matrix F.
    noise : float
    """

    factors: Any
    noise: float = 0.0

    def draw(self, rng, n):
        """Draw n normal rows."""
        p, q = self.factors.shape
        rows = rng.normal(size=(n, q)) @ self.factors.T
        return rows + self.noise * rng.normal(size=(n, p)) if self.noise else rows

    def loss_share(self, model):
        """Return the loss of a model about its mean, as a share of the variance about it."""
        mean, components = model.mean_, model.components_
        if model.scale_ is not None:
            raise NotImplementedError("scaled models")
        d, p = components.shape
        factors = np.column_stack([self.factors, mean])
        values = np.linalg.eigvalsh(factors.T @ factors)[::-1]
        variance = values.sum() + p * self.noise**2
        captured = ((components @ factors) ** 2).sum() + d * self.noise**2
        best = values[:d].sum() + d * self.noise**2
        return float((best - captured) / variance)


@dataclass
class DrawnTable:
    """Rows of groups with known distributions, and settings of fits.

    Attributes
    ----------
    name : str
    X, groups : arrays
    distributions : dict of group to Distribution
    d : int
    options : dict
        Further arguments of the audit.
    """

    name: str
    X: Any
    groups: Any
    distributions: Mapping[str, Distribution]
    d: int
    options: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def draw(cls, name, rng, sizes, distributions, d, **options):
        """Draw rows of each group."""
        blocks = [distributions[group].draw(rng, n) for group, n in sizes.items()]
        groups = np.repeat(list(sizes), list(sizes.values()))
        return cls(name, np.vstack(blocks), groups, distributions, d, options)


@dataclass
class CheckedAudit:
    """An audit of a drawn table, with the true losses under its models.

    Attributes
    ----------
    table : DrawnTable
    audit : Audit
    losses : dict of model to dict of group to float
        True losses as shares of the variance.
    """

    table: DrawnTable
    audit: Any
    losses: dict[str, dict[str, float]]

    @property
    def recommendation(self):
        return self.audit.recommendation

    def largest(self, model):
        """True largest loss under a model."""
        return max(self.losses[model].values())

    def change(self, model, group):
        """True change in loss, and so in error, from PCA."""
        return self.losses[model][group] - self.losses["PCA"][group]

    def describe_truth(self):
        """True losses under PCA, in per cent."""
        losses = self.losses["PCA"]
        worst = max(losses, key=lambda group: losses[group])
        n_material = sum(loss >= MATERIALITY for loss in losses.values())
        return (
            f"largest loss {100 * losses[worst]:.1f} % ({worst}), {n_material} of {len(losses)} "
            "groups above 1 %"
        )

    def false_claims(self):
        """Claims of states, verdicts and the recommendation that are not true."""
        return [*self._false_states(), *self._false_verdicts(), *self._false_recommendation()]

    def _false_states(self):
        pca = next(model for model in self.audit.models if model.is_pca)
        for group in pca.groups:
            loss = self.losses["PCA"][group.group]
            if group.state in ("harmed", "minor") and loss <= 0:
                yield f"{group.group} is {group.state}, but loses {loss:.4f}"
            if group.state == "no material harm" and loss >= MATERIALITY:
                yield f"{group.group} has no material harm, but loses {loss:.4f}"

    def _false_verdicts(self):
        for verdict in self.audit.verdicts:
            changes = {group: self.change(verdict.model, group) for group in self.losses["PCA"]}
            gain = min((changes[group] for group in verdict.groups), default=0.0)
            if verdict.kind.startswith("harm, repair at") and gain >= 0:
                yield f"{verdict.model} is said to lower a loss, but does not"
            if verdict.kind == "harm, repair helps":
                if gain >= 0:
                    yield f"{verdict.model} is said to help, but does not"
                if max(changes.values()) > MATERIALITY:
                    yield f"{verdict.model} is said to help, but costs {max(changes.values()):.4f}"
            if verdict.kind == "harm, repair at a cost" and max(changes.values()) <= 0:
                yield f"{verdict.model} is said to have a cost, but has none"

    def _false_recommendation(self):
        recommendation = self.recommendation
        if recommendation is None or recommendation.model is None:
            return
        largest = self.largest(recommendation.model)
        if largest > self.largest("PCA") + MATERIALITY:
            yield f"{recommendation.model} is recommended, but loses {largest:.4f}"

    def is_best_offered(self, tolerance=MATERIALITY):
        """Whether no model compared has a smaller true largest loss than the recommended one."""
        smallest = min(
            self.largest(model.model)
            for model in self.recommendation.compared
            if not model.favors_equal_errors
        )
        return self.largest(self.recommendation.model) <= smallest + tolerance


def audit_drawn_table(table, criteria=("minimax_loss",)):
    """Fit PCA and the criteria to a drawn table, and audit them."""
    models = {
        name: fs.FairPCA(table.d, criterion=name).fit(table.X, sensitive_features=table.groups)
        for name in criteria
    }
    audit = fs.audit(models, table.X, table.groups, **table.options)
    plain = fs.FairPCA(table.d, criterion="total_error")
    all_models = {**models, "PCA": plain.fit(table.X, sensitive_features=table.groups)}
    losses = {
        name: {
            group: distribution.loss_share(model)
            for group, distribution in table.distributions.items()
        }
        for name, model in all_models.items()
    }
    return CheckedAudit(table, audit, losses)
