"""Pictures of plain numbers, and what is written in them when they are drawn."""

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from fairspan.displays import (
    DisparityPathDisplay,
    ErrorCurveDisplay,
    GroupLossDisplay,
    LoadingsDisplay,
    ReducedRowsDisplay,
    VarianceKeptDisplay,
)
from fairspan.drawing.pictures import AuditPicture, Estimates, FrontierPicture

mpl.use("Agg")

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


def pictures_of(groups, seed=0):
    """One of each kind, of these groups."""
    rng, k = np.random.default_rng(seed), len(groups)
    dimensions = np.arange(1, 9)
    falling = np.linspace(8, 0, 8)[:, None]
    plain, fair = falling * rng.uniform(1, 2, (2, 1, k))
    shares = rng.uniform(0.2, 0.8, (2, k))
    losses = rng.uniform(0, 3, (2, k))
    points = rng.standard_normal((40 * k, 2))
    factors = rng.standard_normal((k, 2, 2))
    pictures = {
        "errors": ErrorCurveDisplay(
            dimensions,
            groups,
            Estimates.of(plain, 0.9 * plain, 1.1 * plain),
            Estimates.of(fair, 0.9 * fair, 1.1 * fair),
            "minimax_loss",
            0.8 * fair,
            3,
        ),
        "losses": ErrorCurveDisplay(
            dimensions, groups, Estimates.of(plain), Estimates.of(fair), quantity="loss"
        ),
        "kept": VarianceKeptDisplay(groups, *shares, np.full(k, 0.9), 2, "minimax_loss"),
        "group losses": GroupLossDisplay(
            groups,
            dict(zip(("PCA", "minimax_loss"), map(Estimates.of, losses), strict=True)),
            ("PCA",),
            "loss",
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
            current=0.1,
        ),
        "loadings": LoadingsDisplay(rng.standard_normal((3, k)), groups),
        "many loadings": LoadingsDisplay(rng.standard_normal((30, k)), groups),
        "images": LoadingsDisplay(
            rng.standard_normal((7, 12)),
            tuple(map(str, range(12))),
            image_shape=(4, 3),
            plain=rng.standard_normal((7, 12)),
        ),
        "rows": ReducedRowsDisplay(
            points,
            np.arange(len(points)) % k,
            groups,
            rng.standard_normal((k, 2)),
            factors @ factors.transpose(0, 2, 1),
            5000,
        ),
        "audit": AuditPicture(
            groups,
            {
                name: Estimates.of(each, each - 0.2, each + 0.2)
                for name, each in zip(
                    ("minimax_loss", "PCA", groups[0]), rng.uniform(1, 2, (3, k)), strict=True
                )
            },
            ("PCA",),
        ),
    }
    if k == 2:
        angle = np.linspace(0, np.pi / 2, 30)
        curve = np.column_stack([2 - np.cos(angle), 2 - np.sin(angle)])
        turn = np.linspace(0, 2 * np.pi, 100)
        pictures["frontier"] = FrontierPicture(
            curve,
            groups,
            np.column_stack([2 - np.cos(turn), 2 - np.sin(turn)]),
            np.array([1.1, 1.6]),
            {name: np.array([1.3, 1.3]) for name in ("first", "second", "third")},
            2,
        )
    return pictures


def written_in(figure, dpi=100):
    """Every text that is drawn, with its box in pixels and its size in points."""
    written = []
    original = Text.draw

    def draw(self, renderer, *args, **settings):
        if self.get_visible() and self.get_text().strip():
            box = self.get_window_extent(renderer)
            written.append((self.get_text(), box, self.get_fontsize()))
        return original(self, renderer, *args, **settings)

    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    Text.draw = draw
    try:
        canvas.draw()
    finally:
        Text.draw = original
    return written


def overlaps(written, slack=1.0):
    """Pairs of texts whose boxes overlap by more than the slack, in pixels."""
    found = []
    for i, (one, a, _) in enumerate(written):
        for other, b, _ in written[i + 1 :]:
            across = min(a.x1, b.x1) - max(a.x0, b.x0)
            down = min(a.y1, b.y1) - max(a.y0, b.y0)
            if across > slack and down > slack:
                found.append((one, other))
    return found
