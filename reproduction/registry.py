"""Experiments by name, imported when they are used: listing them costs nothing."""

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from fairspan.errors import InvalidParameter

if TYPE_CHECKING:
    from reproduction.experiment import Experiment


class Entry(NamedTuple):
    """Place and title of an experiment.

    Attributes
    ----------
    home : str
        ``module:name``, the module below reproduction.
    title : str
        The same as the experiment's own.
    """

    home: str
    title: str


EXPERIMENTS = {
    "notes-example": Entry(
        "notes_example:NOTES_EXAMPLE", "A toy of six rows, step by step, and the trade-off sweep"
    ),
    "samadi-errors": Entry(
        "samadi:ERRORS", "Errors of PCA and fair PCA by group, on faces and on credit"
    ),
    "samadi-losses": Entry(
        "samadi:LOSSES", "Excess losses of PCA and fair PCA by group, on faces and on credit"
    ),
    "tantipongpipat": Entry(
        "tantipongpipat:TANTIPONGPIPAT", "Three to ten groups: relaxation, rank, and exactly d"
    ),
    "vu-table1": Entry(
        "vu.tables:TABLE_1", "RFPCA and others: errors out of sample, fifteen data sets"
    ),
    "vu-table2": Entry(
        "vu.shapes:TABLE_2", "The fifteen data sets: rows, features and sensitive attribute"
    ),
    "vu-table3": Entry(
        "vu.tables:TABLE_3", "RFPCA and others: errors in sample, fifteen data sets"
    ),
    "vu-table4": Entry(
        "vu.tables:TABLE_4", "RFPCA and others: how well a linear classifier finds the group"
    ),
    "vu-tolerances": Entry(
        "vu.tolerances:TOLERANCES",
        "CFPCA by its tolerance: how well a linear classifier finds the group",
    ),
    "vu-figure1": Entry(
        "vu.toy:FIGURE_1", "RFPCA: the first direction of a toy as the penalty grows"
    ),
    "vu-radius": Entry(
        "vu.radius:RADIUS", "RFPCA: errors out of sample as the radius of a group grows"
    ),
    "vu-pareto": Entry(
        "vu.pareto:PARETO", "RFPCA and others: gap against error, over the exact frontier"
    ),
    "vu-dimensions": Entry(
        "vu.dimensions:DIMENSIONS",
        "RFPCA, FairPCA and PCA: errors by group against the number of components",
    ),
    "fair-cca": Entry(
        "fair_cca:FAIR_CCA",
        "Fair canonical correlation: published methods and the proven optimum",
    ),
    "blog-bias": Entry(
        "blog:BIAS", "Label bias in Adult: four groups, and a classifier by country"
    ),
    "blog-ucb1": Entry("blog:BANDIT", "UCB1 on ten actions: regret beside its bound"),
    "blog-regression": Entry("blog:LEAST_SQUARES", "Least squares in one and in five variables"),
    "blog-pca": Entry(
        "blog:COMPONENTS",
        "Principal components of faces: uncorrelated, and few keep most of the variance",
    ),
}


def experiment_of(name: str) -> "Experiment":
    """Return the experiment of this name.

    Raises
    ------
    InvalidParameter
        There is none; the message lists all.
    """
    if name not in EXPERIMENTS:
        raise InvalidParameter(
            f"There is no experiment {name!r}",
            f"Allowed: {', '.join(EXPERIMENTS)}",
            "Choose one of these; ./run reproduce --help says what each shows",
        )
    module, _, attribute = EXPERIMENTS[name].home.partition(":")
    experiment: Experiment = getattr(import_module(f"reproduction.{module}"), attribute)
    return experiment
