"""
A gap that is closed on the rows of the fit opens on new rows
=============================================================

Fairness can be learned by heart like anything else. Eight of ten fits on 200 people close the gap
between their groups; on the other 29,800 people it is nearly as wide as PCA's. So audit with rows
that the fit has not seen.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

import fairspan as fs
from reproduction.data import load

people = load("default_credit")
criteria = {"PCA": fs.TotalError(), "error gap": fs.ErrorGap(penalty=2.0)}
gaps = {(name, rows): [] for name in criteria for rows in ("fitted", "new")}
for seed in range(10):
    few, others, g_few, g_others = train_test_split(
        people.X, people.sensitive_features, train_size=200, random_state=seed
    )
    for name, criterion in criteria.items():
        fit = fs.FairPCA(5, criterion=criterion, scale=True).fit(few, sensitive_features=g_few)
        gaps[name, "fitted"].append(abs(fit.disparity_))
        gaps[name, "new"].append(abs(fs.metrics.disparity(fit, others, g_others)))

figure, axes = plt.subplots(layout="constrained")
for place, ((_, rows), values) in enumerate(gaps.items()):
    axes.plot(np.full(10, place), values, "o", color="#d55e00" if rows == "new" else "#0072b2")
    axes.hlines(np.median(values), place - 0.2, place + 0.2, color="black")
axes.set_xticks(range(4), [f"{name},\n{rows} rows" for name, rows in gaps])
axes.set_ylabel("gap between the errors of two groups")
plt.show()

# %%
# The medians of ten draws.

medians = {each: np.median(values) for each, values in gaps.items()}
for each, value in medians.items():
    print(*each, f"{value:.3f}")
assert sum(gap < 0.01 for gap in gaps["error gap", "fitted"]) == 8
assert medians["error gap", "new"] > 1
