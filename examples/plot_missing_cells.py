"""
Filling in means hides what a group loses; fitting what is observed does not
============================================================================

Patients who come at night are measured less completely (made data). With means in place of missing
cells they seem to vary less, a fair fit does less for them, and they lose more.
``FairPCA(on_missing="em")`` fits the cells that are observed. All losses are judged on the rows
without holes.
"""

import matplotlib.pyplot as plt
import numpy as np

import fairspan as fs

rng = np.random.default_rng(0)
spread = np.linspace(3, 1, 12)
mixing = np.linalg.qr(rng.standard_normal((12, 12)))[0]
night = rng.standard_normal((600, 12)) * spread[::-1]
day = rng.standard_normal((3_000, 12)) * spread
X = np.vstack([day, night]) @ mixing
come = np.repeat(["by day", "at night"], [3_000, 600])


def largest_loss(rows, **settings):
    """On the rows without holes, of a fit to rows with some."""
    fair = fs.FairPCA(4, **settings).fit(rows, sensitive_features=come)
    return max(fs.metrics.excess_loss(fair, X, come).values())


shares = [0.0, 0.1, 0.2, 0.3]
losses = {"column means": [], "what is observed": []}
for share in shares:
    holes = (rng.random(X.shape) < share) & (come == "at night")[:, None]
    rows = np.where(holes, np.nan, X)
    filled = np.where(holes, np.nanmean(rows, axis=0), rows)
    losses["column means"].append(largest_loss(filled))
    losses["what is observed"].append(largest_loss(rows, on_missing="em"))

figure, axes = plt.subplots(layout="constrained")
for (name, found), color in zip(losses.items(), ("#d55e00", "#0072b2"), strict=True):
    axes.plot([100 * share for share in shares], found, "o-", color=color, label=name)
axes.axhline(
    largest_loss(X, criterion="total_error"),
    color="#545b65",
    ls="--",
    label="nothing missing, ordinary PCA",
)
axes.set(xlabel="missing cells of those who come at night, %", ylabel="largest loss of a group")
axes.legend(title="fair PCA of rows with")
plt.show()

# %%
# How far each is above the fit to complete rows.

best = losses["what is observed"][0]
for name, found in losses.items():
    print(f"{name}: {', '.join(f'{loss / best - 1:+.0%}' for loss in found)}")
assert losses["what is observed"][-1] < 1.1 * best
assert losses["column means"][-1] > 1.1 * best
