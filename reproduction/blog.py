"""The figures of the blog: label bias, the bandit of ten actions, least squares, and PCA."""

from typing import TYPE_CHECKING

import numpy as np

from fairspan import FairPCA
from fairspan.datasets import load_adult
from fairspan.displays.style import BLUE, GREEN
from fairspan.metrics import label_bias, prediction_bias
from fairspan.moments.group_moments import GroupMoments
from fairspan.regression import least_squares
from fairspan.selection import UCB1
from fairspan.typing import FloatArray
from reproduction.comparison import relative_difference
from reproduction.data import load_faces
from reproduction.experiment import Cell, Effort, Result, Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COMPARED = ("quantity", "ours", "printed", "relative difference", "why")
# By protected group: the feature that is 1 for its members, except for the sex; the printed bias.
_ADULT = {
    "female": (None, 0.1963),
    "private": ("workclass=Private", 0.0731),
    "asian_pac_islander": ("race=Asian-Pac-Islander", -0.0256),
    "divorced": ("marital-status=Divorced", 0.1582),
}
_HIGH_INCOME = ">50K"
_OTHER_DRAW = "another draw of the points"


def _comparison_row(
    quantity: str, ours: float, printed: float | None = None, why: str = ""
) -> tuple[Cell, ...]:
    return quantity, ours, printed, relative_difference(ours, printed), why


class Bias:
    """Label bias of the Adult training rows, and of a classifier by country of origin."""

    name = "blog-bias"
    title = "Label bias in Adult: four groups, and a classifier by country"
    source = "The blog's post on statistical parity"
    files = ()

    def run(self, setting: Setting) -> Result:
        """Compute it; too short to keep."""
        people = load_adult("sex")
        features = dict(zip(people.feature_names, people.X.T, strict=True))
        sex = np.char.lower(people.sensitive_features)
        assert people.y is not None
        income = (people.y == _HIGH_INCOME).astype(int)
        rows: list[tuple[Cell, ...]] = []
        for protected, (feature, printed) in _ADULT.items():
            groups = (
                sex if feature is None else np.where(features[feature] == 1, protected, "other")
            )
            bias = label_bias(income, groups, protected)
            rows.append(_comparison_row(f"label bias, {protected}", bias, printed))
        indian = features["native-country=India"]
        bias = prediction_bias(lambda X: X[:, 0], indian[:, None], sex, "female")
        rows.append(_comparison_row("signed bias of 'from India', female", bias))
        rows.append(_comparison_row("share of rows from India", float(indian.mean())))
        return Result(
            self.title,
            _COMPARED,
            rows,
            (
                f"{len(income):,} training rows. Printed to four digits; ours agree in all.",
                "Of the classifier by country the post's text, as we have it, says only that its "
                "bias is not significant.",
            ),
        )


class Bandit:
    """UCB1 on ten actions whose rewards are uniform on [0, 1] plus 1 / k, k = 5 to 14."""

    name = "blog-ucb1"
    title = "UCB1 on ten actions: regret beside its bound"
    source = "The blog's post on UCB1, its experiment"
    files = ()

    def run(self, setting: Setting) -> Result:
        """Play the rounds; a million if full."""
        n_rounds = {Effort.QUICK: 20_000, Effort.NORMAL: 200_000, Effort.FULL: 1_000_000}
        last = n_rounds[setting.effort]
        marks = [mark for mark in (1000, 10_000, 100_000, 200_000, 500_000, 10**6) if mark <= last]
        marks += [] if last in marks else [last]
        regrets = setting.store.get_or_compute("rounds", lambda: _regrets(marks, setting))
        policy = UCB1(len(_BIASES))
        bounds = [_LARGEST * policy.regret_bound(_MEANS, mark) for mark in marks]
        worst = [_LARGEST * policy.worst_case_bound(mark) for mark in marks]
        rows: list[tuple[Cell, ...]] = list(zip(marks, regrets, bounds, worst, strict=True))
        return Result(
            self.title,
            ("rounds", "regret", "bound by the gaps", "bound for any arms"),
            rows,
            (
                "Rewards are divided by 1.2, their largest value, for the policy, and regret and "
                "bounds multiplied by it again. The post shows a picture without figures: both "
                "curves grow as the logarithm, the regret far below the bound, as here.",
                "Here the bonus is sqrt(2 log t / n) after t plays, as in the post's text; its "
                "listing has log(t + 1), which makes no difference that can be seen.",
            ),
            lambda figure: _draw_regret(figure, marks, regrets, bounds),
        )


_BIASES = np.array([1.0 / k for k in range(5, 15)])
_LARGEST = 1.2
_MEANS = (0.5 + _BIASES) / _LARGEST


def _regrets(marks: list[int], setting: Setting) -> list[float]:
    """Return the regret at each number of rounds, in the post's units of reward."""
    policy = UCB1(len(_BIASES))
    generator = np.random.default_rng(setting.seed)
    regrets = []
    for number, (start, end) in enumerate(zip([0, *marks[:-1]], marks, strict=True)):
        setting.progress(f"to round {end}", number, len(marks))
        for noise in generator.uniform(size=end - start).tolist():
            arm = policy.select()
            policy.update(arm, (noise + float(_BIASES[arm])) / _LARGEST)
        regrets.append(_LARGEST * policy.cumulative_regret(_MEANS))
    return regrets


def _draw_regret(
    figure: "Figure", marks: list[int], regrets: list[float], bounds: list[float]
) -> None:
    figure.set_size_inches(6.4, 4.2)
    axes = figure.subplots()
    axes.plot(marks, regrets, color=BLUE, marker="o", label="regret")
    axes.plot(marks, bounds, color=GREEN, marker="o", label="bound")
    axes.set(xscale="log", xlabel="rounds", ylabel="cumulative regret")
    axes.legend(frameon=False)


class LeastSquares:
    """Both examples of the post, with the same truth and another draw."""

    name = "blog-regression"
    title = "Least squares in one and in five variables"
    source = "The blog's post on linear regression"
    files = ()

    def run(self, setting: Setting) -> Result:
        """Draw 100 points twice; too short to keep."""
        generator = np.random.default_rng(setting.seed)
        x = generator.uniform(0, 10, (100, 1))
        one = _fit(x, 0.5 * x[:, 0] + 7 + generator.uniform(-0.2, 0.2, 100))
        five = generator.uniform(size=(100, 5))
        noise = generator.uniform(-0.05, 0.05, 100)
        many = _fit(five, five @ np.arange(1.0, 6.0) - 3 + noise)
        printed_one = (6.97687136, 0.50284939)
        printed_many = (-3.02698484, 1.03984389, 2.01999929, 3.0046756, 4.01240348, 4.99515123)
        names = ["intercept", *(f"coefficient {i}" for i in range(1, 6))]
        rows = [
            (f"{title}: {name}", *_comparison_row("", ours, printed, _OTHER_DRAW)[1:], truth)
            for title, estimates, printed_all, truths in (
                ("one variable", one, printed_one, (7.0, 0.5)),
                ("five variables", many, printed_many, (-3.0, 1.0, 2.0, 3.0, 4.0, 5.0)),
            )
            for name, ours, printed, truth in zip(
                names[: len(estimates)], estimates, printed_all, truths, strict=True
            )
        ]
        return Result(
            self.title,
            (*_COMPARED, "truth"),
            rows,
            (
                "The post's points are drawn without a seed, so both are compared with the truth. "
                "The noise of one variable is uniform on (-0.2, 0.2); of five it is not printed, "
                "here uniform on (-0.05, 0.05).",
            ),
        )


def _fit(X: FloatArray, y: FloatArray) -> list[float]:
    """Return intercept and coefficients of y, from moments."""
    moments = GroupMoments.from_rows(np.column_stack([X, y]), ["all"] * len(X))
    model = least_squares(moments, X.shape[1])
    return [model.intercept, *model.coefficients.tolist()]


class Components:
    """The post's claims about principal components, on the faces."""

    name = "blog-pca"
    title = "Principal components of faces: uncorrelated, and few keep most of the variance"
    source = "The blog's posts on principal components and eigenfaces"
    files = ("lfw",)

    def run(self, setting: Setting) -> Result:
        """Compute it."""
        faces = load_faces(setting.data, n_per_gender=500, shape=(24, 18))
        pca = FairPCA(20, criterion="total_error", missing_groups="ignore").fit(faces.X)
        scores = pca.transform(faces.X)
        correlations = np.corrcoef(scores, rowvar=False)
        listing = np.linalg.eigvalsh(np.cov(faces.X, rowvar=False))[::-1][:20]
        captured = pca.explained_variance_ratio_.cumsum()
        ours = pca.explained_variance_ * len(faces.X) / (len(faces.X) - 1)
        rows = [
            _comparison_row(
                "largest correlation of two components",
                float(np.abs(correlations - np.eye(20)).max()),
                None,
            ),
            _comparison_row(
                "largest difference to the listing's eigenvalues",
                float(np.abs(ours / listing - 1).max()),
                None,
                "the listing divides by n - 1, ours by n",
            ),
            _comparison_row("share of the variance in 1 of 432", float(captured[0])),
            _comparison_row("share of the variance in 5 of 432", float(captured[4])),
            _comparison_row("share of the variance in 20 of 432", float(captured[19])),
        ]
        return Result(
            self.title,
            _COMPARED,
            rows,
            (
                "1,000 faces of 24 by 18 pixels. The post says that a small part of the components "
                "often has more than 90 % of the variation, and that about 20 of 36,000 were "
                "enough to recognize faces; it prints no share.",
            ),
        )


BIAS, BANDIT, LEAST_SQUARES, COMPONENTS = Bias(), Bandit(), LeastSquares(), Components()
