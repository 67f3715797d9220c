"""
Filling in means hides the loss of a group; fitting observed cells does not
===========================================================================

In simulated data, patients who come at night have more missing cells. With means in place of
missing cells they seem to vary less, so a fair fit does less for them and they lose more.
``FairPCA(on_missing="em")`` fits the observed cells. All losses are those on the complete rows.
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
visit = np.repeat(["by day", "at night"], [3_000, 600])


def largest_loss(rows, **settings):
    """Return the largest loss on the complete rows, after a fit to incomplete ones."""
    fair = fs.FairPCA(4, **settings).fit(rows, sensitive_features=visit)
    return max(fs.metrics.excess_loss(fair, X, visit).values())


shares = [0.0, 0.1, 0.2, 0.3]
losses = {"column means": [], "observed cells (EM)": []}
for share in shares:
    is_missing = (rng.random(X.shape) < share) & (visit == "at night")[:, None]
    rows = np.where(is_missing, np.nan, X)
    filled = np.where(is_missing, np.nanmean(rows, axis=0), rows)
    losses["column means"].append(largest_loss(filled))
    losses["observed cells (EM)"].append(largest_loss(rows, on_missing="em"))

figure, axes = plt.subplots(layout="constrained")
for (name, values), color in zip(losses.items(), ("#d55e00", "#0072b2"), strict=True):
    axes.plot(
        [100 * share for share in shares], values, "o-", color=color, label=f"fair PCA, {name}"
    )
axes.axhline(
    largest_loss(X, criterion="total_error"),
    color="#545b65",
    ls="--",
    label="ordinary PCA, complete rows",
)
axes.set(xlabel="missing cells of patients at night, %", ylabel="largest loss of a group")
axes.legend()
plt.show()

# %%
# Increase of the largest loss over that of the fit to complete rows:

best = losses["observed cells (EM)"][0]
for name, values in losses.items():
    print(f"{name}: {', '.join(f'{loss / best - 1:+.0%}' for loss in values)}")
assert losses["observed cells (EM)"][-1] < 1.1 * best
assert losses["column means"][-1] > 1.1 * best
