"""Data sets, splits and settings of the tables, by effort."""

from dataclasses import dataclass, replace

from reproduction.experiment import Effort
from reproduction.vu import methods
from reproduction.vu.data_sets import DATA_SETS, DataSet
from reproduction.vu.methods import Method, Setting

# The semidefinite program takes ten seconds at this many features and grows with the sixth power.
_MAX_FEATURES = 50
# It runs in the first splits only, and in one where it takes seconds.
_PROGRAM_REPEATS, _MAX_FEATURES_OF_REPEATS = 3, 30
_SHARE = 0.1
_QUICK = ("ecoli", "parkinsons", "wine_quality")

PCA = Method("PCA", None, methods.pca)
CERTIFIED = Method("RFPCA certified", "RFPCA", methods.certified_rfpca)
PAPERS = Method(
    "RFPCA paper's algorithm", "RFPCA", methods.papers_rfpca(3, 1000), follows=CERTIFIED.name
)
FAIR_PCA = Method("FairPCA", "FairPCA", methods.exact_fair_pca)
MEAN = Method("CFPCA mean", "CFPCA_mean", methods.mean_parity)
TOLERANT = Method(
    "CFPCA mean, tolerance chosen",
    "CFPCA_mean",
    methods.mean_parity,
    tuple({"tolerance": tolerance} for tolerance in methods.MEAN_TOLERANCES),
)
BOTH = Method("CFPCA both", "CFPCA_both", methods.closest_covariances)
LIMITED = Method(
    "CFPCA both, limited",
    "CFPCA_both",
    methods.limited_covariances,
    ({"share": _SHARE},),
    max_features=_MAX_FEATURES,
)


@dataclass(frozen=True)
class Plan:
    """Data sets and repeats of a table.

    Attributes
    ----------
    effort : Effort
    data_sets : tuple of DataSet
    n_repeats : int
    """

    effort: Effort
    data_sets: tuple[DataSet, ...]
    n_repeats: int

    @property
    def shortcuts(self) -> tuple[str, ...]:
        """Descriptions of the steps that are less thorough than in the paper."""
        if self.effort is Effort.FULL:
            return ()
        search = (
            "The paper's algorithm runs from three starts at the settings that the certified "
            "search chose; --full gives it the paper's own search with twenty (70 s a split of "
            "Default Credit, hours for the faces)."
        )
        if self.effort is Effort.QUICK:
            return (f"{search} A part of the data sets, splits and settings.",)
        return (
            f"{search} The faces are searched at radius alpha = 0.15 and penalties 0, 0.5 and 1.5 "
            f"only. 'limited' runs in the first {_PROGRAM_REPEATS} splits, over "
            f"{_MAX_FEATURES_OF_REPEATS} features in the first one, over {_MAX_FEATURES} not at "
            "all.",
        )

    def methods(self, data_set: DataSet, repeat: int) -> tuple[Method, ...]:
        """Return the methods that run on a data set in one repeat."""
        certified = replace(CERTIFIED, settings=self._grid(data_set))
        if self.effort is Effort.FULL:
            return self._searched(data_set, certified)
        papers = PAPERS
        if self.effort is Effort.QUICK:
            papers = replace(papers, fit=methods.papers_rfpca(3, 300))
        return (PCA, certified, papers, FAIR_PCA, MEAN, TOLERANT, BOTH, *self._program(repeat))

    def _program(self, repeat: int) -> tuple[Method, ...]:
        if self.effort is Effort.QUICK or repeat == 0:
            return (LIMITED,)
        if repeat >= _PROGRAM_REPEATS:
            return ()
        return (replace(LIMITED, max_features=_MAX_FEATURES_OF_REPEATS),)

    def _grid(self, data_set: DataSet) -> tuple[Setting, ...]:
        if self.effort is Effort.QUICK:
            return methods.grid((0.15,), (0.0, 0.5, 2.5))
        # A certified answer for 576 features takes a second; the radius hardly changes it.
        if data_set.is_large and self.effort is Effort.NORMAL:
            return methods.grid((0.15,), (0.0, 0.5, 1.5))
        return methods.grid(methods.RADII, methods.PENALTIES)

    def _searched(self, data_set: DataSet, certified: Method) -> tuple[Method, ...]:
        """Return the methods of the paper's full search, in which each chooses its own setting."""
        iterations = 500 if data_set.is_large else 1000
        papers = replace(
            PAPERS,
            fit=methods.papers_rfpca(20, iterations),
            settings=certified.settings,
            follows=None,
        )
        weights = Method(
            "FairPCA multiplicative weights",
            "FairPCA",
            methods.multiplicative_fair_pca,
            tuple({"rate": rate} for rate in methods.LEARNING_RATES),
            max_features=_MAX_FEATURES,
        )
        limited = replace(LIMITED, settings=tuple({"share": s} for s in (0.01, 0.05, 0.1, 0.5)))
        return (PCA, certified, papers, FAIR_PCA, weights, MEAN, TOLERANT, BOTH, limited)


def plan_of(effort: Effort) -> Plan:
    """Three small data sets and two splits if quick; otherwise all, and the paper's ten."""
    if effort is Effort.QUICK:
        small = tuple(data_set for data_set in DATA_SETS if data_set.name in _QUICK)
        return Plan(effort, small, 2)
    return Plan(effort, DATA_SETS, 10)
