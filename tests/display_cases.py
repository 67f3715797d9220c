"""Displays of synthetic figures, and the texts that they draw."""

import warnings

import numpy as np

from fairspan.auditing.estimates import STATE_MEANINGS
from fairspan.auditing.feature_errors import FeatureErrors
from fairspan.displays import (
    AuditDisplay,
    CovarianceLossDisplay,
    DisparityPathDisplay,
    ErrorCurveDisplay,
    FeatureErrorDisplay,
    FrontierDisplay,
    GroupLossDisplay,
    LoadingsDisplay,
    ReducedRowsDisplay,
    VarianceKeptDisplay,
)

HOSTILE = (
    "$\\frac{",
    "_hidden",
    "<b>&amp;",
    "\u4e2d\u6587",
    "\U0001f600",
    "",
    "two\nlines",
    "university or above, not married, at work",
    "university or above, not married, retired",
    "W" * 40,
    "a$b$c",
    "plain",
)
LONG = tuple(f"people of age group number {i + 1}, at work" for i in range(12))


def make_records(groups, models, quantity, ends=(), dimensions=(None,), **more):
    """Return a record for each model, dimension and group; figures are arrays in that order."""
    places = [(name, d, g) for name in models for d in dimensions for g in groups]
    figures = {quantity: [*models.values()], **more}
    figures |= {
        f"{quantity}{end}": limit for end, limit in zip(("_low", "_high"), ends, strict=False)
    }
    columns = {name: np.ravel(np.array(array, dtype=object)) for name, array in figures.items()}
    # Shares of a variance of one equal the values in squared units.
    columns.setdefault("observed_total_variance", np.ones(len(places)))
    return [
        {
            **dict(zip(("model", "n_components", "group"), place, strict=True)),
            **{name: column[i] for name, column in columns.items()},
        }
        for i, place in enumerate(places)
    ]


def make_displays(groups, seed=0):
    """Return a display of each kind for these groups, by name."""
    rng = np.random.default_rng(seed)
    k = len(groups)
    dimensions = range(1, 9)
    falling = np.linspace(8, 0, 8)[:, None]
    plain, fair = falling * rng.uniform(1, 2, (2, 1, k))
    curves = {"PCA": plain, "minimax_loss": fair, "best possible": 0.8 * fair}
    both = np.array([plain, fair])
    every = np.array([*curves.values()])
    two = ("PCA", "minimax_loss")
    three = ("PCA", "minimax_loss", "best possible")
    shares = [*rng.uniform(0.2, 0.8, (2, k)), np.full(k, 0.9)]
    losses, audited = rng.uniform(0, 3, (2, k)), rng.uniform(1, 2, (3, k))
    of_curves = (groups, curves, "observed_error", (0.9 * every, 1.1 * every), dimensions)
    of_audit = dict(zip(("minimax_loss", "PCA", groups[0]), audited, strict=True))
    points = rng.standard_normal((40 * k, 2))
    factors = rng.standard_normal((k, 2, 2))
    pictures = {
        "errors": ErrorCurveDisplay(make_records(*of_curves), "observed_error", 3),
        "losses": ErrorCurveDisplay(
            make_records(
                groups, dict(zip(two, both, strict=True)), "observed_loss", dimensions=dimensions
            ),
            "observed_loss",
        ),
        "kept": VarianceKeptDisplay(
            make_records(groups, dict(zip(three, shares, strict=True)), "observed_variance_kept"),
            "observed_variance_kept",
            n_components=2,
        ),
        "group losses": GroupLossDisplay(
            make_records(groups, dict(zip(two, losses, strict=True)), "observed_loss"),
            "observed_loss",
            n_components=2,
            bound=1.5,
            status="open gap",
        ),
        "path": DisparityPathDisplay(
            np.array([0, 0.01, 0.1, 1, 10]),
            np.array([3, 2, 1, 0, 0.0]),
            np.array([1, 1.1, 1.2, 1.3, 1.3]),
            3.0,
            1.0,
            groups,
            "error_gap",
            selected_value=0.1,
        ),
        "errors by feature": FeatureErrorDisplay(
            FeatureErrors(
                "PCA", groups, groups, *rng.random((2, k, k)), np.ones(k), has_remainder=True
            ),
            is_expected=True,
        ),
        "loadings": LoadingsDisplay(rng.standard_normal((3, k)), groups),
        "many loadings": LoadingsDisplay(rng.standard_normal((30, k)), groups),
        "images": LoadingsDisplay(
            rng.standard_normal((7, 12)),
            tuple(map(str, range(12))),
            image_shape=(4, 3),
            pca_components=rng.standard_normal((7, 12)),
        ),
        "rows": ReducedRowsDisplay(
            points,
            np.arange(len(points)) % k,
            groups,
            rng.standard_normal((k, 2)),
            factors @ factors.transpose(0, 2, 1),
            5000,
        ),
        "audit": AuditDisplay(
            make_records(groups, of_audit, "observed_error", (audited - 0.2, audited + 0.2)),
            "observed_error",
        ),
        "expected losses": AuditDisplay(
            make_records(
                groups,
                dict(zip(two, 0.01 * losses, strict=True)),
                "expected_loss",
                (0.005 * losses, 0.015 * losses),
                state=rng.choice([*STATE_MEANINGS], (2, k)),
            ),
        ),
    }
    pictures["covariance lost"] = CovarianceLossDisplay(
        ("PLS", "PLS, minimax loss"),
        tuple(groups),
        np.arange(1, 9),
        np.clip(np.array([plain, fair]) / 20, 0, 1),
        ("optimal",) * 7 + ("open gap",),
    )
    if k == 2:
        angle = np.linspace(0, np.pi / 2, 30)
        turn = np.linspace(0, 2 * np.pi, 100)
        pictures["frontier"] = FrontierDisplay(
            np.column_stack([2 - np.cos(angle), 2 - np.sin(angle)]),
            groups,
            np.column_stack([2 - np.cos(turn), 2 - np.sin(turn)]),
            np.array([1.1, 1.6]),
            {name: np.array([1.3, 1.3]) for name in ("first", "second", "third")},
            2,
        )
    return pictures


def display_texts(picture):
    """Return every text of a drawn display, its lines joined."""
    from matplotlib.text import Text

    return [" ".join(text.get_text().split()) for text in picture.figure_.findobj(Text)]


def drawn_texts(figure, dpi=100):
    """Return every drawn text with its box in pixels and its size in points."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    texts = []
    original = Text.draw

    def draw(self, renderer, *args, **settings):
        if self.get_visible() and self.get_text().strip():
            box = self.get_window_extent(renderer)
            texts.append((self.get_text(), box, self.get_fontsize()))
        return original(self, renderer, *args, **settings)

    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    Text.draw = draw
    try:
        canvas.draw()
    finally:
        Text.draw = original
    return texts


def find_overlaps(texts, slack=1.0):
    """Return pairs of texts whose boxes overlap by more than the slack, in pixels."""
    overlaps = []
    for i, (one, a, _) in enumerate(texts):
        for other, b, _ in texts[i + 1 :]:
            across = min(a.x1, b.x1) - max(a.x0, b.x0)
            down = min(a.y1, b.y1) - max(a.y0, b.y0)
            if across > slack and down > slack:
                overlaps.append((one, other))
    return overlaps


def draw_case(picture, layout="constrained"):
    """Draw a display and return it with its texts, their boxes and sizes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=picture.figure_size(), layout=layout)
    picture.plot(figure.add_subplot())  # without a warning
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        return picture, drawn_texts(figure)


def draw_without_layout(picture, width=8.0, height=6.0):
    """Draw in a figure of that size, without a layout, and return its axes."""
    from matplotlib.figure import Figure

    return picture.plot(Figure(figsize=(width, height)).add_subplot()).ax_
