"""Draw the README's picture: python docs/first_picture.py (needs the data folder, FAIRSPAN_DATA).

30,000 card holders of Yeh and Lien (2009), grouped by sex and education.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from fairspan import FairPCA, datasets
from fairspan.displays import GroupLossDisplay

PICTURE = Path(__file__).with_name("first-picture.svg")


def display() -> GroupLossDisplay:
    """The losses of six groups, not drawn yet."""
    cards = datasets.load("default_credit", group="education_sex6")
    fair = FairPCA(n_components=8, scale=True)
    fair.fit(cards.X, sensitive_features=cards.sensitive_features)
    return GroupLossDisplay.from_estimator(fair)


def draw(path: Path) -> None:
    """Write the picture, letters as outlines, so that it looks the same everywhere."""
    with matplotlib.rc_context({"svg.hashsalt": "fairspan", "svg.fonttype": "path"}):
        display().plot().figure_.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
